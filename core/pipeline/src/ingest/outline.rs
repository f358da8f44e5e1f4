//! Where the parts of a body are: one structural pass.
//!
//! Strings are skipped, brackets are counted, and the grammar is checked between the parts that are
//! handed out; what is inside of these is not. Whoever reads every part knows that the whole is
//! JSON. A body that is not, or is nested too deep, has no outline.

use std::borrow::Cow;

use memchr::memchr2;

use crate::limits::JSON_DEPTH;

/// Where a text begins in its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// At the body's first byte.
    Body,
    /// In the list, before its first entry.
    List,
    /// In the list, behind an entry.
    Entry,
}

/// A member of the body.
#[derive(Debug)]
pub(super) struct Member<'t> {
    /// Its name as it is written, quotes included.
    pub(super) key: &'t str,
    pub(super) name: Cow<'t, str>,
    pub(super) value: &'t str,
}

/// The parts of a text.
#[derive(Default, Debug)]
pub(super) struct Outline<'t> {
    /// Members before the list; all of them, where there is none.
    pub(super) head: Vec<Member<'t>>,
    /// Where the list's first entry may stand, in bytes.
    pub(super) list: Option<usize>,
    /// The list's entries.
    pub(super) entries: Vec<&'t str>,
    /// Where the list's closing bracket is, in bytes.
    pub(super) close: usize,
    /// Members behind the list.
    pub(super) tail: Vec<Member<'t>>,
    /// Whether a string may hold half of a surrogate pair.
    pub(super) surrogates: bool,
}

/// The outline of a text that goes on to the body's end. `list` is the name of the list.
pub(super) fn outline<'t>(text: &'t str, start: Start, list: &str) -> Option<Outline<'t>> {
    let mut pass = Pass { text, bytes: text.as_bytes(), at: 0, surrogates: false };
    let mut outline = Outline::default();
    let mut listed = start != Start::Body;
    match start {
        Start::Body => {
            pass.blank();
            pass.expect(b'{')?;
        }
        Start::List | Start::Entry => {
            outline.list = Some(0);
            pass.entries(start, &mut outline.entries)?;
            outline.close = pass.at;
            pass.expect(b']')?;
        }
    }
    let mut first = start == Start::Body;
    while !pass.closes(first)? {
        first = false;
        let key = pass.string()?;
        pass.blank();
        pass.expect(b':')?;
        pass.blank();
        let name = name(key)?;
        if name == list && pass.peek()? == b'[' {
            if std::mem::replace(&mut listed, true) {
                return None;
            }
            pass.at += 1;
            outline.list = Some(pass.at);
            pass.entries(Start::List, &mut outline.entries)?;
            outline.close = pass.at;
            pass.expect(b']')?;
            continue;
        }
        let value = pass.value(2)?;
        let members = if listed { &mut outline.tail } else { &mut outline.head };
        members.push(Member { key, name, value });
    }
    pass.blank();
    outline.surrogates = pass.surrogates;
    (pass.at == text.len()).then_some(outline)
}

/// The outline of a text that ends before the list's closing bracket.
pub(super) fn middle(text: &str, start: Start) -> Option<Outline<'_>> {
    let mut pass = Pass { text, bytes: text.as_bytes(), at: 0, surrogates: false };
    let mut outline = Outline { list: Some(0), ..Outline::default() };
    pass.entries(start, &mut outline.entries)?;
    outline.close = pass.at;
    outline.surrogates = pass.surrogates;
    (pass.at == text.len()).then_some(outline)
}

/// The name that a key is.
fn name(key: &str) -> Option<Cow<'_, str>> {
    let inner = key.get(1..key.len() - 1)?;
    match inner.contains('\\') {
        true => serde_json::from_str(key).ok().map(Cow::Owned),
        false => Some(Cow::Borrowed(inner)),
    }
}

struct Pass<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    surrogates: bool,
}

impl<'t> Pass<'t> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Whether the body's object ends here; else a member follows.
    fn closes(&mut self, first: bool) -> Option<bool> {
        self.blank();
        match self.peek()? {
            b'}' => {
                self.at += 1;
                Some(true)
            }
            b',' if !first => {
                self.at += 1;
                self.blank();
                Some(false)
            }
            _ if first => Some(false),
            _ => None,
        }
    }

    /// The entries of the list, up to its closing bracket or the end of the text.
    fn entries(&mut self, start: Start, entries: &mut Vec<&'t str>) -> Option<()> {
        let mut follows = start == Start::Entry;
        loop {
            self.blank();
            match self.peek() {
                None | Some(b']') => return Some(()),
                Some(b',') if follows => {
                    self.at += 1;
                    self.blank();
                }
                Some(_) if !follows => {}
                Some(_) => return None,
            }
            entries.push(self.value(3)?);
            follows = true;
        }
    }

    /// A value, of which brackets would be nested this deep.
    fn value(&mut self, depth: usize) -> Option<&'t str> {
        let begin = self.at;
        match self.peek()? {
            b'"' => drop(self.string()?),
            b'{' | b'[' => self.brackets(depth)?,
            b',' | b']' | b'}' | b':' => return None,
            _ => {
                let ends = |byte: &u8| {
                    matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r' | b'"')
                };
                let rest = &self.bytes[begin..];
                self.at += rest.iter().position(ends).unwrap_or(rest.len());
            }
        }
        self.text.get(begin..self.at)
    }

    /// What stands in brackets, of which the outer ones are nested this deep.
    fn brackets(&mut self, depth: usize) -> Option<()> {
        let mut open = depth - 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => {
                    open += 1;
                    if open >= JSON_DEPTH {
                        return None;
                    }
                }
                b'}' | b']' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open < depth {
                return Some(());
            }
        }
    }

    /// A string with its quotes.
    fn string(&mut self) -> Option<&'t str> {
        let begin = self.at;
        self.expect(b'"')?;
        loop {
            self.at += memchr2(b'"', b'\\', self.bytes.get(self.at..)?)?;
            if self.bytes[self.at] == b'"' {
                self.at += 1;
                return self.text.get(begin..self.at);
            }
            self.surrogates |= matches!(
                self.bytes.get(self.at + 1..self.at + 4),
                Some([b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F'])
            );
            self.at += 2;
        }
    }
}
