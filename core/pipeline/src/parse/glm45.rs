//! GLM 4.5 and later:
//! `<tool_call>NAME\n<arg_key>K</arg_key>\n<arg_value>V</arg_value>\n</tool_call>`, with or without the
//! newlines. The token that opens the next turn (`<|user|>`, `<|observation|>`) ends this one.
//!
//! The tags inside are tokens too; where a vocabulary lacks them, their letters count. Values are
//! exact, and typed by the tool's schema. A value ends at the first `</arg_value>` that is
//! followed by the next key or by nothing. A missing `<arg_value>` or `</arg_value>` is tolerated
//! (remark `call_tag_missing`): a value that is not closed ends at a key that the tool has and that
//! was not given yet, or at the end.
//!
//! In open reasoning a call opener begins a call if a key follows, or the name of a tool on offer.

use super::arguments::Arguments;
use super::bytes::{is_blank, trimmed};
use super::call;
use super::grammar::{Body, Called, Found, Grammar, Mark};
use crate::turn::Tool;

const KEY_OPEN: usize = 0;
const KEY_CLOSE: usize = 1;
const VALUE_OPEN: usize = 2;
const VALUE_CLOSE: usize = 3;

/// GLM's.
pub(super) static GRAMMAR: Grammar = Grammar {
    think_open: &["<think>"],
    think_close: &["</think>"],
    turn_open: &["<|assistant|>", "<|user|>", "<|observation|>", "<|system|>"],
    ends: &["<|user|>", "<|observation|>", "<|endoftext|>"],
    section_open: &[],
    section_close: &[],
    section_misspelt: None,
    call_open: &["<tool_call>"],
    call_close: &["</tool_call>"],
    inner: &["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
    interleaved: false,
    bare: None,
    attempted,
    read,
};

fn attempted(body: &Body<'_>, tools: &[Tool]) -> bool {
    if let Some(mark) = body.marks.first() {
        return mark.kind == KEY_OPEN;
    }
    let name = trimmed(body.text);
    let begins = |tool: &Tool| call::name_of(tool).as_bytes().starts_with(name);
    name.is_empty() || tools.iter().any(begins)
}

/// Goes through the pairs of a call.
struct Pairs<'a> {
    text: &'a str,
    marks: &'a [Mark],
    /// The mark that comes next.
    next: usize,
    /// The next mark that really closes a value, if that has been looked up: none if nowhere.
    close: Option<Option<usize>>,
    missing: bool,
}

fn read(body: &Body<'_>, tools: &[Tool]) -> Result<Found, &'static str> {
    let text = std::str::from_utf8(body.text).map_err(|_| "call_bad_tags")?;
    let start = body.marks.first().map_or(text.len(), |mark| mark.start);
    let name = text[..start].trim();
    if name.is_empty() {
        return Err("call_no_name");
    }
    if name.bytes().any(|byte| is_blank(byte) || matches!(byte, b'<' | b'{' | b'"')) {
        return Err("call_bad_name");
    }
    let mut arguments = Arguments::of(tools, name);
    let mut pairs = Pairs { text, marks: &body.marks, next: 0, close: None, missing: false };
    while pairs.next < pairs.marks.len() {
        let (key, value) = pairs.pair(&arguments)?;
        arguments.add(key, value);
    }
    let (arguments, mut remarks) = arguments.finish();
    if pairs.missing {
        remarks.push("call_tag_missing");
    }
    Ok(Found { calls: vec![Called::new(name.to_owned(), arguments)], remarks })
}

impl<'a> Pairs<'a> {
    fn kind(&self, place: usize) -> Option<usize> {
        self.marks.get(place).map(|mark| mark.kind)
    }

    /// The text between a mark and the one behind it, or the end.
    fn behind(&self, place: usize) -> &'a str {
        let end = self.marks.get(place + 1).map_or(self.text.len(), |mark| mark.start);
        self.marks.get(place).map_or("", |mark| &self.text[mark.end..end])
    }

    fn is_blank_behind(&self, place: usize) -> bool {
        self.behind(place).trim_ascii().is_empty()
    }

    /// The key between this mark and the next, if a key is written there.
    fn key(&self, place: usize) -> Option<&'a str> {
        let brackets = (self.kind(place), self.kind(place + 1));
        let key =
            (brackets == (Some(KEY_OPEN), Some(KEY_CLOSE))).then(|| self.behind(place).trim());
        key.filter(|key| !key.is_empty())
    }

    fn pair(&mut self, given: &Arguments<'_>) -> Result<(&'a str, &'a str), &'static str> {
        let key = self.key(self.next).ok_or("call_bad_tags")?;
        let key_close = self.next + 1;
        let opened =
            self.kind(key_close + 1) == Some(VALUE_OPEN) && self.is_blank_behind(key_close);
        self.missing |= !opened;
        let opener = if opened { key_close + 1 } else { key_close };
        let start = self.marks[opener].end;
        let close = self.next_close(opener + 1);
        let mut between = opener + 1..close.unwrap_or(self.marks.len());
        let awaited = |key: &str| given.awaits(key);
        let early = between.find(|&place| self.key(place).is_some_and(|k| k != key && awaited(k)));
        let (end, next) = match (early, close) {
            (None, Some(close)) => (self.marks[close].start, close + 1),
            (early, _) => {
                self.missing = true;
                let next = early.unwrap_or(self.marks.len());
                (self.marks.get(next).map_or(self.text.len(), |mark| mark.start), next)
            }
        };
        self.next = next;
        let value = &self.text[start..end];
        let value = if opened { value } else { value.trim_start_matches('\n') };
        let closed = early.is_none() && close.is_some();
        Ok((key, if closed { value } else { value.trim_end_matches('\n') }))
    }

    /// The first mark from here on that closes a value, by the rule of the module.
    fn next_close(&mut self, from: usize) -> Option<usize> {
        if let Some(known) = self.close
            && known.is_none_or(|place| place >= from)
        {
            return known;
        }
        let closes = |&place: &usize| {
            let next = self.kind(place + 1);
            self.kind(place) == Some(VALUE_CLOSE)
                && self.is_blank_behind(place)
                && (next.is_none() || next == Some(KEY_OPEN))
        };
        let found = (from..self.marks.len()).find(closes);
        self.close = Some(found);
        found
    }
}

#[cfg(test)]
mod tests;
