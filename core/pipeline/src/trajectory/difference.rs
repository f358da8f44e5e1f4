//! How an agent's copy of matched history differs from what the engine saw: which rules made them
//! equal, and about how many tokens read differently.
//!
//! Overlays aside: those are shown to the model where they stand, and counted there. Sums are kept
//! where a request was matched, so that the next one counts only what is new.

use std::borrow::Cow;
use std::collections::HashMap;

use super::alike::LOST_TOKENS;
use super::matching::{Found, Matching};
use super::steps::StepIndex;
use super::{Digest, Reader};
use crate::limits::KNOWN_COPIES;
use crate::record::HistoryMode;
use crate::rules::RuleSet;
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

/// What of the request lost too much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shrunk {
    /// An element: the match must end before it.
    Element(usize),
    /// The leading instructions: nothing below this root matches.
    Leading(StepIndex),
}

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
                break self.leading(step)?;
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
        if known.len() >= KNOWN_COPIES {
            known.clear();
        }
        known.insert((place.step, self.path.copy(found.matched)), sum.clone());
        Ok(sum)
    }

    fn compare(&self, pair: &Pair, sum: &mut Difference) -> Result<(), Shrunk> {
        self.work.pair();
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
        if last.digest != last_stored.digest {
            let like = match (pair.stored.as_slice(), sent) {
                ([step], [sent]) => self.like(*step, sent.message),
                (run, [sent]) => self.like_run(run, &self.messages[sent.message]),
                _ => None,
            };
            like.iter().for_each(|like| sum.add(&like.rule));
        }
        if self.path.mode == HistoryMode::Faithful {
            // The template writes both as the same text.
            return Ok(());
        }
        let rules = &self.path.rules;
        let stored: Vec<Shown<'_>> = pair
            .stored
            .iter()
            .map(|step| self.steps.step(*step))
            .map(|step| Shown::new(rules, &step.message, &step.touched))
            .collect();
        let sent: Vec<Shown<'_>> = sent
            .iter()
            .map(|sent| Shown::new(rules, &self.messages[sent.message], &sent.touched))
            .collect();
        let (was, is) = differing(self.reader, &stored, &sent);
        if ruled && last.role != Role::Assistant && was > is.saturating_add(LOST_TOKENS) {
            return Err(Shrunk::Element(pair.sent.start));
        }
        sum.tokens = sum.tokens.saturating_add(was.max(is));
        Ok(())
    }

    /// Of the instructions at the head.
    fn leading(&self, at: StepIndex) -> Result<Difference, Shrunk> {
        let (root, leading) = (self.steps.step(at), &self.path.leading);
        let mut sum = Difference::default();
        if root.strict == leading.strict {
            return Ok(sum);
        }
        if root.plain != leading.plain {
            for rule in leading.touched.iter().chain(&root.touched) {
                sum.add(self.path.rules.name(*rule).unwrap_or_default());
            }
        }
        let rules = &self.path.rules;
        let texts: Vec<Cow<'_, str>> = self.messages[..leading.messages]
            .iter()
            .map(|message| rules.without_overlays(&message.content, &leading.touched))
            .collect();
        let stored = rules.without_overlays(&root.message.content, &root.touched);
        let text = texts.join("\n");
        let (was, is) = middle(&stored, &text);
        let (was, is) = (self.reader.tokens(was), self.reader.tokens(is));
        if was > is.saturating_add(LOST_TOKENS) {
            return Err(Shrunk::Leading(at));
        }
        sum.tokens = was.max(is);
        Ok(sum)
    }
}

/// A message without what overlay rules took out of the chain.
struct Shown<'m> {
    message: &'m Message,
    text: Cow<'m, str>,
}

impl<'m> Shown<'m> {
    fn new(rules: &RuleSet, message: &'m Message, touched: &[u16]) -> Self {
        Self { message, text: rules.without_overlays(&message.content, touched) }
    }
}

/// Tokens of what differs between two runs of messages, on either side.
fn differing(reader: &dyn Reader, stored: &[Shown<'_>], sent: &[Shown<'_>]) -> (u32, u32) {
    let (mut was, mut is) = (0_u32, 0_u32);
    let mut count = |stored: &str, sent: &str| {
        let (left, right) = middle(stored, sent);
        for (sum, text) in [(&mut was, left), (&mut is, right)] {
            if !text.is_empty() {
                *sum = sum.saturating_add(reader.tokens(text));
            }
        }
    };
    let texts = |side: &[Shown<'_>]| side.iter().map(|shown| &*shown.text).collect::<String>();
    let thoughts = |side: &[Shown<'_>]| {
        side.iter().filter_map(|shown| shown.message.reasoning.as_deref()).collect::<String>()
    };
    count(&texts(stored), &texts(sent));
    count(&thoughts(stored), &thoughts(sent));
    let calls = |side: &[Shown<'_>]| -> Vec<[String; 2]> {
        let calls = side.iter().flat_map(|shown| &shown.message.tool_calls);
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
