//! Calls written as elements with raw text in them: `<function=NAME><parameter=K>V</parameter>…`
//! and the like.
//!
//! Raw text may hold what looks like a tag. A value ends at the first closing tag that is followed
//! by the next parameter, by the end of the function, or by the end of the text; white space may
//! stand between. A function ends where nothing, or another function, follows its closing tag. So
//! `a</parameter>b` is a value.
//!
//! A closing tag may be missing: then the value ends where a line begins with the opening tag of a
//! parameter that the tool has and that was not given yet, or where the function ends (remark
//! `call_tag_missing`).

use super::arguments::Arguments;
use super::bytes::{find, is_blank, without_leading};
use super::grammar::{Called, Found};
use crate::turn::Tool;

/// How a family writes its elements.
pub(super) struct Form {
    /// Up to the name: `<function=`.
    pub call_open: &'static str,
    /// `</function>`.
    pub call_close: &'static str,
    /// Up to the name: `<parameter=`.
    pub parameter_open: &'static str,
    /// `</parameter>`.
    pub parameter_close: &'static str,
    /// Whether a value stands on lines of its own: one newline on each side is none of it.
    pub on_lines: bool,
    /// Whether names may stand in quotes.
    pub quotes: bool,
}

/// A position in the text.
struct Cursor<'a> {
    form: &'a Form,
    text: &'a str,
    at: usize,
    /// Where the next parameter really closes, if that has been looked up: none if nowhere.
    close: Option<Option<usize>>,
    remarks: Vec<&'static str>,
}

impl Form {
    /// Whether this text begins such a call, or may when there is more of it.
    pub(super) fn attempted(&self, text: &[u8]) -> bool {
        let (text, open) = (without_leading(text, is_blank), self.call_open.as_bytes());
        text.starts_with(open) || open.starts_with(text)
    }

    /// Reads one or more calls with nothing but white space around them.
    pub(super) fn read(&self, text: &[u8], tools: &[Tool]) -> Result<Found, &'static str> {
        let text = std::str::from_utf8(text).map_err(|_| "call_bad_tags")?;
        let mut cursor = Cursor { form: self, text, at: 0, close: None, remarks: Vec::new() };
        let mut calls = Vec::new();
        cursor.skip_blanks();
        while cursor.at < text.len() {
            calls.push(cursor.call(tools)?);
            cursor.skip_blanks();
        }
        match calls.is_empty() {
            true => Err("call_bad_tags"),
            false => Ok(Found { calls, remarks: cursor.remarks }),
        }
    }

    /// The name in an opening tag at the start of the text, and the length of the tag.
    fn opening<'a>(&self, text: &'a str, open: &str) -> Option<(&'a str, usize)> {
        let rest = text.strip_prefix(open)?;
        let line = rest.find(['>', '<', '\n']).filter(|&end| rest.as_bytes()[end] == b'>')?;
        let name = rest[..line].trim();
        let bare = ['"', '\'']
            .into_iter()
            .find_map(|mark| name.strip_prefix(mark).and_then(|name| name.strip_suffix(mark)));
        let name = if self.quotes { bare.unwrap_or(name) } else { name };
        Some((name, open.len() + line + 1))
    }

    /// Whether a function ends at this place of the text.
    fn ends_call(&self, text: &str, at: usize) -> bool {
        let behind = text[at..].strip_prefix(self.call_close).map(str::trim_ascii_start);
        behind.is_some_and(|rest| rest.is_empty() || rest.starts_with(self.call_open))
    }
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_ascii_start().len();
    }

    fn call(&mut self, tools: &[Tool]) -> Result<Called, &'static str> {
        let form = self.form;
        let (name, length) = form.opening(self.rest(), form.call_open).ok_or("call_bad_tags")?;
        if name.is_empty() {
            return Err("call_no_name");
        }
        self.at += length;
        let mut arguments = Arguments::of(tools, name);
        loop {
            self.skip_blanks();
            let rest = self.rest();
            if rest.starts_with(form.call_close) {
                self.at += form.call_close.len();
                break;
            }
            if rest.is_empty() || rest.starts_with(form.call_open) {
                self.remarks.push("call_tag_missing");
                break;
            }
            let opening = form.opening(rest, form.parameter_open);
            let (key, length) = opening.ok_or("call_bad_tags")?;
            self.at += length;
            let value = self.value(key, &arguments);
            arguments.add(key, value);
        }
        let (arguments, remarks) = arguments.finish();
        self.remarks.extend(remarks);
        Ok(Called::new(name.to_owned(), arguments))
    }

    /// The value whose opening tag was just passed, and steps over its end.
    fn value(&mut self, key: &str, given: &Arguments<'_>) -> &'a str {
        let (start, form) = (self.at, self.form);
        let close = self.next_close();
        let limit = close.unwrap_or(self.text.len());
        if let Some(next) = self.next_parameter(key, given, limit) {
            return self.unclosed(start, next);
        }
        let Some(end) = close else {
            let mut closes = places(&self.text[start..], form.call_close);
            let end = closes.find(|at| form.ends_call(self.text, start + at));
            return self.unclosed(start, end.map_or(self.text.len(), |at| start + at));
        };
        self.at = end + form.parameter_close.len();
        let value = &self.text[start..end];
        if form.on_lines { without_newline_after(without_newline_before(value)) } else { value }
    }

    /// A value without closing tag: it does not own the newline before what ends it.
    fn unclosed(&mut self, start: usize, end: usize) -> &'a str {
        self.remarks.push("call_tag_missing");
        self.at = end;
        let value = without_newline_after(&self.text[start..end]);
        if self.form.on_lines { without_newline_before(value) } else { value }
    }

    /// Where the next parameter closes, by the rule of the module.
    fn next_close(&mut self) -> Option<usize> {
        if let Some(known) = self.close
            && known.is_none_or(|at| at >= self.at)
        {
            return known;
        }
        let form = self.form;
        let closes = places(self.rest(), form.parameter_close).map(|at| self.at + at);
        let closes_value = |&at: &usize| {
            let behind = self.text[at + form.parameter_close.len()..].trim_ascii_start();
            behind.is_empty()
                || behind.starts_with(form.parameter_open)
                || form.ends_call(behind, 0)
        };
        let found = { closes }.find(closes_value);
        self.close = Some(found);
        found
    }

    /// Where, before `limit`, a line opens a parameter that is still to come.
    fn next_parameter(&self, key: &str, given: &Arguments<'_>, limit: usize) -> Option<usize> {
        let text = &self.text[..limit];
        let mut opens = places(&text[self.at..], self.form.parameter_open).map(|at| self.at + at);
        opens.find(|&at| {
            let begins_line = text[..at].ends_with('\n');
            let name = self.form.opening(&text[at..], self.form.parameter_open);
            begins_line && name.is_some_and(|(name, _)| name != key && given.awaits(name))
        })
    }
}

/// Where `part` stands in `text`, in order.
fn places<'a>(text: &'a str, part: &'a str) -> impl Iterator<Item = usize> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + find(&text.as_bytes()[from..], part.as_bytes())?;
        from = at + part.len();
        Some(at)
    })
}

fn without_newline_before(text: &str) -> &str {
    text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n')).unwrap_or(text)
}

fn without_newline_after(text: &str) -> &str {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text)
}
