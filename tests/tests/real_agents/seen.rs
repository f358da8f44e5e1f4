//! What a run left behind: the attempt's line, its samples, the session's journal, the engine's ledger.

use std::path::{Path, PathBuf};

use rollgate_pipeline::record::{Frames, Record, TurnRecord};
use rollgate_pipeline::sample::Sample;
use rollgate_tests::samples;
use serde::Deserialize;
use serde_json::Value;

/// A generation call by the engine's account.
#[derive(Clone, Debug, Deserialize)]
pub struct EngineCall {
    /// What was asked.
    pub prompt: Vec<u32>,
    /// What was sampled.
    pub ids: Vec<u32>,
    /// Whether it reached the gate as it was.
    pub answered: bool,
}

/// All of it.
#[derive(Debug)]
pub struct Seen {
    /// The last line of the attempt.
    pub attempt: Value,
    /// Its samples, in the order of segments.
    pub samples: Vec<Sample>,
    /// The session's turns, in order. `stretch` and `ids` are their tokens.
    pub turns: Vec<TurnRecord>,
    /// The engine's calls, in order.
    pub engine: Vec<EngineCall>,
}

impl Seen {
    /// Reads an out directory and a ledger; panics when they are not of one attempt.
    pub fn read(out: &Path, ledger: &Path) -> Self {
        let text = std::fs::read_to_string(out.join("attempts.jsonl")).expect("attempts.jsonl");
        let line = text.lines().last().expect("an attempt's line");
        let attempt: Value = serde_json::from_str(line).expect("a line is JSON");
        let mut samples = samples::read(out);
        samples.sort_by_key(|sample| sample.segment);
        let session = attempt["session_id"].as_str().expect("a session was opened");
        let turns = turns(&out.join("state"), session);
        let text = std::fs::read_to_string(ledger).unwrap_or_default();
        let call = |line: &str| serde_json::from_str(line).expect("a line of the ledger");
        Self { attempt, samples, turns, engine: text.lines().map(call).collect() }
    }

    /// Scene and rule of every turn.
    pub fn calls(&self) -> Vec<(&str, &str)> {
        let mut calls = Vec::with_capacity(self.turns.len());
        for turn in &self.turns {
            calls.push((turn.verdict.scene.name(), turn.verdict.rule.as_str()));
        }
        calls
    }

    /// What differs where the links of all samples, sorted, do not lead to these turns.
    pub fn leads_to(&self, expected: &[(&str, usize)]) -> Vec<String> {
        let mut found: Vec<(String, usize)> = Vec::new();
        for link in self.samples.iter().flat_map(|sample| &sample.links) {
            let kind = serde_json::to_value(link.kind).expect("a kind is JSON");
            let turn = link.to.turn.map_or(usize::MAX, |turn| turn.0 as usize);
            found.push((kind.as_str().unwrap_or_default().to_owned(), turn));
        }
        found.sort();
        let same =
            found.iter().map(|(kind, turn)| (kind.as_str(), *turn)).eq(expected.iter().copied());
        if same {
            Vec::new()
        } else {
            vec![format!("links lead to {found:?}, not to {expected:?}")]
        }
    }
}

/// The turns of a session's journal, found by the session that its first record names.
fn turns(state: &Path, session: &str) -> Vec<TurnRecord> {
    let mut found = Vec::new();
    for path in files(state) {
        let bytes = std::fs::read(&path).expect("a journal can be read");
        let Ok((records, _)) = Frames::new(&bytes).read_all() else { continue };
        let ours = |record: &Record| matches!(record, Record::Opened(opened) if opened.session_id.to_string() == session);
        if records.first().is_some_and(ours) {
            found.extend(records.into_iter().filter_map(|record| match record {
                Record::Turn(turn) => Some(*turn),
                _ => None,
            }));
        }
    }
    found.sort_by_key(|turn| turn.turn);
    found
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
