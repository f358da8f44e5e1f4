//! DeepSeek: a section `<｜tool▁calls▁begin｜>…<｜tool▁calls▁end｜>` of calls
//! `<｜tool▁call▁begin｜>…<｜tool▁call▁end｜>`. A call of V3.1 reads `NAME<｜tool▁sep｜>{…}`; in V3 and R1 it
//! reads `function<｜tool▁sep｜>NAME` and, on the next lines, the arguments in a code fence for `json`.
//!
//! Each reads the other's form as well (remark `call_other_form`), for some checkpoints mix
//! them. A section may be missing around a call (remark `section_missing`), and so may the fence
//! around the arguments (remark `call_fence_missing`). Arguments are the model's bytes.

use super::bytes::{is_blank, trimmed};
use super::call;
use super::grammar::{Body, Called, Found, Grammar};
use crate::turn::Tool;

/// V3 and R1.
pub(super) static V3: Grammar = Grammar {
    think_open: &["<think>"],
    think_close: &["</think>"],
    turn_open: &["<｜User｜>", "<｜Assistant｜>"],
    ends: &["<｜end▁of▁sentence｜>"],
    section_open: &["<｜tool▁calls▁begin｜>"],
    section_close: &["<｜tool▁calls▁end｜>"],
    section_misspelt: None,
    call_open: &["<｜tool▁call▁begin｜>"],
    call_close: &["<｜tool▁call▁end｜>"],
    inner: &["<｜tool▁sep｜>"],
    interleaved: false,
    bare: None,
    attempted,
    read: |body, _| read(body, Form::Fenced),
};

/// V3.1.
pub(super) static V31: Grammar = Grammar { read: |body, _| read(body, Form::Plain), ..V3 };

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Fenced,
    Plain,
}

/// Prose has words; what stands before the separator is one word.
fn attempted(body: &Body<'_>, _: &[Tool]) -> bool {
    !body.marks.is_empty() || !trimmed(body.text).iter().any(|&byte| is_blank(byte))
}

fn read(body: &Body<'_>, expected: Form) -> Result<Found, &'static str> {
    let sep = body.marks.first().ok_or("call_no_arguments")?;
    let (kind, rest) = (trimmed(&body.text[..sep.start]), &body.text[sep.end..]);
    let form = match kind == b"function" && !trimmed(rest).starts_with(b"{") {
        true => Form::Fenced,
        false => Form::Plain,
    };
    let mut remarks = Vec::new();
    if form != expected {
        remarks.push("call_other_form");
    }
    let (name, json) = match form {
        Form::Plain => (kind, rest),
        Form::Fenced => {
            let end = rest.iter().position(|&byte| byte == b'\n').ok_or("call_no_arguments")?;
            let (json, fenced) = unfenced(&rest[end..]);
            if !fenced {
                remarks.push("call_fence_missing");
            }
            (trimmed(&rest[..end]), json)
        }
    };
    let name = std::str::from_utf8(name).map_err(|_| "call_bad_name")?;
    if name.is_empty() {
        return Err("call_no_name");
    }
    let call = Called::new(name.to_owned(), call::object(json)?);
    Ok(Found { calls: vec![call], remarks })
}

/// The text in a code fence, and whether there was one.
fn unfenced(text: &[u8]) -> (&[u8], bool) {
    let text = trimmed(text);
    match text.strip_prefix(b"```").and_then(|text| text.strip_suffix(b"```")) {
        Some(inner) => (inner.strip_prefix(b"json").unwrap_or(inner), true),
        None => (text, false),
    }
}

#[cfg(test)]
mod tests;
