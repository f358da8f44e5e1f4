//! Whether what came out is what the case says.

use std::collections::BTreeSet;
use std::fmt::Debug;

use rollgate_pipeline::record::TurnRecord;
use rollgate_pipeline::sample::{Sample, SampledSpan};
use rollgate_pipeline::turn::Finish;

use crate::case::Case;
use crate::seen::Seen;
use crate::table::Row;

/// Fills the row: numbers, and what differs.
pub fn judge(case: &Case, seen: &Seen, row: &mut Row) {
    let calls = seen.calls();
    row.turns = calls.len();
    row.scenes = counted(calls.iter().map(|(scene, _)| *scene));
    row.samples = seen.samples.len();
    let mut problems = Vec::new();
    let (mut found, mut expected) = (calls.clone(), case.calls.clone());
    if !case.ordered {
        found.sort_unstable();
        expected.sort_unstable();
    }
    same("scenes and rules of the calls", &found, &expected, &mut problems);
    let rules: BTreeSet<&str> =
        seen.turns.iter().flat_map(|turn| turn.rules.iter().map(String::as_str)).collect();
    same("matching rules", &rules.into_iter().collect(), &case.rules, &mut problems);
    same("samples", &seen.samples.len(), &case.samples, &mut problems);
    let links = links(seen);
    row.links = counted(links.iter().map(|(kind, _, _)| kind.as_str()));
    let links = links.iter().map(|(kind, from, to)| (kind.as_str(), from.as_str(), to.as_str()));
    same("links", &links.collect(), &case.links, &mut problems);
    let outcome = seen.attempt["outcome"].as_str().unwrap_or_default();
    same("outcome", &outcome, &case.outcome, &mut problems);
    same("reward", &seen.attempt["reward"].as_f64(), &case.reward, &mut problems);
    if !problems.is_empty() {
        problems.push(format!("the attempt's reason: {}", seen.attempt["reason"]));
    }
    let agent = seen.attempt["agent"].as_str().unwrap_or_default();
    if case.bundled && !agent.contains(&row.version) {
        problems.push(format!("the agent says it is {agent:?}, the bundle {}", row.version));
    }
    for sample in seen.samples.iter().filter(|sample| !sample.health.reasons().is_empty()) {
        problems.push(format!("segment {}: {:?}", sample.segment, sample.health));
    }
    row.problems.extend(problems);
    trained(seen, row);
    exact(case, seen, row);
}

fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T, problems: &mut Vec<String>) {
    if found != expected {
        problems.push(format!("{what}:\n  found    {found:?}\n  expected {expected:?}"));
    }
}

/// Each word with how often it came, in the order of first coming.
fn counted<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for word in words {
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => counts.push((word, 1)),
        }
    }
    let told: Vec<String> = counts.iter().map(|(word, count)| format!("{word} {count}")).collect();
    told.join(", ")
}

fn links(seen: &Seen) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for sample in &seen.samples {
        for link in &sample.links {
            let kind = serde_json::to_value(link.kind).expect("a kind is JSON");
            let to = link.to.turn.and_then(|turn| seen.turns.iter().find(|t| t.turn == turn));
            let to = to.map_or("?", |turn| turn.verdict.scene.name());
            let kind = kind.as_str().unwrap_or_default().to_owned();
            found.push((kind, sample.scene.clone(), to.to_owned()));
        }
    }
    found.sort();
    found
}

/// Sampled tokens of trained scenes by the journal, and those that the samples train exactly once.
fn trained(seen: &Seen, row: &mut Row) {
    for turn in &seen.turns {
        let length = turn.ids.len() as u64;
        let places = seen.samples.iter().flat_map(|sample| {
            let spans = sample.turns.iter().filter(|span| span.turn == turn.turn);
            spans.map(move |span| is_trained(sample, span))
        });
        let times = places.filter(|trained| *trained).count();
        let wanted = turn.verdict.scene.trained() && turn.finish != Finish::Abort;
        if wanted {
            row.sampled += length;
            row.trained_once += if times == 1 { length } else { 0 };
        }
        if times != usize::from(wanted) {
            let (at, scene) = (turn.turn.0, turn.verdict.scene.name());
            row.problems.push(format!("turn {at} ({scene}) is trained {times} times"));
        }
    }
}

fn is_trained(sample: &Sample, span: &SampledSpan) -> bool {
    let mask = &sample.loss_mask[span.start as usize..span.end as usize];
    !mask.is_empty() && mask.iter().all(|bit| *bit == 1)
}

/// What the samples say was asked and answered is what the engine says, to the id; and no answer of
/// the engine is missing in the journal.
fn exact(case: &Case, seen: &Seen, row: &mut Row) {
    for sample in &seen.samples {
        for span in &sample.turns {
            let ends = span.resumed_at.iter().copied().chain([span.end]);
            let mut start = span.start as usize;
            for end in ends.map(|end| end as usize) {
                let (prompt, ids) = (&sample.tokens[..start], &sample.tokens[start..end]);
                let known = seen.engine.iter().any(|call| call.prompt == prompt && call.ids == ids);
                if !known {
                    let (segment, turn) = (sample.segment, span.turn.0);
                    row.problems.push(format!(
                        "segment {segment}, turn {turn}: ids {start}..{end} are not what the engine \
                         was asked and sampled"
                    ));
                }
                start = end;
            }
        }
    }
    let sampled = |turn: &&TurnRecord, ids: &[u32]| {
        let mut cuts = vec![0];
        cuts.extend(turn.resumed_at.iter().map(|at| *at as usize));
        cuts.push(turn.ids.len());
        cuts.windows(2).any(|cut| turn.ids[cut[0]..cut[1]] == *ids)
    };
    let lost = seen.engine.iter().filter(|call| call.answered && !call.ids.is_empty());
    let lost = lost.filter(|call| !seen.turns.iter().any(|turn| sampled(&turn, &call.ids)));
    same(
        "engine's answers that are in no turn",
        &lost.count(),
        &case.lost_calls,
        &mut row.problems,
    );
}
