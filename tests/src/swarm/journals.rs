//! Journals of a node that has ended, held against what its engine sampled.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rollgate_pipeline::record::{Frames, Record, TurnRecord};

use super::engine::Said;
use super::numbers;

/// The turns of a session's journal; a torn end is left out, as the node itself does.
pub fn turns(state: &Path, session: &str) -> Vec<TurnRecord> {
    let hash = session.rsplit('-').next().unwrap_or_default();
    let path: PathBuf = state.join("sessions").join(&hash[..2]).join(format!("{hash}.rgj"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (records, _) =
        Frames::new(&file).read_all().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let turns = records.into_iter().filter_map(|record| match record {
        Record::Turn(turn) => Some(*turn),
        _ => None,
    });
    turns.collect()
}

/// Where each number's answer is recorded: in how many turns, and whether with the engine's ids.
pub fn recorded(turns: &[TurnRecord], said: &[Said]) -> BTreeMap<u64, (usize, bool)> {
    let mut found: BTreeMap<u64, (usize, bool)> = BTreeMap::new();
    for turn in turns {
        for number in numbers(&turn.reply.content) {
            let exact = said.get(number as usize).is_some_and(|said| said.ids == turn.ids);
            let (times, all_exact) = found.entry(number).or_insert((0, true));
            *times += 1;
            *all_exact &= exact;
        }
    }
    found
}
