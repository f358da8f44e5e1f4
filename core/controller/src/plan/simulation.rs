//! A plan in a world of random faults and virtual time. Whatever is broken says its seed.
//!
//! `ROLLGATE_PLAN_SEEDS` and `ROLLGATE_PLAN_ATTEMPTS` set how many seeds are played and how many
//! attempts each of them has.

mod ledger;
mod world;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::planted::{Bug, with};
use world::{Tally, World};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn play(seed: u64, attempts: u64) -> Result<Tally, String> {
    let played = std::panic::catch_unwind(AssertUnwindSafe(|| World::new(seed, attempts).play()));
    match played {
        Ok(done) => done.map_err(|what| format!("seed {seed}: {what}")),
        Err(_) => Err(format!("seed {seed}: the plan panicked")),
    }
}

/// Plays all seeds on every core: what they came to, or the first that broke.
fn play_all(seeds: u64, attempts: u64) -> Result<Tally, String> {
    let next = AtomicU64::new(0);
    let worker = || {
        let mut sum = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return Ok::<Tally, String>(sum);
            }
            sum.add(play(seed, attempts)?);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        let mut sum = Tally::default();
        for worker in workers {
            sum.add(worker.join().unwrap()?);
        }
        Ok(sum)
    })
}

#[test]
fn no_attempt_is_lost_or_counted_twice_and_no_failure_from_outside_is_rewarded() {
    let seeds = number("ROLLGATE_PLAN_SEEDS", 1_000);
    let attempts = number("ROLLGATE_PLAN_ATTEMPTS", 100);
    let begun = Instant::now();
    let tally = play_all(seeds, attempts).unwrap_or_else(|what| panic!("{what}"));
    let took = begun.elapsed().as_secs_f64();
    println!("figures: planner simulation: {seeds} seeds, {tally:?}, {took:.1} s");
    // The faults that are meant to happen did.
    for (what, count) in tally.all() {
        assert!(count > 0 || seeds < 100, "{what} never happened: {tally:?}");
    }
}

#[test]
fn the_same_seed_plays_the_same() {
    for seed in [3, 17] {
        assert_eq!(play(seed, 200), play(seed, 200));
    }
}

#[test]
fn the_simulation_finds_planted_bugs() {
    std::panic::set_hook(Box::new(|_| {}));
    let found = |bug: Bug| {
        let broken = (0..1_000).find_map(|seed| with(bug, || play(seed, 60)).err());
        (bug, broken)
    };
    let all: Vec<_> = Bug::ALL.into_iter().map(found).collect();
    let _ = std::panic::take_hook();
    for (bug, broken) in &all {
        println!("figures: planted {bug:?}: {}", broken.as_deref().unwrap_or("not found"));
    }
    let missed: Vec<_> = all.iter().filter(|(_, broken)| broken.is_none()).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
