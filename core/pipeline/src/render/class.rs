//! What a chat template does to the turns that are already there.

use serde::Serialize;

use super::Model;
use super::conversation;
use crate::turn::{Message, Role};

/// What a chat template does to history when messages are added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TemplateClass {
    /// Nothing: a longer conversation begins with the shorter one.
    AppendOnly,
    /// Nothing as long as only tool results follow; a new user message changes earlier turns.
    AppendOnlyInToolCycle,
    /// It changes earlier turns always: every turn is rendered whole and is a segment of its own.
    RewritesHistory,
}

impl TemplateClass {
    /// The name used in messages and reports.
    pub fn name(self) -> &'static str {
        match self {
            TemplateClass::AppendOnly => "append_only",
            TemplateClass::AppendOnlyInToolCycle => "append_only_in_tool_cycle",
            TemplateClass::RewritesHistory => "rewrites_history",
        }
    }
}

/// A conversation on which a template showed what it does to history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Counterexample {
    /// The conversation so far, and what was added, in short.
    pub messages: String,
    /// What is wrong with the longer conversation.
    pub what: String,
    /// Text that was to be there, around the first difference.
    pub expected: String,
    /// Text that is there instead.
    pub got: String,
}

impl Counterexample {
    /// Of two texts that were to be equal, or of which the second was to begin with the first.
    pub(super) fn between(messages: String, what: &str, expected: &str, got: &str) -> Self {
        let same = expected.bytes().zip(got.bytes()).take_while(|(a, b)| a == b).count();
        let around = |text: &str| -> String {
            let mut from = same.min(text.len());
            while !text.is_char_boundary(from) {
                from -= 1;
            }
            let before = text[..from].char_indices().rev().take(BEFORE).last();
            let from = before.map_or(from, |(at, _)| at);
            text[from..].chars().take(BEFORE + BEHIND).collect()
        };
        Self { messages, what: what.to_owned(), expected: around(expected), got: around(got) }
    }
}

/// Characters that a counterexample shows before the first difference, and behind it.
const BEFORE: usize = 30;
const BEHIND: usize = 50;

/// Which new messages make a template change earlier turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Rewriters {
    /// A user message.
    pub user: bool,
    /// A user message that is all tool result (`<tool_response>…</tool_response>`).
    pub result_as_user: bool,
    /// A system or developer message behind the beginning.
    pub instructions: bool,
}

impl Model {
    /// Whether the template changes earlier turns of a conversation that these messages follow.
    pub fn changes_past(&self, new: &[Message]) -> bool {
        match self.class {
            TemplateClass::AppendOnly => false,
            TemplateClass::AppendOnlyInToolCycle => {
                new.iter().any(|message| self.rewrites(message))
            }
            TemplateClass::RewritesHistory => true,
        }
    }

    fn rewrites(&self, message: &Message) -> bool {
        match message.role {
            Role::User if is_result(&message.content) => self.rewriters.result_as_user,
            Role::User => self.rewriters.user,
            Role::System | Role::Developer => self.rewriters.instructions,
            Role::Assistant | Role::Tool => false,
        }
    }

    /// How many of these messages, which follow an answer, are instructions that the template
    /// refuses there: they are rendered as user messages in a fixed wrapper.
    pub fn wrapped_instructions(&self, new: &[Message]) -> u32 {
        let count = new.iter().filter(|message| conversation::instructs(message)).count();
        if self.constants.forms.wraps_instructions { count as u32 } else { 0 }
    }
}

/// Templates tell a person's message from a tool result in its place by these ends.
fn is_result(content: &str) -> bool {
    content.starts_with("<tool_response>") && content.ends_with("</tool_response>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counterexample_shows_what_is_around_the_first_difference() {
        let text = |word: &str| format!("{}é{word}{}", "a".repeat(90), "z".repeat(90));
        let found = Counterexample::between("m".to_owned(), "w", &text("x"), &text("ü"));
        assert_eq!(found.expected, format!("{}éx{}", "a".repeat(29), "z".repeat(49)));
        assert_eq!(found.got, format!("{}éü{}", "a".repeat(29), "z".repeat(49)));
        let found = Counterexample::between("m".to_owned(), "w", "abc", "ab");
        assert_eq!((found.expected.as_str(), found.got.as_str()), ("abc", "ab"));
    }
}
