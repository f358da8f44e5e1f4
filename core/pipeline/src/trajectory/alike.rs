//! Whether a message that an agent sends is one that is stored, though their digests differ.

use std::borrow::Cow;

use serde_json::Value;

use super::Reader;
use super::canonical::canonical_arguments;
use super::element::is_empty;
use crate::rules::{JOINED_ANSWERS, PARTIAL_ANSWER, RuleSet, Spot, aligned};
use crate::turn::{Message, Role, ToolCall};

/// An element that lost more than so many tokens is no longer what it was: the agent manages its
/// window, and the model must be shown that.
pub(super) const LOST_TOKENS: u32 = 64;

/// How two messages are the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Likeness {
    /// The rule that says so.
    pub(super) rule: String,
    /// The one sent is only the begin of the stored one.
    pub(super) partial: bool,
}

/// How a sent message is the stored one, by `masked` rules or as a part of it.
pub(super) fn alike(
    rules: &RuleSet,
    reader: &dyn Reader,
    stored: &Message,
    sent: &Message,
) -> Option<Likeness> {
    if stored.role != sent.role || stored.media_dropped != sent.media_dropped {
        return None;
    }
    let masked = match stored.role {
        Role::Assistant => same_answer(rules, stored, sent),
        role => same_text(rules, role, &read(rules, stored), &read(rules, sent)),
    };
    if let Some(rule) = masked {
        let name = rule.and_then(|rule| rules.name(rule))?;
        return Some(Likeness { rule: name.to_owned(), partial: false });
    }
    let partial = stored.role == Role::Assistant
        && rules.built_in(PARTIAL_ANSWER)
        && is_part(reader, stored, sent);
    partial.then(|| Likeness { rule: PARTIAL_ANSWER.to_owned(), partial })
}

/// Whether one message is several answers in a row, with white space of the agent's between them.
pub(super) fn joins<'m>(
    rules: &RuleSet,
    stored: impl Iterator<Item = &'m Message> + Clone,
    sent: &Message,
) -> Option<Likeness> {
    if !rules.built_in(JOINED_ANSWERS) || text_follows_calls(stored.clone()) {
        return None;
    }
    let calls: Vec<_> = stored.clone().flat_map(|message| &message.tool_calls).collect();
    let visible = |text: &str| text.split_whitespace().collect::<String>();
    let text: String = stored.map(|message| visible(&message.content)).collect();
    let same = text == visible(&sent.content)
        && calls.len() == sent.tool_calls.len()
        && calls.iter().zip(&sent.tool_calls).all(|(left, right)| same_call(left, right));
    same.then(|| Likeness { rule: JOINED_ANSWERS.to_owned(), partial: false })
}

/// Whether one of these messages says something behind calls: a single message cannot hold that.
fn text_follows_calls<'m>(run: impl Iterator<Item = &'m Message>) -> bool {
    let mut called = false;
    run.into_iter().any(|message| {
        let follows = called && !message.content.trim().is_empty();
        called |= !message.tool_calls.is_empty();
        follows
    })
}

fn read<'m>(rules: &RuleSet, message: &'m Message) -> Cow<'m, str> {
    rules.read(message, Spot { leading: false, last: false }).text
}

/// `None`: they differ. Otherwise the rule that makes them equal, where one is needed.
type Same = Option<Option<u16>>;

fn same_text(rules: &RuleSet, role: Role, stored: &str, sent: &str) -> Same {
    match stored == sent {
        true => Some(None),
        false => aligned(rules, role, stored, sent).map(Some),
    }
}

fn same_answer(rules: &RuleSet, stored: &Message, sent: &Message) -> Same {
    if stored.tool_calls.len() != sent.tool_calls.len() {
        return None;
    }
    let (one, other) = (stored.content.trim(), sent.content.trim());
    let mut rule = same_text(rules, Role::Assistant, one, other)?;
    for (stored, sent) in stored.tool_calls.iter().zip(&sent.tool_calls) {
        if stored.name != sent.name {
            return None;
        }
        rule = rule.or(same_arguments(rules, &stored.arguments, &sent.arguments)?);
    }
    Some(rule)
}

fn same_arguments(rules: &RuleSet, stored: &str, sent: &str) -> Same {
    let (one, other) = (canonical_arguments(stored), canonical_arguments(sent));
    if one == other {
        return Some(None);
    }
    match (serde_json::from_str(stored), serde_json::from_str(sent)) {
        (Ok(stored), Ok(sent)) => same_value(rules, &stored, &sent),
        _ => same_text(rules, Role::Assistant, stored, sent),
    }
}

fn same_value(rules: &RuleSet, stored: &Value, sent: &Value) -> Same {
    match (stored, sent) {
        (Value::String(stored), Value::String(sent)) => {
            same_text(rules, Role::Assistant, stored, sent)
        }
        (Value::Array(stored), Value::Array(sent)) if stored.len() == sent.len() => {
            let mut pairs = stored.iter().zip(sent);
            pairs.try_fold(None, |rule, (l, r)| Some(rule.or(same_value(rules, l, r)?)))
        }
        (Value::Object(stored), Value::Object(sent)) if stored.len() == sent.len() => {
            let mut pairs = stored.iter();
            pairs.try_fold(None, |rule: Option<u16>, (key, value)| {
                Some(rule.or(same_value(rules, value, sent.get(key)?)?))
            })
        }
        _ => {
            let spelled = |value: &Value| canonical_arguments(&value.to_string());
            (spelled(stored) == spelled(sent)).then_some(None)
        }
    }
}

fn same_call(stored: &ToolCall, sent: &ToolCall) -> bool {
    stored.name == sent.name
        && canonical_arguments(&stored.arguments) == canonical_arguments(&sent.arguments)
}

/// Whether the one sent is the begin of the stored answer: its text up to some place, or its text
/// and some of its calls, or its calls alone; and little is lost.
fn is_part(reader: &dyn Reader, stored: &Message, sent: &Message) -> bool {
    let (whole, part) = (stored.content.trim(), sent.content.trim());
    let kept = sent.tool_calls.len();
    let begins = !is_empty(sent)
        && whole.starts_with(part)
        && (kept == 0 || part == whole || part.is_empty())
        && kept <= stored.tool_calls.len()
        && stored.tool_calls.iter().zip(&sent.tool_calls).all(|(l, r)| same_call(l, r));
    if !begins {
        return false;
    }
    let calls = stored.tool_calls[kept..].iter();
    let lost = calls.map(|call| reader.tokens(&call.name) + reader.tokens(&call.arguments));
    lost.sum::<u32>() + reader.tokens(&whole[part.len()..]) <= LOST_TOKENS
}
