//! Which engine has a session: rendezvous hashing with bounded loads.
//!
//! Each pair of session and engine has a score that nothing else changes. A session's calls go to
//! the engine with its best score, where its prefix is cached, unless that one has more than
//! [`LOAD_BOUND`] times its part of the calls in flight, or no room: then to the next in its order. So
//! nothing is kept per session. When an engine goes, only its sessions move, each to the second of
//! its own order; when it comes back, those and no others return. Engines that take more calls get
//! proportionally more sessions.
//!
//! Few calls are no load: up to [`LOAD_FREE`] of them (per engine and shard) an engine is never
//! passed over for.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::bounds::{LOAD_BOUND, LOAD_FREE};

/// An engine that may be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    /// Its place among all engines.
    pub(crate) engine: usize,
    /// What it is hashed by: the same in every process, whatever other engines there are.
    pub(crate) key: u64,
    /// Calls that it may have at once.
    pub(crate) room: usize,
    /// Calls that it has.
    pub(crate) load: usize,
}

/// The key of an engine with this URL.
pub(crate) fn key(url: &str) -> u64 {
    xxh3_64_with_seed(url.as_bytes(), 0)
}

/// The session's engine among these; `None` where none has room.
pub(crate) fn choose(
    session: u128,
    engines: impl Iterator<Item = Candidate> + Clone,
) -> Option<usize> {
    let (mut loads, mut rooms) = (0, 0);
    for engine in engines.clone() {
        loads += engine.load;
        rooms += engine.room;
    }
    let open = engines.filter(|engine| engine.load < engine.room);
    let under = open.clone().filter(|engine| engine.load < bound(engine.room, loads, rooms));
    let cost = |engine: &Candidate| cost(session, engine);
    let nearest = under.min_by(|one, other| cost(one).total_cmp(&cost(other)));
    // Where all that have room are beyond their part, the one with most room left has it.
    let nearest = nearest.or_else(|| {
        let filled = |engine: &Candidate| engine.load as f64 / engine.room as f64;
        open.min_by(|one, other| filled(one).total_cmp(&filled(other)))
    });
    nearest.map(|engine| engine.engine)
}

/// Calls that an engine may have before its sessions go elsewhere: the call to be placed counts.
pub(crate) fn bound(room: usize, loads: usize, rooms: usize) -> usize {
    let part = (loads + 1) as f64 * room as f64 / rooms.max(1) as f64;
    ((LOAD_BOUND * part).ceil() as usize).max(LOAD_FREE)
}

/// The lower, the nearer. Weighted: the logarithm makes an engine with twice the room the nearest of
/// twice as many sessions.
fn cost(session: u128, engine: &Candidate) -> f64 {
    let hash = xxh3_64_with_seed(&session.to_le_bytes(), engine.key);
    // In (0, 1): 53 bits, and never an end of the range.
    let unit = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -unit.ln() / engine.room as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engines(rooms: &[usize]) -> Vec<Candidate> {
        let make = |(engine, &room)| {
            let key = key(&format!("http://engine-{engine}:8000"));
            Candidate { engine, key, room, load: 0 }
        };
        rooms.iter().enumerate().map(make).collect()
    }

    fn sessions(count: u128) -> impl Iterator<Item = u128> {
        (0..count).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }

    fn home(session: u128, engines: &[Candidate]) -> usize {
        choose(session, engines.iter().copied()).unwrap()
    }

    #[test]
    fn sessions_are_spread_by_room() {
        for rooms in [&[64, 64][..], &[64; 8], &[32, 64, 96], &[1, 7]] {
            let engines = engines(rooms);
            let mut counts = vec![0_f64; rooms.len()];
            sessions(20_000).for_each(|session| counts[home(session, &engines)] += 1.0);
            let all: usize = rooms.iter().sum();
            for (count, room) in counts.iter().zip(rooms) {
                let part = 20_000.0 * *room as f64 / all as f64;
                assert!((count / part - 1.0).abs() < 0.08, "{rooms:?}: {counts:?}");
            }
        }
    }

    #[test]
    fn an_engine_that_goes_moves_its_sessions_only_and_has_them_again() {
        let all = engines(&[64; 5]);
        for gone in 0..all.len() {
            let left: Vec<_> = all.iter().copied().filter(|e| e.engine != gone).collect();
            for session in sessions(2_000) {
                let (before, after) = (home(session, &all), home(session, &left));
                assert!(before == after || before == gone, "a session moved without need");
                assert_ne!(after, gone);
            }
        }
    }

    #[test]
    fn its_place_in_the_configuration_is_nothing_to_a_session() {
        let mut turned = engines(&[64, 128, 64]);
        turned.reverse();
        for session in sessions(500) {
            assert_eq!(home(session, &turned), home(session, &engines(&[64, 128, 64])));
        }
    }

    #[test]
    fn the_bound_is_kept_at_every_load() {
        for rooms in [&[400, 400, 400][..], &[100, 900], &[40; 7]] {
            let mut engines = engines(rooms);
            let all: usize = rooms.iter().sum();
            // One session asks for everything: the worst there is.
            for placed in 0..all {
                let engine = home(7, &engines);
                engines[engine].load += 1;
                for engine in &engines {
                    let most = bound(engine.room, placed, all).min(engine.room);
                    assert!(engine.load <= most, "{engine:?} at {placed}");
                }
            }
            assert_eq!(choose(7, engines.iter().copied()), None, "all are full");
        }
    }

    #[test]
    fn few_calls_move_nobody_and_many_do() {
        let mut engines = engines(&[64, 64]);
        let first = home(3, &engines);
        for _ in 0..LOAD_FREE {
            assert_eq!(home(3, &engines), first);
            engines[first].load += 1;
        }
        assert_ne!(home(3, &engines), first, "more than its part");
        engines[first].load -= 1;
        assert_eq!(home(3, &engines), first, "and back");
    }

    #[test]
    fn beyond_its_part_is_still_better_than_waiting() {
        let mut engines = engines(&[2, 100]);
        (engines[0].load, engines[1].load) = (2, 99);
        assert_eq!(home(1, &engines), 1);
        assert_eq!(choose(1, std::iter::empty()), None);
    }
}
