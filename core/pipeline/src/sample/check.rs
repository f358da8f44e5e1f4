//! The invariants of a sample.

use super::{Sample, columns_blake3};
use crate::scene::Scene;
use crate::turn::Finish;

/// A broken invariant: a stable code and what was found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{code}: {found}")]
pub struct Violation {
    /// Stable reason code.
    pub code: &'static str,
    /// What was found, with positions.
    pub found: String,
}

const OUTCOMES: [&str; 8] = [
    "done",
    "agent_failed",
    "agent_timeout",
    "budget",
    "verifier_failed",
    "infra_failed",
    "cancelled",
    "open",
];
const REWARDED: [&str; 5] = ["done", "agent_failed", "agent_timeout", "budget", "open"];

/// Engines print this in place of a log-probability that is not a number.
const INVALID_LOGPROB: f32 = -9999.0;

/// A log-probability is at most 0; engines round.
const LOGPROB_SLACK: f32 = 1e-3;

/// Every broken invariant of a sample.
pub fn check(sample: &Sample) -> Vec<Violation> {
    let mut found = Found(Vec::new());
    found.header(sample);
    found.turns(sample);
    if found.lengths(sample) {
        found.spans(sample);
        found.mask(sample);
        found.logprobs(sample);
    }
    found.versions(sample);
    let digest = columns_blake3(sample);
    if digest != sample.provenance.columns_blake3 {
        let recorded = &sample.provenance.columns_blake3;
        found.add("digest", format!("columns hash to {digest}, the sample says {recorded:?}"));
    }
    found.0
}

/// Whether all ids are below the size of the vocabulary. Not part of [`check`]: a sample does not
/// know its tokenizer.
pub fn check_vocabulary(sample: &Sample, size: u32) -> Option<Violation> {
    let at = sample.tokens.iter().position(|id| *id >= size)?;
    let found = format!("tokens[{at}] is {}, outside the vocabulary of {size}", sample.tokens[at]);
    Some(Violation { code: "vocabulary", found })
}

struct Found(Vec<Violation>);

impl Found {
    fn add(&mut self, code: &'static str, found: impl Into<String>) {
        self.0.push(Violation { code, found: found.into() });
    }

    fn header(&mut self, sample: &Sample) {
        if sample.format != 1 {
            self.add("format", format!("version {} is not known here", sample.format));
        }
        let id = format!("{}-{}", sample.session_id, sample.segment);
        if sample.sample_id != id {
            self.add("sample_id", format!("{:?} is not {id:?}", sample.sample_id));
        }
        if sample.segment >= sample.segments {
            self.add("segment", format!("{} of {}", sample.segment, sample.segments));
        }
        if !OUTCOMES.contains(&sample.outcome.as_str()) {
            self.add("outcome", format!("{:?} is none of {OUTCOMES:?}", sample.outcome));
        }
        let rewards = sample.reward.iter().chain(sample.reward_parts.values());
        if rewards.into_iter().any(|reward| !reward.is_finite()) {
            self.add("reward", "not a finite number");
        }
        if sample.reward.is_some() && !REWARDED.contains(&sample.outcome.as_str()) {
            self.add("reward", format!("outcome {:?} must not carry one", sample.outcome));
        }
    }

    /// Whether positions can be looked at.
    fn lengths(&mut self, sample: &Sample) -> bool {
        let length = sample.tokens.len();
        for (column, found) in
            [("loss_mask", sample.loss_mask.len()), ("logprobs", sample.logprobs.len())]
        {
            if found != length {
                self.add("length", format!("{length} tokens, but {found} entries in {column}"));
            }
        }
        if length > u32::MAX as usize {
            self.add("length", "more tokens than fit");
        }
        sample.loss_mask.len() == length && sample.logprobs.len() == length
    }

    /// What turns say of themselves.
    fn turns(&mut self, sample: &Sample) {
        for (at, span) in sample.turns.iter().enumerate() {
            if Scene::parse(&span.scene).is_none() {
                self.add("turn", format!("turns[{at}]: there is no scene {:?}", span.scene));
            }
            let finish = Finish::ALL.into_iter().find(|finish| finish.name() == span.finish_reason);
            let trained = sample.loss_mask.get(span.start as usize) == Some(&1);
            match finish {
                None => {
                    let found = format!("turns[{at}]: {:?} ends no turn", span.finish_reason);
                    self.add("turn", found);
                }
                Some(Finish::Abort) if trained => {
                    self.add("turn", format!("turns[{at}] was aborted, and is trained"));
                }
                Some(_) => {}
            }
        }
        let ill_formed = sample.turns.iter().filter(|span| span.ill_formed).count() as u64;
        let counted = sample.counts.get("ill_formed_turns").copied().unwrap_or_default();
        if counted < ill_formed {
            let found = format!("ill_formed_turns is {counted}, but {ill_formed} turns are");
            self.add("counts", found);
        }
    }

    fn spans(&mut self, sample: &Sample) {
        let length = sample.tokens.len() as u32;
        let mut before = 0;
        for (at, span) in sample.turns.iter().enumerate() {
            let (start, end) = (span.start, span.end);
            if start >= end || end > length {
                self.add("span", format!("turns[{at}] is [{start}, {end}) of {length} tokens"));
            } else if start < before {
                self.add("span", format!("turns[{at}] starts at {start}, before {before}"));
            }
            before = before.max(end);
            let resumed = &span.resumed_at;
            let inside = resumed.iter().all(|at| (start..=end).contains(at));
            if !inside || !resumed.is_sorted() {
                let found = format!("turns[{at}] is [{start}, {end}), resumed at {resumed:?}");
                self.add("resumed", found);
            }
        }
        for pair in sample.turns.windows(2) {
            // A turn extends an earlier one, so a repeated or falling index is a wrong path.
            if pair[0].turn >= pair[1].turn {
                let (one, next) = (pair[0].turn.0, pair[1].turn.0);
                self.add("turn", format!("turn {one} is followed by turn {next}"));
            }
        }
        let first = sample.turns.first().map_or(length, |span| span.start);
        if sample.prompt_len != first {
            self.add(
                "prompt_len",
                format!("{}, but sampling begins at {first}", sample.prompt_len),
            );
        }
    }

    fn mask(&mut self, sample: &Sample) {
        if let Some(at) = sample.loss_mask.iter().position(|mask| *mask > 1) {
            self.add("mask", format!("loss_mask[{at}] is {}", sample.loss_mask[at]));
        }
        let mut sampled = vec![false; sample.tokens.len()];
        for (at, span) in sample.turns.iter().enumerate() {
            let range = span.start as usize..span.end as usize;
            let Some(mask) = sample.loss_mask.get(range.clone()) else { continue };
            sampled[range].fill(true);
            let trained = mask.iter().filter(|mask| **mask == 1).count();
            if trained != 0 && trained != mask.len() {
                let all = mask.len();
                self.add("mask", format!("turns[{at}]: {trained} of {all} sampled ids trained"));
            }
        }
        let outside = sample
            .loss_mask
            .iter()
            .zip(&sampled)
            .position(|(mask, sampled)| *mask != 0 && !sampled);
        if let Some(at) = outside {
            self.add("mask", format!("token {at} is trained, but was not sampled here"));
        }
        if !sample.loss_mask.contains(&1) {
            self.add("mask", "nothing is trained");
        }
    }

    fn logprobs(&mut self, sample: &Sample) {
        let mut sampled = vec![false; sample.tokens.len()];
        for span in &sample.turns {
            if let Some(range) = sampled.get_mut(span.start as usize..span.end as usize) {
                range.fill(true);
            }
        }
        let wrong = sample.logprobs.iter().zip(&sampled).position(|(logprob, sampled)| {
            let valid = logprob.is_finite()
                && *logprob > INVALID_LOGPROB
                && *logprob <= LOGPROB_SLACK
                && (*sampled || *logprob == 0.0);
            !valid
        });
        if let Some(at) = wrong {
            let place = if sampled[at] { "sampled" } else { "not sampled" };
            self.add("logprob", format!("{} at token {at} ({place})", sample.logprobs[at]));
        }
    }

    fn versions(&mut self, sample: &Sample) {
        let spans = &sample.weight_versions;
        match spans.first() {
            None => self.add("version", "no weight version"),
            Some((0, _)) => {}
            Some((start, _)) => self.add("version", format!("the first span starts at {start}")),
        }
        for pair in spans.windows(2) {
            if pair[0].0 >= pair[1].0 || pair[0].1 == pair[1].1 {
                self.add("version", format!("{:?} is followed by {:?}", pair[0], pair[1]));
            }
        }
        for (start, version) in spans {
            if *start as usize >= sample.tokens.len() || version.is_empty() {
                self.add("version", format!("{version:?} from token {start}"));
            }
        }
    }
}
