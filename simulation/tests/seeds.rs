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

#[test]
fn no_seed_breaks_a_promise() {
    if let Some(seed) = number("ROLLGATE_SIM_SEED") {
        let outcome = run(seed, None);
        println!("{}", told(&outcome));
        assert!(outcome.broken.is_empty(), "{:#?}", outcome.broken);
        return;
    }
    let seeds = number("ROLLGATE_SIM_SEEDS").unwrap_or(300);
    let (mut answered, mut ended) = (0, 0);
    let mut broken = 0;
    for seed in 0..seeds {
        let outcome = run(seed, None);
        answered += outcome.answered;
        ended += outcome.ended;
        if !outcome.broken.is_empty() {
            println!("seed {seed}: {:#?}", outcome.broken);
            broken += 1;
        }
    }
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
