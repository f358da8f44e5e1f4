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
pub(super) struct ControlTexts {
    /// Longest first, so that the first that fits is the one a tokenizer takes.
    tokens: Vec<(String, TokenId)>,
    first_bytes: [bool; 256],
}

impl ControlTexts {
    /// Prepares the search.
    pub fn new(added: &[AddedToken]) -> Self {
        let mut tokens: Vec<_> = added.iter().map(|token| (token.text.clone(), token.id)).collect();
        tokens.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let mut first_bytes = [false; 256];
        for (text, _) in &tokens {
            if let Some(first) = text.bytes().next() {
                first_bytes[usize::from(first)] = true;
            }
        }
        Self { tokens, first_bytes }
    }

    /// The first added token in `text`: where it begins, its text and id.
    pub fn find<'a>(&'a self, text: &str) -> Option<(usize, &'a str, TokenId)> {
        let bytes = text.as_bytes();
        let mut from = 0;
        while let Some(step) =
            bytes.get(from..)?.iter().position(|byte| self.first_bytes[usize::from(*byte)])
        {
            let at = from + step;
            let fits = |token: &&(String, TokenId)| bytes[at..].starts_with(token.0.as_bytes());
            if let Some((token, id)) = self.tokens.iter().find(fits) {
                return Some((at, token, *id));
            }
            from = at + 1;
        }
        None
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
        guard: &Guard<'_>,
        out: &mut Vec<TokenId>,
    ) -> Result<(), String> {
        let mut rest = text;
        while let Some((at, token, id)) = self.find(rest) {
            tokenizer.encode(&guard.remove(&rest[..at]), ControlText::Plain, out)?;
            out.push(id);
            rest = &rest[at + token.len()..];
        }
        tokenizer.encode(&guard.remove(rest), ControlText::Plain, out)
    }
}

/// How outside text goes into one render.
pub(super) struct Guard<'a> {
    /// The texts to guard; `None` leaves all text as it is.
    texts: Option<&'a ControlTexts>,
    mark: char,
    /// The mark as `ensure_ascii` would spell it.
    escaped: String,
    placed: Cell<bool>,
    collided: Cell<bool>,
}

/// How many guards may be tried: the private-use characters of the basic plane.
pub(super) const GUARDS: u32 = 0x1900;

impl<'a> Guard<'a> {
    /// The guard of the `attempt`th try.
    pub fn new(texts: Option<&'a ControlTexts>, attempt: u32) -> Self {
        let code = 0xE000 + attempt % GUARDS;
        Self {
            texts,
            mark: char::from_u32(code).unwrap_or('\u{E000}'),
            escaped: format!("\\u{code:04x}"),
            placed: Cell::new(false),
            collided: Cell::new(false),
        }
    }

    /// Whether any guard was placed.
    pub fn placed(&self) -> bool {
        self.placed.get()
    }

    /// Whether outside text held the mark: then the render means nothing, and another attempt is due.
    pub fn collided(&self) -> bool {
        self.collided.get()
    }

    /// Outside text, guarded.
    pub fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(texts) = self.texts else { return Cow::Borrowed(text) };
        if text.contains(self.mark) || text.contains(&self.escaped) {
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

    /// Text without its guards.
    pub fn remove<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !self.placed() {
            return Cow::Borrowed(text);
        }
        let text = match text.contains(self.mark) {
            true => Cow::Owned(text.replace(self.mark, "")),
            false => Cow::Borrowed(text),
        };
        match text.contains(&self.escaped) {
            true => Cow::Owned(text.replace(&self.escaped, "")),
            false => text,
        }
    }
}
