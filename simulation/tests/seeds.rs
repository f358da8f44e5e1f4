//! Seeds without a broken promise. `ROLLGATE_SIM_SEED` plays one, with its trace;
//! `ROLLGATE_SIM_SEEDS` says how many.

use rollgate_simulation::{Outcome, run};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn told(outcome: &Outcome) -> String {
    format!(
        "seed {}: {:#?}\n{}\n{}",
        outcome.seed,
        outcome.broken,
        outcome.plan,
        outcome.lines.join("\n")
    )
}

/// Plays a seed and keeps little of it.
fn shortly(seed: u64) -> Outcome {
    let mut outcome = run(seed, None);
    if !outcome.broken.is_empty() {
        println!("seed {seed}: {:#?}", outcome.broken);
    }
    outcome.lines = Vec::new();
    outcome
}

#[test]
fn no_seed_breaks_a_promise() {
    if let Some(seed) = number("ROLLGATE_SIM_SEED") {
        let outcome = run(seed, None);
        println!("{}", told(&outcome));
        assert!(outcome.broken.is_empty(), "{:#?}", outcome.broken);
        return;
    }
    let seeds = number("ROLLGATE_SIM_SEEDS").unwrap_or(300);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let play = |first: u64| {
            scope.spawn(move || {
                let mine = (first..seeds).step_by(threads as usize);
                mine.map(shortly).collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = (0..threads).map(play).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let answered: u64 = outcomes.iter().map(|outcome| outcome.answered).sum();
    let ended: u64 = outcomes.iter().map(|outcome| outcome.ended).sum();
    let broken = outcomes.iter().filter(|outcome| !outcome.broken.is_empty()).count();
    println!(
        "figures: {seeds} seeds: {answered} answers, {ended} ends of the process, {broken} broken"
    );
    assert!(answered > seeds, "something is played");
    assert_eq!(broken, 0, "play one with ROLLGATE_SIM_SEED to see its trace");
}

#[test]
fn a_seed_is_played_the_same_way_each_time() {
    for seed in 0..20 {
        let (one, two) = (run(seed, None), run(seed, None));
        assert_eq!(one.hash, two.hash, "seed {seed}");
    }
}
