//! What a family tells the machine: the texts of its markers and how it writes a call.
//!
//! Markers are looked up as added tokens, once, when a machine is made.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::call::Written;
use crate::id::TokenId;
use crate::render::Tokenizer;
use crate::turn::Tool;

/// Texts of tokens that mean the same.
pub(super) type Texts = &'static [&'static str];

/// One family's markers and calls. A family without a kind of marker has no texts for it.
pub(super) struct Grammar {
    /// Opens reasoning.
    pub think_open: Texts,
    /// Ends reasoning.
    pub think_close: Texts,
    /// Begins anyone's turn: what a prompt says about thoughts before it says nothing about now.
    pub turn_open: Texts,
    /// Ends the turn, besides the close token of the template.
    pub ends: Texts,
    /// Opens a section of calls.
    pub section_open: Texts,
    /// Ends a section of calls.
    pub section_close: Texts,
    /// How models misspell the two in ordinary tokens; recognised only right next to a call.
    pub section_misspelt: Option<(&'static str, &'static str)>,
    /// Opens a call.
    pub call_open: Texts,
    /// Ends a call.
    pub call_close: Texts,
    /// Markers inside a call, by kind: [`Mark::kind`] is the place in this list.
    pub inner: Texts,
    /// Whether an answer may think again between texts and calls.
    pub interleaved: bool,
    /// What a call begins and ends with between its markers, where that alone makes it a call.
    pub bare: Option<(&'static str, &'static str)>,
    /// Whether text behind a call opener is an attempt at a call rather than prose about the
    /// marker. Asked where the opener stood in open reasoning.
    pub attempted: fn(&Body<'_>, &[Tool]) -> bool,
    /// Reads what stands between call markers, or says in a remark why it is no call.
    pub read: fn(&Body<'_>, &[Tool]) -> Result<Found, &'static str>,
}

/// What stands between the markers of a call.
pub(super) struct Body<'a> {
    /// All of it, inner markers included.
    pub text: &'a [u8],
    /// Where inner markers stand in it, in order.
    pub marks: Cow<'a, [Mark]>,
}

/// An inner marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// Offset of its first byte.
    pub start: usize,
    /// Offset behind its last byte.
    pub end: usize,
    /// Which one: a place in [`Grammar::inner`].
    pub kind: usize,
}

/// The calls of one pair of markers.
#[derive(Default, PartialEq, Debug)]
pub(super) struct Found {
    /// At least one.
    pub calls: Vec<Called>,
    /// What was tolerated.
    pub remarks: Vec<&'static str>,
}

/// A call, and the id the model gave it where its family gives ids.
#[derive(PartialEq, Debug)]
pub(super) struct Called {
    pub written: Written,
    pub id: Option<String>,
}

impl Called {
    /// A call whose id is ours to make.
    pub(super) fn new(name: String, arguments: String) -> Self {
        Self { written: Written { name, arguments, as_string: false }, id: None }
    }
}

impl Found {
    /// One call, with nothing to say about it.
    pub(super) fn one(call: Called) -> Self {
        Self { calls: vec![call], remarks: Vec::new() }
    }
}

/// What a token means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    ThinkOpen,
    ThinkClose,
    SectionOpen,
    SectionClose,
    CallOpen,
    CallClose,
    /// A place in [`Grammar::inner`].
    Inner(usize),
    End,
    /// Another control token: it has no business in an answer.
    Control,
    Text,
}

/// The markers of a grammar that a vocabulary has.
pub(super) struct Lexicon<'a> {
    tokenizer: &'a dyn Tokenizer,
    roles: Vec<(TokenId, Role)>,
    /// No id outside has a role: most tokens are looked up no further.
    range: RangeInclusive<TokenId>,
    /// Inner markers that are no added tokens of this vocabulary: found by their letters.
    spelled: Vec<(usize, &'static [u8])>,
}

impl<'a> Lexicon<'a> {
    /// Looks the markers up. `close` is the token by which the template ends a turn.
    pub(super) fn new(grammar: &Grammar, tokenizer: &'a dyn Tokenizer, close: TokenId) -> Self {
        let mut roles = Vec::new();
        if is_added(tokenizer, close) {
            roles.push((close, Role::End));
        }
        let kinds = [
            (grammar.ends, Role::End),
            (grammar.think_open, Role::ThinkOpen),
            (grammar.think_close, Role::ThinkClose),
            (grammar.section_open, Role::SectionOpen),
            (grammar.section_close, Role::SectionClose),
            (grammar.call_open, Role::CallOpen),
            (grammar.call_close, Role::CallClose),
        ];
        for (texts, role) in kinds {
            let ids = texts.iter().filter_map(|text| tokenizer.added(text));
            roles.extend(ids.map(|id| (id, role)));
        }
        let mut spelled = Vec::new();
        for (kind, text) in grammar.inner.iter().enumerate() {
            match tokenizer.added(text) {
                Some(id) => roles.push((id, Role::Inner(kind))),
                None => spelled.push((kind, text.as_bytes())),
            }
        }
        let ids = || roles.iter().map(|&(id, _)| id);
        let range = ids().min().unwrap_or(1)..=ids().max().unwrap_or(0);
        Self { tokenizer, roles, range, spelled }
    }

    /// Bytes and role of a token; `None` for an id outside the vocabulary.
    pub(super) fn look_up(&self, id: TokenId) -> Option<(&'a [u8], Role)> {
        let bytes = self.tokenizer.bytes_of(id)?;
        let mut roles = self.roles.iter();
        let known = self.range.contains(&id).then(|| roles.find(|(known, _)| *known == id));
        let role = match known.flatten() {
            Some(&(_, role)) => role,
            None if is_bracketed(bytes) && is_added(self.tokenizer, id) => Role::Control,
            None => Role::Text,
        };
        Some((bytes, role))
    }

    /// A call's body whose token markers are known.
    pub(super) fn body<'b>(&self, text: &'b [u8], marks: &'b [Mark]) -> Body<'b> {
        if self.spelled.is_empty() {
            return Body { text, marks: Cow::Borrowed(marks) };
        }
        let mut all = marks.to_vec();
        for at in (0..text.len()).filter(|&at| matches!(text[at], b'<' | b'[')) {
            let fits = |(_, spelled): &&(usize, &[u8])| text[at..].starts_with(spelled);
            if let Some(&(kind, spelled)) = self.spelled.iter().find(fits) {
                all.push(Mark { start: at, end: at + spelled.len(), kind });
            }
        }
        all.sort_unstable_by_key(|mark| mark.start);
        Body { text, marks: Cow::Owned(all) }
    }

    /// Whether a prompt ends in an open thought: the last bracket of a thought in the present turn
    /// decides. Thoughts of earlier turns say nothing about it.
    pub(super) fn thought_is_open(&self, grammar: &Grammar, prompt_tail: &[TokenId]) -> bool {
        let ids = |texts: Texts| texts.iter().filter_map(|text| self.tokenizer.added(text));
        let opens: Vec<TokenId> = ids(grammar.think_open).collect();
        let others: Vec<TokenId> = ids(grammar.think_close).chain(ids(grammar.turn_open)).collect();
        let last = prompt_tail.iter().rev().find(|id| opens.contains(id) || others.contains(id));
        last.is_some_and(|id| opens.contains(id))
    }
}

fn is_added(tokenizer: &dyn Tokenizer, id: TokenId) -> bool {
    let text = tokenizer.bytes_of(id).and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.is_some_and(|text| tokenizer.added(text) == Some(id))
}

/// Whether a token has the shape of a control token, with plain bars or full-width ones.
fn is_bracketed(bytes: &[u8]) -> bool {
    let plain = bytes.len() > 4 && bytes.starts_with(b"<|") && bytes.ends_with(b"|>");
    let wide = "<\u{ff5c}".as_bytes();
    plain || bytes.len() > 8 && bytes.starts_with(wide) && bytes.ends_with("\u{ff5c}>".as_bytes())
}
