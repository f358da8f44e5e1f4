//! Does the simulation find bugs? A dozen are planted in shards and pipeline, one at a time, and
//! some seed must break for each of them.

use rollgate_pipeline::planted::Bug;
use rollgate_simulation::{Outcome, run};

/// Seeds that are played for a bug at most.
const SEEDS: u64 = 1_000;

/// The first seed that breaks.
fn find(bug: Bug) -> Option<Outcome> {
    (0..SEEDS).map(|seed| run(seed, Some(bug))).find(|found| !found.broken.is_empty())
}

#[test]
fn every_bug_at_work_is_found() {
    let found: Vec<_> = std::thread::scope(|scope| {
        let threads = Bug::AT_WORK.map(|bug| scope.spawn(move || (bug, find(bug))));
        threads.map(|thread| thread.join().unwrap()).into()
    });
    let mut unseen = Vec::new();
    for (bug, found) in found {
        match found {
            Some(found) => {
                let (seeds, broken) = (found.seed + 1, &found.broken[0]);
                println!("figures: {bug:?} found after {seeds} seeds: {broken:.110}");
            }
            None => unseen.push(bug),
        }
    }
    assert!(unseen.is_empty(), "not found within {SEEDS} seeds: {unseen:?}");
}
