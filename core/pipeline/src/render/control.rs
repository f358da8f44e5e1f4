//! Control text: what outside text can spell to forge turns, and how it is kept plain.
//!
//! Before a strict render, a guard character is put into every added token's text that comes from
//! outside. What the template itself writes has no guard; so after the render, markers are exactly
//! the unguarded ones, and what is between them is encoded as plain text, guards removed.

use std::borrow::Cow;
use std::cell::Cell;

use super::vocabulary::AddedToken;
use super::{ControlText, Tokenizer};
use crate::id::TokenId;

/// The texts of the added tokens, ready to be searched for.
#[derive(Clone)]
pub(super) struct ControlTexts {
    /// Longest first, so that the first that fits is the one a tokenizer takes.
    tokens: Vec<(String, TokenId)>,
    firsts: Firsts,
}

/// The bytes that an added token may begin with.
#[derive(Clone)]
enum Firsts {
    /// One, as with most vocabularies: `<`.
    One(u8),
    Several(Box<[bool; 256]>),
}

impl Firsts {
    fn of(tokens: &[(String, TokenId)]) -> Self {
        let mut all = Box::new([false; 256]);
        let mut only = None;
        for first in tokens.iter().filter_map(|(text, _)| text.bytes().next()) {
            all[usize::from(first)] = true;
            only = only.or(Some(first)).filter(|only| *only == first);
        }
        let count = all.iter().filter(|is| **is).count();
        match only {
            Some(first) if count == 1 => Firsts::One(first),
            _ => Firsts::Several(all),
        }
    }

    fn next(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            Firsts::One(first) => memchr::memchr(*first, bytes),
            Firsts::Several(all) => bytes.iter().position(|byte| all[usize::from(*byte)]),
        }
    }
}

impl ControlTexts {
    /// Prepares the search.
    pub fn new(added: &[AddedToken]) -> Self {
        let mut tokens: Vec<_> = added.iter().map(|token| (token.text.clone(), token.id)).collect();
        tokens.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let firsts = Firsts::of(&tokens);
        Self { tokens, firsts }
    }

    /// The first added token in `text`: where it begins, its text and id.
    pub fn find<'a>(&'a self, text: &str) -> Option<(usize, &'a str, TokenId)> {
        let bytes = text.as_bytes();
        let mut from = 0;
        while let Some(step) = self.firsts.next(bytes.get(from..)?) {
            let at = from + step;
            if let Some((token, id)) = self.at(&bytes[at..]) {
                return Some((at, token, id));
            }
            from = at + 1;
        }
        None
    }

    /// The added token that this begins with.
    pub fn at(&self, bytes: &[u8]) -> Option<(&str, TokenId)> {
        let fits = |token: &&(String, TokenId)| bytes.starts_with(token.0.as_bytes());
        self.tokens.iter().find(fits).map(|(text, id)| (text.as_str(), *id))
    }

    /// Whether the text of any token begins before `at` and ends behind it.
    pub fn crosses(&self, text: &[u8], at: usize) -> bool {
        let longest = self.tokens.first().map_or(0, |(text, _)| text.len());
        let mut from = at.saturating_sub(longest);
        while let Some(step) = text.get(from..at).and_then(|rest| self.firsts.next(rest)) {
            let begin = from + step;
            let mut longer = self.tokens.iter().take_while(|(token, _)| token.len() > at - begin);
            if longer.any(|(token, _)| text[begin..].starts_with(token.as_bytes())) {
                return true;
            }
            from = begin + 1;
        }
        false
    }

    /// A text without markers and white space.
    pub fn strip(&self, mut text: &str) -> String {
        let mut out = String::new();
        while let Some((at, marker, _)) = self.find(text) {
            out.extend(text[..at].split_whitespace());
            text = &text[at + marker.len()..];
        }
        out.extend(text.split_whitespace());
        out
    }

    /// Encodes a render in which outside text is guarded.
    pub fn encode_guarded(
        &self,
        tokenizer: &dyn Tokenizer,
        text: &str,
        marks: &Marks,
        out: &mut Vec<TokenId>,
    ) -> Result<(), String> {
        let mut rest = text;
        while let Some((at, token, id)) = self.find(rest) {
            tokenizer.encode(&marks.remove(&rest[..at]), ControlText::Plain, out)?;
            out.push(id);
            rest = &rest[at + token.len()..];
        }
        tokenizer.encode(&marks.remove(rest), ControlText::Plain, out)
    }
}

/// How outside text goes into one render.
pub(super) struct Guard<'a> {
    /// The texts to guard; `None` leaves all text as it is.
    texts: Option<&'a ControlTexts>,
    attempt: u32,
    mark: char,
    /// The mark as `ensure_ascii` would spell it.
    escaped: [u8; 6],
    placed: Cell<bool>,
    collided: Cell<bool>,
}

/// What was put into outside text of a render, to be taken out again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Marks {
    mark: char,
    escaped: [u8; 6],
    placed: bool,
}

/// How many guards may be tried: the private-use characters of the basic plane.
pub(super) const GUARDS: u32 = 0x1900;

impl<'a> Guard<'a> {
    /// The guard of the `attempt`th try.
    pub fn new(texts: Option<&'a ControlTexts>, attempt: u32) -> Self {
        let code = 0xE000 + attempt % GUARDS;
        Self {
            texts,
            attempt,
            mark: char::from_u32(code).unwrap_or('\u{E000}'),
            escaped: escaped(code),
            placed: Cell::new(false),
            collided: Cell::new(false),
        }
    }

    /// Whether it is the one that is tried first.
    pub fn is_first(&self) -> bool {
        self.attempt == 0
    }

    /// Whether any guard was placed.
    pub fn placed(&self) -> bool {
        self.placed.get()
    }

    /// What it put into the text so far.
    pub fn marks(&self) -> Marks {
        Marks { mark: self.mark, escaped: self.escaped, placed: self.placed() }
    }

    /// Takes in text that was guarded before, by the guard that is tried first.
    pub fn take_in(&self, placed: bool) {
        self.placed.set(self.placed() || placed);
    }

    /// Whether outside text held the mark: then the render means nothing, and another attempt is due.
    pub fn collided(&self) -> bool {
        self.collided.get()
    }

    /// Outside text, guarded.
    pub fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(texts) = self.texts else { return Cow::Borrowed(text) };
        if text.contains(self.mark) || text.contains(spelled(&self.escaped)) {
            self.collided.set(true);
        }
        let Some((mut at, _, _)) = texts.find(text) else { return Cow::Borrowed(text) };
        self.placed.set(true);
        let mut out = String::with_capacity(text.len() + 16);
        let mut rest = text;
        loop {
            // Behind the first character, so that stripping or splitting at the edges of the text
            // meets what it would have met. Overlapping look-alikes are found one by one.
            let cut = at + rest[at..].chars().next().map_or(1, char::len_utf8);
            out.push_str(&rest[..cut]);
            out.push(self.mark);
            rest = &rest[cut..];
            match texts.find(rest) {
                Some((next, _, _)) => at = next,
                None => break,
            }
        }
        out.push_str(rest);
        Cow::Owned(out)
    }
}

impl Marks {
    /// Whether there are any.
    pub fn placed(&self) -> bool {
        self.placed
    }

    /// Text without them.
    pub fn remove<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !self.placed {
            return Cow::Borrowed(text);
        }
        let text = match text.contains(self.mark) {
            true => Cow::Owned(text.replace(self.mark, "")),
            false => Cow::Borrowed(text),
        };
        let escaped = spelled(&self.escaped);
        match text.contains(escaped) {
            true => Cow::Owned(text.replace(escaped, "")),
            false => text,
        }
    }
}

/// `\uXXXX`, in lower case.
fn escaped(code: u32) -> [u8; 6] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |shift: u32| DIGITS[(code >> shift) as usize & 15];
    [b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]
}

fn spelled(escaped: &[u8; 6]) -> &str {
    std::str::from_utf8(escaped).unwrap_or("\\ue000")
}
