//! What conditions are about: an exchange, looked at in place.

use std::cell::OnceCell;

use regex::Regex;

use super::Evidence;
use crate::turn::{Message, Role};

/// Of a longer text than two of these, the first and the last so many bytes are looked at: a tool
/// result of many megabytes must not cost every exchange after it.
const END_BYTES: usize = 64 << 10;

/// Facts of one exchange. Nothing of the history is copied.
pub(super) struct Facts<'a> {
    pub(super) evidence: &'a Evidence<'a>,
    /// Messages behind the leading instructions.
    pub(super) messages: u32,
    pub(super) first_user: &'a str,
    pub(super) last_user: &'a str,
    pub(super) last: &'a str,
    format: OnceCell<String>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(evidence: &'a Evidence<'a>) -> Self {
        let messages = &evidence.asked.messages;
        let instructs = |m: &&Message| matches!(m.role, Role::System | Role::Developer);
        let leading = messages.iter().take_while(instructs).count();
        let is_user = |m: &&Message| m.role == Role::User;
        let text = |message: Option<&'a Message>| message.map_or("", |m| m.content.as_str());
        Self {
            evidence,
            messages: (messages.len() - leading) as u32,
            first_user: text(messages.iter().find(is_user)),
            last_user: text(messages.iter().rev().find(is_user)),
            last: text(messages.last()),
            format: OnceCell::new(),
        }
    }

    /// What a user said last, but for messages in which this is found.
    pub(super) fn last_user_but(&self, skip: &Regex) -> &'a str {
        let users = self.evidence.asked.messages.iter().rev().filter(|m| m.role == Role::User);
        let mut texts = users.map(|message| message.content.as_str());
        texts.find(|text| !found(skip, text)).unwrap_or_default()
    }

    /// Whether a tool of this canonical name is on offer.
    pub(super) fn offers(&self, name: &str) -> bool {
        self.evidence.asked.tools.iter().any(|tool| tool["function"]["name"] == name)
    }

    /// The values of the headers of this lower-case name.
    pub(super) fn header(&self, name: &str) -> impl Iterator<Item = &str> {
        let found = self.evidence.headers.iter().filter(move |header| header.name == name);
        found.map(|header| header.value.as_str())
    }

    /// The JSON text of the form that the answer was asked to have; empty where it was not.
    pub(super) fn format(&self) -> &str {
        let written = || self.evidence.asked.format.as_ref().map(ToString::to_string);
        self.format.get_or_init(|| written().unwrap_or_default())
    }
}

/// Whether the pattern is found in the text, or in either end of a long one.
pub(super) fn found(pattern: &Regex, text: &str) -> bool {
    if text.len() <= 2 * END_BYTES {
        return pattern.is_match(text);
    }
    let head = &text[..text.floor_char_boundary(END_BYTES)];
    // A match that needs the cut to be the text's end is none.
    pattern.shortest_match(head).is_some_and(|end| end < head.len())
        || pattern.is_match_at(text, text.floor_char_boundary(text.len() - END_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: bool) {
        assert_eq!(found(&Regex::new(pattern).unwrap(), text), expected, "{pattern}");
    }

    #[test]
    fn long_texts_are_looked_at_from_both_ends() {
        let long = format!("begin {}MIDDLE{} end", "é".repeat(END_BYTES), "é".repeat(END_BYTES));
        for (pattern, expected) in [
            ("^begin", true),
            ("end$", true),
            ("MIDDLE", false),
            // Neither cut is an end of the text.
            ("é$", false),
            ("^é", false),
            (r"(?s)^begin.*", true),
            (r"é\z|\Aé", false),
        ] {
            check(pattern, &long, expected);
        }
        let short = format!("begin {}MIDDLE end", "e".repeat(END_BYTES));
        check("MIDDLE", &short, true);
    }
}
