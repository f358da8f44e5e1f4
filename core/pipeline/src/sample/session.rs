//! Invariants that only show when the samples of a session, or of a group, are seen together.

use std::collections::{BTreeMap, BTreeSet};

use super::{Sample, SampledSpan, Violation};
use crate::id::{SessionId, TurnIndex};
use crate::scene::Scene;
use crate::turn::Finish;

/// Sampled tokens of trained scenes, and how many of them are trained exactly once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Share {
    /// Sampled tokens that should be trained.
    pub tokens: u64,
    /// Those that are, once.
    pub trained_once: u64,
}

/// Broken invariants among samples, each with the index of a sample that shows it: turns trained
/// twice or not at all, shared prefixes that differ, links that lead nowhere, segments and siblings
/// that do not add up. Samples of many sessions may be given, in any order.
pub fn check_session(samples: &[Sample]) -> Vec<(usize, Violation)> {
    let mut found = Found(Vec::new());
    let mut sessions: BTreeMap<&SessionId, Vec<usize>> = BTreeMap::new();
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, sample) in samples.iter().enumerate() {
        sessions.entry(&sample.session_id).or_default().push(at);
        if !sample.group_id.is_empty() {
            groups.entry(&sample.group_id).or_default().push(at);
        }
    }
    for members in sessions.values() {
        let whole = found.segments(samples, members);
        found.trained_once(samples, members, whole);
        found.prefixes(samples, members);
        found.links(samples, members, whole);
    }
    for members in groups.values() {
        found.siblings(samples, members);
    }
    found.0.sort_by_key(|(at, violation)| (*at, violation.code));
    found.0
}

/// The share of tokens that are trained exactly once, over all turns that some sample has.
pub fn trained_share(samples: &[Sample]) -> Share {
    let mut turns: BTreeMap<(&SessionId, TurnIndex), (u64, u64)> = BTreeMap::new();
    for sample in samples {
        for span in sample.turns.iter().filter(|span| wanted(span)) {
            let length = u64::from(span.end.saturating_sub(span.start));
            let (_, times) = turns.entry((&sample.session_id, span.turn)).or_insert((length, 0));
            *times += u64::from(is_trained(sample, span));
        }
    }
    let mut share = Share::default();
    for (length, times) in turns.into_values() {
        share.tokens += length;
        share.trained_once += if times == 1 { length } else { 0 };
    }
    share
}

/// Whether a span is to be trained somewhere.
fn wanted(span: &SampledSpan) -> bool {
    span.finish_reason != Finish::Abort.name()
        && Scene::parse(&span.scene).is_some_and(Scene::trained)
}

fn is_trained(sample: &Sample, span: &SampledSpan) -> bool {
    let mask = sample.loss_mask.get(span.start as usize..span.end as usize);
    mask.is_some_and(|mask| !mask.is_empty() && mask.iter().all(|mask| *mask == 1))
}

struct Found(Vec<(usize, Violation)>);

impl Found {
    fn add(&mut self, at: usize, code: &'static str, found: String) {
        self.0.push((at, Violation { code, found }));
    }

    /// Whether all segments of the session are here, each once.
    fn segments(&mut self, samples: &[Sample], members: &[usize]) -> bool {
        let first = &samples[members[0]];
        let here: BTreeSet<u32> = members.iter().map(|at| samples[*at].segment).collect();
        let whole = members.len() == here.len() && here.iter().copied().eq(0..first.segments);
        if !whole {
            let (here, of) = (members.len(), first.segments);
            let found = format!("{here} samples of {of} segments of {}", first.session_id);
            self.add(members[0], "segments", found);
        }
        let about = |sample: &Sample| {
            (sample.segments, sample.attempt, sample.task_id.clone(), sample.group_id.clone())
        };
        for at in members.iter().filter(|at| about(&samples[**at]) != about(first)) {
            let found = "task, group, attempt or number of segments differ within the session";
            self.add(*at, "segments", found.to_owned());
        }
        whole
    }

    fn trained_once(&mut self, samples: &[Sample], members: &[usize], whole: bool) {
        let mut turns: BTreeMap<TurnIndex, (bool, Vec<usize>, usize)> = BTreeMap::new();
        for at in members {
            for span in &samples[*at].turns {
                let (want, trained, _) = turns.entry(span.turn).or_insert((false, Vec::new(), *at));
                *want |= wanted(span);
                if is_trained(&samples[*at], span) {
                    trained.push(*at);
                }
            }
        }
        for (TurnIndex(turn), (want, trained, at)) in turns {
            match (want, trained.as_slice()) {
                (_, [_, again @ ..]) if !again.is_empty() => {
                    let times = trained.len();
                    let found = format!("turn {turn} is trained in {times} samples");
                    trained.iter().for_each(|at| self.add(*at, "trained_twice", found.clone()));
                }
                (true, []) if whole => {
                    self.add(at, "untrained", format!("turn {turn} is trained in no sample"));
                }
                (false, [at, ..]) => {
                    let found = format!("turn {turn} is not to be trained, but is");
                    self.add(*at, "scene", found);
                }
                _ => {}
            }
        }
    }

    /// Samples that share a turn share all before it: ids, log-probabilities, weight versions.
    fn prefixes(&mut self, samples: &[Sample], members: &[usize]) {
        if members.len() < 2 {
            return;
        }
        let mut first: BTreeMap<TurnIndex, (blake3::Hash, usize)> = BTreeMap::new();
        for at in members {
            for (turn, prefix) in prefixes(&samples[*at]) {
                let (expected, other) = *first.entry(turn).or_insert((prefix, *at));
                if expected != prefix {
                    let place = difference(&samples[*at], &samples[other]);
                    let id = &samples[other].sample_id;
                    let found = format!("up to turn {} it differs from {id}{place}", turn.0);
                    self.add(*at, "prefix", found);
                    break;
                }
            }
        }
    }

    fn links(&mut self, samples: &[Sample], members: &[usize], whole: bool) {
        let here: BTreeMap<u32, &Sample> =
            members.iter().map(|at| (samples[*at].segment, &samples[*at])).collect();
        for at in members {
            let from = &samples[*at];
            for link in from.links.iter().filter(|link| link.to.session_id == from.session_id) {
                let (segment, turn) = (link.to.segment, link.to.turn);
                let target = here.get(&segment);
                let lost = match target {
                    None => whole || segment >= from.segments,
                    Some(target) => {
                        turn.is_some_and(|turn| target.turns.iter().all(|span| span.turn != turn))
                    }
                };
                if lost {
                    let turn = turn.map_or_else(String::new, |turn| format!(", turn {}", turn.0));
                    let found = format!("{:?} leads to segment {segment}{turn}", link.kind);
                    self.add(*at, "link", format!("{found}, which is not there"));
                }
            }
        }
    }

    fn siblings(&mut self, samples: &[Sample], members: &[usize]) {
        let of = samples[members[0]].siblings;
        for at in members {
            let sample = &samples[*at];
            if sample.siblings != of || sample.attempt >= sample.siblings {
                let (attempt, siblings) = (sample.attempt, sample.siblings);
                let found = format!("attempt {attempt} of {siblings}; the group has {of}");
                self.add(*at, "siblings", found);
            }
        }
    }
}

/// A digest of everything up to the end of each turn.
fn prefixes(sample: &Sample) -> Vec<(TurnIndex, blake3::Hash)> {
    let mut hasher = blake3::Hasher::new();
    let mut versions = sample.weight_versions.iter().peekable();
    let mut from = 0;
    let mut all = Vec::with_capacity(sample.turns.len());
    for span in &sample.turns {
        let range = from..span.end as usize;
        let columns = sample.tokens.get(range.clone()).zip(sample.logprobs.get(range));
        // Spans that are out of order or out of bounds are told by the sample's own check.
        let Some((tokens, logprobs)) = columns else { break };
        for (id, logprob) in tokens.iter().zip(logprobs) {
            hasher.update(&id.to_le_bytes());
            hasher.update(&logprob.to_le_bytes());
        }
        for text in [span.scene.as_str(), span.finish_reason.as_str()] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.update(&[u8::from(span.ill_formed)]);
        while let Some((start, version)) = versions.next_if(|(start, _)| *start < span.end) {
            hasher.update(&start.to_le_bytes());
            hasher.update(&(version.len() as u64).to_le_bytes());
            hasher.update(version.as_bytes());
        }
        hasher.update(&span.start.to_le_bytes());
        hasher.update(&span.end.to_le_bytes());
        all.push((span.turn, hasher.finalize()));
        from = span.end as usize;
    }
    all
}

/// Where two samples begin to differ.
fn difference(one: &Sample, other: &Sample) -> String {
    let ids = one.tokens.iter().zip(&other.tokens).position(|(one, other)| one != other);
    let bits = |logprob: &f32| logprob.to_bits();
    let scores = one.logprobs.iter().map(bits).zip(other.logprobs.iter().map(bits));
    let scores = scores.into_iter().position(|(one, other)| one != other);
    match (ids, scores) {
        (Some(id), score) if score.is_none_or(|score| id <= score) => {
            format!(", from tokens[{id}] on")
        }
        (_, Some(score)) => format!(", from logprobs[{score}] on"),
        _ => String::new(),
    }
}
