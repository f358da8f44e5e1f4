//! What conditions are about: an exchange, looked at in place.

use std::cell::OnceCell;

use regex::Regex;

use super::conditions::Pattern;
use super::{Evidence, Recall};
use crate::turn::{Message, Role};

/// Of a longer text than two of these, the first and the last so many bytes are looked at: a tool
/// result of many megabytes must not cost every exchange after it.
const END_BYTES: usize = 64 << 10;

/// A text that patterns are looked for in.
#[derive(Clone, Copy)]
pub(super) enum Said<'a> {
    /// What a message says; nothing, where there is no such message.
    Message(Option<&'a Message>),
    /// The leading instructions, as sent.
    Instructions,
    /// Something short.
    Text(&'a str),
}

/// Facts of one exchange. Nothing of the history is copied.
pub(super) struct Facts<'a> {
    pub(super) evidence: &'a Evidence<'a>,
    /// Messages behind the leading instructions.
    pub(super) messages: u32,
    /// What was found before, and where users speak.
    known: Option<(&'a Recall, &'a [usize])>,
    format: OnceCell<String>,
}

impl<'a> Facts<'a> {
    /// `known`: what was found in texts that come again, and the indexes of the messages of users.
    pub(super) fn of(evidence: &'a Evidence<'a>, known: Option<(&'a Recall, &'a [usize])>) -> Self {
        let messages = &evidence.asked.messages;
        let instructs = |m: &&Message| matches!(m.role, Role::System | Role::Developer);
        let leading = messages.iter().take_while(instructs).count();
        let messages = (messages.len() - leading) as u32;
        Self { evidence, messages, known, format: OnceCell::new() }
    }

    /// What a user said first.
    pub(super) fn first_user(&self) -> Said<'a> {
        let messages = &self.evidence.asked.messages;
        Said::Message(match self.known {
            Some((_, users)) => users.first().map(|first| &messages[*first]),
            None => messages.iter().find(|message| message.role == Role::User),
        })
    }

    /// What a user said last.
    pub(super) fn last_user(&self) -> Said<'a> {
        Said::Message(self.users().next())
    }

    /// What a user said last, but for messages in which this is found.
    pub(super) fn last_user_but(&self, skip: &Pattern) -> Said<'a> {
        Said::Message(self.users().find(|said| !self.found(skip, Said::Message(Some(said)))))
    }

    /// What was said last, by whomever.
    pub(super) fn last(&self) -> Said<'a> {
        Said::Message(self.evidence.asked.messages.last())
    }

    /// Messages of users, the last one first.
    fn users(&self) -> impl Iterator<Item = &'a Message> {
        let messages = &self.evidence.asked.messages;
        let known = self.known.map(|(_, users)| users);
        let all = messages.iter().rev().filter(|message| message.role == Role::User);
        let all = all.take(if known.is_some() { 0 } else { usize::MAX });
        let listed = known.unwrap_or_default().iter().rev().map(|at| &messages[*at]);
        listed.chain(all)
    }

    /// Whether a pattern is found there. What was found before is not searched again.
    pub(super) fn found(&self, pattern: &Pattern, said: Said<'_>) -> bool {
        let recall = self.known.map(|(recall, _)| recall);
        match (said, recall) {
            (Said::Message(Some(message)), Some(recall)) => recall.in_message(pattern, message),
            (Said::Message(message), _) => {
                found(&pattern.regex, message.map_or("", |message| &message.content))
            }
            (Said::Instructions, Some(recall)) => {
                recall.in_instructions(pattern, self.evidence.system)
            }
            (Said::Instructions, None) => found(&pattern.regex, self.evidence.system),
            (Said::Text(text), _) => found(&pattern.regex, text),
        }
    }

    /// Whether a tool of this canonical name is on offer.
    pub(super) fn offers(&self, name: &str) -> bool {
        let tools = &self.evidence.asked.tools;
        match self.known {
            Some((recall, _)) => recall.offers(tools, name),
            None => tools.iter().any(|tool| tool["function"]["name"] == name),
        }
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
