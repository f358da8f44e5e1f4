//! Kimi K2: a section of calls
//! `<|tool_call_begin|>functions.NAME:IDX<|tool_call_argument_begin|>{…}<|tool_call_end|>`.
//!
//! The header is the call's id and is kept as it stands, for the template writes it back: an id of
//! ours would change the prompt. An id that occurs twice in one answer names the first call only
//! (remark `call_id_repeated`).
//!
//! Odd headers (remark `call_header_odd`) are understood if exactly one tool fits: without prefix or
//! index (`NAME:0`, `functions.NAME`), glued (`functionsNAME0`), or a bare counter
//! (`call00003`, `functions:3`), which fits the tools whose schemas have all the keys that are given
//! and ask for no other. Else the call is content (`call_no_name`).
//!
//! The section's markers in the singular are no tokens, so models spell them in letters: they are
//! taken right before and right after a call (remark `section_misspelt`).

use super::bytes::{is_blank, trimmed};
use super::call;
use super::grammar::{Body, Called, Found, Grammar};
use super::schema::Parameters;
use crate::turn::Tool;

/// Kimi K2's.
pub(super) static GRAMMAR: Grammar = Grammar {
    think_open: &["<think>", "◁think▷"],
    think_close: &["</think>", "◁/think▷"],
    turn_open: &["<|im_system|>", "<|im_user|>", "<|im_assistant|>"],
    ends: &["<|im_end|>", "[EOS]"],
    section_open: &["<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"],
    section_close: &["<|tool_calls_section_end|>", "<|tool_call_section_end|>"],
    section_misspelt: Some(("<|tool_call_section_begin|>", "<|tool_call_section_end|>")),
    call_open: &["<|tool_call_begin|>"],
    call_close: &["<|tool_call_end|>"],
    inner: &["<|tool_call_argument_begin|>"],
    interleaved: false,
    bare: None,
    attempted,
    read,
};

/// Prose has words; a header is one word.
fn attempted(body: &Body<'_>, _: &[Tool]) -> bool {
    !body.marks.is_empty() || !trimmed(body.text).iter().any(|&byte| is_blank(byte))
}

fn read(body: &Body<'_>, tools: &[Tool]) -> Result<Found, &'static str> {
    let begin = body.marks.first().ok_or("call_no_arguments")?;
    let header =
        std::str::from_utf8(&body.text[..begin.start]).map_err(|_| "call_bad_name")?.trim();
    let arguments = call::object(&body.text[begin.end..])?;
    let regular = regular(header);
    let name = match regular {
        Some(name) => name.to_owned(),
        None => fitting(header, &arguments, tools).ok_or("call_no_name")?,
    };
    let call = Called { id: Some(header.to_owned()), ..Called::new(name, arguments) };
    let remarks = if regular.is_some() { Vec::new() } else { vec!["call_header_odd"] };
    Ok(Found { calls: vec![call], remarks })
}

/// The name in `functions.NAME:IDX`.
fn regular(header: &str) -> Option<&str> {
    let (name, index) = header.strip_prefix("functions.")?.rsplit_once(':')?;
    let counts = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    (counts && !name.is_empty() && !name.bytes().any(is_blank)).then_some(name)
}

/// The one tool that an odd header can mean.
fn fitting(header: &str, arguments: &str, tools: &[Tool]) -> Option<String> {
    let bare = header.trim_end_matches(|c: char| c.is_ascii_digit());
    let bare = bare.trim_end_matches([':', '_', '.', '-']);
    let counter =
        header != bare && matches!(bare, "" | "call" | "functions" | "function" | "tool_call");
    let fits = |tool: &&Tool| {
        let name = call::name_of(tool);
        if counter {
            return !name.is_empty() && Parameters::of(tools, name).fit(arguments);
        }
        names(header, name)
    };
    let mut fitting = tools.iter().filter(fits).map(call::name_of);
    let first = fitting.next()?;
    fitting.all(|other| other == first).then(|| first.to_owned())
}

/// Whether a header is this name, with or without a prefix before it and an index behind it.
fn names(header: &str, name: &str) -> bool {
    let prefixes = ["functions.", "functions:", "functions_", "functions", ""];
    !name.is_empty()
        && prefixes.iter().any(|prefix| {
            let rest = header.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(name));
            rest.is_some_and(|rest| {
                let index = rest.trim_start_matches([':', '_', '.', '-']);
                index.bytes().all(|byte| byte.is_ascii_digit())
            })
        })
}

#[cfg(test)]
mod tests;
