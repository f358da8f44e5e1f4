//! Which stored turn a request continues.
//!
//! First by chains of digests, deepest first. Where they stop short, the walk goes on from the last
//! known message through stored ones that a rule makes equal (sticky), or that the template writes
//! as the sampled text (faithful); behind such a message digests count again.
//!
//! An empty answer vanishes from what agents send back. A request that goes on with a user message
//! where one vanished continues it if the answer was delivered and its prompt was not asked again
//! since: an agent that asks again has rejected it. An empty assistant message in the request shows
//! that it was kept.
//!
//! The walk stands in each place once, and pays for each place, and for each text that it compares
//! and each render. Where a purse is empty it goes no further: what it found counts.

use std::collections::HashSet;

use super::alike::{Likeness, alike, joins};
use super::element::Evidence;
use super::steps::{Place, StepIndex, Steps};
use super::tokens::TokenTree;
use super::tree::Node;
use super::work::Work;
use super::{Element, Path, Reader};
use crate::id::TurnIndex;
use crate::planted::{self, Bug};
use crate::record::HistoryMode;
use crate::turn::{Message, Role};

/// A request before a trajectory.
pub(super) struct Matching<'a> {
    pub(super) steps: &'a Steps,
    pub(super) nodes: &'a [Node],
    pub(super) tokens: &'a TokenTree,
    pub(super) path: &'a Path,
    pub(super) messages: &'a [Message],
    pub(super) reader: &'a dyn Reader,
    /// Elements from this one on are not matched.
    pub(super) limit: usize,
    /// Roots whose turns are not matched: the agent's instructions lost too much.
    pub(super) refused: &'a [StepIndex],
    /// What this request may still cost.
    pub(super) work: &'a Work,
}

/// A point that can be resumed: the end of a turn's answer, behind so many elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) turn: TurnIndex,
    pub(super) matched: usize,
}

/// A place on the walk.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Stand {
    step: StepIndex,
    /// Elements that lie before it.
    matched: usize,
    /// The last answer came back in part: only delivered ones count.
    partial: bool,
}

impl Matching<'_> {
    pub(super) fn find(&self) -> Option<Found> {
        let (mut found, mut known) = (None, None);
        for matched in (0..=self.limit).rev() {
            let Some(point) = self.steps.point(self.path.chain(matched)) else { continue };
            if known.is_none() && !point.steps.is_empty() {
                known = Some((matched, &point.steps));
            }
            let answers = self.eligible(&point.answers, matched, false);
            if let Some(turn) = self.choose(&answers, matched) {
                found = Some(Found { turn, matched });
                break;
            }
        }
        let (from, steps) = known?;
        let walked = match from < self.limit {
            true => self.walk(from, steps, found.map_or(0, |found| found.matched)),
            false => None,
        };
        walked.or(found)
    }

    /// The deepest point beyond `beyond` elements that lies below these steps.
    fn walk(&self, from: usize, steps: &[StepIndex], beyond: usize) -> Option<Found> {
        let stand = |step: &StepIndex| Stand { step: *step, matched: from, partial: false };
        let mut open: Vec<Stand> = steps.iter().map(stand).collect();
        let mut seen = HashSet::new();
        let (mut deepest, mut answers) = (beyond, Vec::new());
        while let Some(stand) = open.pop() {
            if !seen.insert(stand) {
                continue;
            }
            if !self.work.stand() {
                break;
            }
            let matched = stand.matched;
            if matched > from && matched >= deepest.max(beyond + 1) {
                let here = &self.steps.step(stand.step).answers;
                let here = self.eligible(here, matched, stand.partial);
                if matched > deepest && !here.is_empty() {
                    (deepest, answers) = (matched, here);
                } else if matched == deepest {
                    answers.extend(here);
                }
            }
            if matched < self.limit {
                self.advance(&stand, &mut open);
            }
        }
        let turn = self.choose(&answers, deepest)?;
        Some(Found { turn, matched: deepest })
    }

    /// Adds the places one message further on. Those with equal digests suffice where there are any.
    fn advance(&self, stand: &Stand, open: &mut Vec<Stand>) {
        let element = &self.path.elements[stand.matched];
        let next = self.next_steps(stand.step, element);
        let run = self.run_from(stand.matched);
        let before = open.len();
        for step in &next {
            let digest = self.steps.step(*step).digest;
            let equal = run.clone().filter(|at| self.path.elements[*at].digest == digest);
            open.extend(equal.map(|at| Stand { step: *step, matched: at + 1, partial: false }));
        }
        if open.len() > before {
            return;
        }
        // Newest first: where the purse is empty, the oldest are left out.
        let mut alike = Vec::new();
        for step in next.into_iter().rev() {
            if !self.work.compare() {
                break;
            }
            if let Some(like) = self.likeness(stand.step, step, element) {
                alike.push(Stand { step, matched: stand.matched + 1, partial: like.partial });
            }
        }
        open.extend(alike.into_iter().rev());
    }

    /// Steps below that the element may be: children, and where it begins a run of assistant
    /// messages, the rest of theirs. Inside of a run that was done where it began.
    fn next_steps(&self, step: StepIndex, element: &Element) -> Vec<StepIndex> {
        let mut next = Vec::new();
        let mut open: Vec<_> = self.steps.step(step).children.iter().rev().copied().collect();
        while let Some(at) = open.pop() {
            let child = self.steps.step(at);
            let first = child.parent == Some(step);
            if child.message.role != element.role || (first && child.continues != element.continues)
            {
                continue;
            }
            next.push(at);
            if element.continues {
                continue;
            }
            let on = child.children.iter().filter(|next| self.steps.step(**next).continues);
            open.extend(on);
        }
        next
    }

    /// Elements of the run of assistant messages from this one on.
    fn run_from(&self, at: usize) -> std::ops::Range<usize> {
        let rest = &self.path.elements[at + 1..self.limit];
        at..at + 1 + rest.iter().take_while(|element| element.continues).count()
    }

    /// How an element of the request is this step, though their digests differ.
    fn likeness(&self, above: StepIndex, step: StepIndex, element: &Element) -> Option<Likeness> {
        match self.steps.step(step).parent == Some(above) {
            true => self.like(step, element.message),
            false => {
                let run = self.steps.run(step);
                self.like_run(&run, &self.messages[element.message])
            }
        }
    }

    /// How a sent message, by its index, is this step's.
    pub(super) fn like(&self, step: StepIndex, message: usize) -> Option<Likeness> {
        let (step, sent) = (self.steps.step(step), &self.messages[message]);
        if self.path.mode == HistoryMode::Faithful {
            let reads = sent.role == Role::Assistant
                && step.answers.iter().any(|turn| self.reads_as(message, *turn));
            return reads.then(|| Likeness { rule: "reads-as".to_owned(), partial: false });
        }
        let like = alike(&self.path.rules, self.reader, &step.message, sent)?;
        let sampled_whole = step.answers.iter().any(|turn| self.delivered(*turn));
        (!like.partial || sampled_whole).then_some(like)
    }

    /// Whether the template writes a sent message as what a turn sampled. Rendered once for each.
    fn reads_as(&self, message: usize, turn: TurnIndex) -> bool {
        let Some(node) = self.nodes.get(turn.0 as usize) else { return false };
        let reads =
            || self.reader.reads_as(&self.messages[message], &self.tokens.ids(node.sampled));
        self.work.read(message, turn, reads)
    }

    /// How a sent message is all of these steps.
    pub(super) fn like_run(&self, run: &[StepIndex], sent: &Message) -> Option<Likeness> {
        if self.path.mode == HistoryMode::Faithful {
            return None;
        }
        joins(&self.path.rules, run.iter().map(|step| &self.steps.step(*step).message), sent)
    }

    fn delivered(&self, turn: TurnIndex) -> bool {
        planted::on(Bug::PartialJoinsUndelivered)
            || self.nodes.get(turn.0 as usize).is_some_and(|node| node.delivered)
    }

    /// Of these answers those that the request can go on from.
    fn eligible(&self, answers: &[TurnIndex], matched: usize, partial: bool) -> Vec<TurnIndex> {
        let next = self.path.elements.get(matched);
        let fits = |turn: &TurnIndex| {
            let Some(place) = self.steps.place(*turn) else { return false };
            if self.refused.contains(&place.root) {
                return false;
            }
            if !place.silent {
                return !partial || self.delivered(*turn);
            }
            // A request that ends where nothing was said is that prompt again, and nothing of the
            // model's stands between two results of the same calls.
            let Some(next) = next.filter(|next| next.role != Role::Tool) else { return false };
            let asked_again = || {
                let prompts = self.steps.point(place.prompt).map(|point| point.prompts.last());
                prompts.flatten() != Some(turn)
            };
            let spoken = next.role == Role::Assistant;
            next.after_silence || (!spoken && self.whole(*turn) && !asked_again())
        };
        answers.iter().filter(|turn| fits(turn)).copied().collect()
    }

    fn whole(&self, turn: TurnIndex) -> bool {
        self.nodes.get(turn.0 as usize).is_some_and(|node| node.delivered)
    }

    /// Among answers that mean the same: the one whose call ids and reasoning the agent echoes, or
    /// that was given under the very same instructions, or whose very text; then one that nothing continues yet; then the newest. So agents that got
    /// the same answer stay apart.
    fn choose(&self, answers: &[TurnIndex], matched: usize) -> Option<TurnIndex> {
        if let [] | [_] = answers {
            return answers.first().copied();
        }
        let last = matched.checked_sub(1).map(|last| &self.path.elements[last]);
        let echoed = self.echoed(matched);
        answers.iter().copied().max_by_key(|turn| {
            let place = self.steps.place(*turn);
            let confirmed = place.map_or(0, |place| self.told(place).confirms(&echoed));
            let strict = place.map(|place| self.steps.step(place.step).strict);
            let exact = strict.is_some() && strict == last.map(|element| element.strict);
            let node = self.nodes.get(turn.0 as usize);
            let root = place.map(|place| self.steps.step(place.root).strict);
            let instructed = root == Some(self.path.leading.strict);
            (confirmed, instructed, exact, node.is_some_and(|node| node.children == 0), *turn)
        })
    }

    /// What the agent echoes of the answer that so many elements end with.
    fn echoed(&self, matched: usize) -> Evidence {
        let Some(last) = matched.checked_sub(1) else { return Evidence::default() };
        let run = &self.path.elements[self.path.run_start(last)..matched];
        let answers = run.iter().filter(|element| element.role == Role::Assistant);
        Evidence::of(answers.map(|element| &self.messages[element.message]))
    }

    /// What a turn's answer says beyond its meaning, with the run that it ends.
    fn told(&self, place: &Place) -> Evidence {
        if place.silent {
            return Evidence::default();
        }
        let mut run = self.steps.run(place.step);
        run.pop();
        let before = run.iter().map(|step| &self.steps.step(*step).message);
        Evidence::of(before.chain([&place.reply]))
    }
}
