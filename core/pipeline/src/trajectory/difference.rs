//! How an agent's copy of matched history differs from what the engine saw: which rules made them
//! equal, and about how many tokens read differently.
//!
//! Sums are kept where a request was matched, so that the next one counts only what is new.

use std::collections::HashMap;

use super::alike::LOST_TOKENS;
use super::matching::{Found, Matching};
use super::steps::StepIndex;
use super::{Digest, Reader};
use crate::record::HistoryMode;
use crate::turn::{Message, Role};

/// Differences up to some point.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Difference {
    /// Rules that took part, each once.
    pub(super) rules: Vec<String>,
    /// About how many tokens read differently.
    pub(super) tokens: u32,
}

impl Difference {
    fn add(&mut self, rule: &str) {
        if !self.rules.iter().any(|known| known == rule) {
            self.rules.push(rule.to_owned());
        }
    }
}

/// What is known of copies: a stored point and the agent's own copy up to there.
pub(super) type Known = HashMap<(StepIndex, Digest), Difference>;

/// An element of the request lost too much: the match must end before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shrunk(pub(super) usize);

/// Messages of the two sides that stand for each other.
struct Pair {
    stored: Vec<StepIndex>,
    sent: std::ops::Range<usize>,
}

impl Matching<'_> {
    /// Differences up to a point that was found.
    pub(super) fn difference(&self, found: Found, known: &mut Known) -> Result<Difference, Shrunk> {
        let Some(place) = self.steps.place(found.turn) else { return Ok(Difference::default()) };
        let (mut step, mut at) = (place.step, found.matched);
        let mut pairs = Vec::new();
        let mut sum = loop {
            if let Some(sum) = known.get(&(step, self.path.copy(at))) {
                break sum.clone();
            }
            let Some(parent) = self.steps.step(step).parent else {
                break self.leading(step);
            };
            if at == 0 {
                break Difference::default();
            }
            let stored = self.steps.run(step);
            let sent = self.path.run_start(at - 1)..at;
            at = sent.start;
            step =
                stored.first().and_then(|first| self.steps.step(*first).parent).unwrap_or(parent);
            pairs.push(Pair { stored, sent });
        };
        for pair in pairs.iter().rev() {
            self.compare(pair, &mut sum)?;
        }
        known.insert((place.step, self.path.copy(found.matched)), sum.clone());
        Ok(sum)
    }

    fn compare(&self, pair: &Pair, sum: &mut Difference) -> Result<(), Shrunk> {
        let sent = &self.path.elements[pair.sent.clone()];
        let (Some(last), Some(last_stored)) = (sent.last(), pair.stored.last()) else {
            return Ok(());
        };
        let last_stored = self.steps.step(*last_stored);
        let ruled = last.plain != last_stored.plain && last.digest == last_stored.digest;
        if ruled {
            for rule in last.touched.iter().chain(&last_stored.touched) {
                sum.add(self.path.rules.name(*rule).unwrap_or_default());
            }
        }
        let strict = sent.iter().map(|element| element.strict);
        if strict.eq(pair.stored.iter().map(|step| self.steps.step(*step).strict)) {
            return Ok(());
        }
        let stored: Vec<&Message> =
            pair.stored.iter().map(|step| &self.steps.step(*step).message).collect();
        let messages: Vec<&Message> =
            sent.iter().map(|element| &self.messages[element.message]).collect();
        if last.digest != last_stored.digest {
            let like = match (pair.stored.as_slice(), messages.as_slice()) {
                ([step], [sent]) => self.like(*step, sent),
                (run, [sent]) => self.like_run(run, sent),
                _ => None,
            };
            like.iter().for_each(|like| sum.add(&like.rule));
        }
        if self.path.mode == HistoryMode::Faithful {
            // The template writes both as the same text.
            return Ok(());
        }
        let (was, is) = differing(self.reader, &stored, &messages);
        if ruled && last.role != Role::Assistant && was > is.saturating_add(LOST_TOKENS) {
            return Err(Shrunk(pair.sent.start));
        }
        sum.tokens = sum.tokens.saturating_add(was.max(is));
        Ok(())
    }

    /// Of the instructions at the head.
    fn leading(&self, root: StepIndex) -> Difference {
        let (root, leading) = (self.steps.step(root), &self.path.leading);
        let mut sum = Difference::default();
        if root.strict == leading.strict {
            return sum;
        }
        if root.plain != leading.plain {
            for rule in leading.touched.iter().chain(&root.touched) {
                sum.add(self.path.rules.name(*rule).unwrap_or_default());
            }
        }
        let texts: Vec<&str> =
            self.messages[..leading.messages].iter().map(|m| m.content.as_str()).collect();
        let text = texts.join("\n");
        let (was, is) = middle(&root.message.content, &text);
        sum.tokens = self.reader.tokens(was).max(self.reader.tokens(is));
        sum
    }
}

/// Tokens of what differs between two runs of messages, on either side.
fn differing(reader: &dyn Reader, stored: &[&Message], sent: &[&Message]) -> (u32, u32) {
    let (mut was, mut is) = (0_u32, 0_u32);
    let mut count = |stored: &str, sent: &str| {
        let (left, right) = middle(stored, sent);
        for (sum, text) in [(&mut was, left), (&mut is, right)] {
            if !text.is_empty() {
                *sum = sum.saturating_add(reader.tokens(text));
            }
        }
    };
    let joined = |messages: &[&Message], part: fn(&Message) -> &str| {
        messages.iter().map(|message| part(message)).collect::<String>()
    };
    let parts: [fn(&Message) -> &str; 2] =
        [|message| &message.content, |message| message.reasoning.as_deref().unwrap_or_default()];
    for part in parts {
        count(&joined(stored, part), &joined(sent, part));
    }
    let calls = |messages: &[&Message]| -> Vec<[String; 2]> {
        let calls = messages.iter().flat_map(|message| &message.tool_calls);
        calls.map(|call| [call.name.clone(), call.arguments.clone()]).collect()
    };
    let (stored, sent) = (calls(stored), calls(sent));
    for at in 0..stored.len().max(sent.len()) {
        for part in 0..2 {
            let text = |calls: &[[String; 2]]| {
                calls.get(at).map(|call| call[part].clone()).unwrap_or_default()
            };
            count(&text(&stored), &text(&sent));
        }
    }
    (was, is)
}

/// What is left of two texts without their common begin and end.
fn middle<'t>(left: &'t str, right: &'t str) -> (&'t str, &'t str) {
    let begin = left.chars().zip(right.chars()).take_while(|(a, b)| a == b);
    let begin: usize = begin.map(|(c, _)| c.len_utf8()).sum();
    let (left, right) = (&left[begin..], &right[begin..]);
    let end = left.chars().rev().zip(right.chars().rev()).take_while(|(a, b)| a == b);
    let end: usize = end.map(|(c, _)| c.len_utf8()).sum();
    (&left[..left.len() - end], &right[..right.len() - end])
}
