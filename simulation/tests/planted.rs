//! Does the simulation find bugs? A dozen are planted in shards and pipeline, one at a time, and
//! some seed must break for each of them. `ROLLGATE_SIM_SEEDS` says how many seeds may be needed.

use rollgate_pipeline::planted::Bug;
use rollgate_simulation::run;

/// Seeds that are played for a bug at most.
const SEEDS: u64 = 1_000;

#[test]
fn every_bug_at_work_is_found() {
    let mut unseen = Vec::new();
    for bug in Bug::AT_WORK {
        match (0..SEEDS).map(|seed| run(seed, Some(bug))).find(|found| !found.broken.is_empty()) {
            Some(found) => {
                let (name, seeds) = (format!("{bug:?}"), found.seed + 1);
                println!("figures: {name} found after {seeds} seeds: {:.110}", found.broken[0]);
            }
            None => unseen.push(bug),
        }
    }
    assert!(unseen.is_empty(), "not found within {SEEDS} seeds: {unseen:?}");
}
