//! How engines are, as all shards see it: read at each call, written on change only.
//!
//! | state | meaning | calls |
//! | --- | --- | --- |
//! | unknown | not heard of yet | like healthy |
//! | healthy | answers | yes |
//! | degraded | its health route is well, its calls failed | one in a while, as a trial |
//! | draining | says that it takes no calls (503 of its health route) | none |
//! | down | cannot be reached, or its calls fail | none; trials by back-off |
//!
//! Failures in a row open the circuit: [`crate::bounds::CIRCUIT_STRIKES`] of one shard. A call that
//! succeeds closes it. Whoever sees that a trial is due takes it with one compare-and-swap; the time
//! to the next one doubles. An engine that could not be reached waits for its health route instead,
//! where that is looked at. Where no engine is left, all are tried: a call is the best trial.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rollgate_pipeline::engine::Wellbeing;

use crate::bounds::{CIRCUIT_FIRST, CIRCUIT_LONGEST};

/// How an engine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Unknown,
    Healthy,
    Degraded,
    Draining,
    Down,
}

impl State {
    const ALL: [State; 5] =
        [State::Unknown, State::Healthy, State::Degraded, State::Draining, State::Down];

    /// For logs and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Unknown => "unknown",
            State::Healthy => "healthy",
            State::Degraded => "degraded",
            State::Draining => "draining",
            State::Down => "down",
        }
    }

    /// Whether it can be counted on.
    pub(crate) fn up(self) -> bool {
        matches!(self, State::Healthy | State::Degraded)
    }
}

/// Whether an engine is to have a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// It is well, or a trial is due.
    First,
    /// Its calls have failed.
    Second,
    /// Where nothing else is left.
    Last,
}

/// Why a circuit opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// No connection, or none that brought a byte.
    Unreachable,
    /// It answers with what cannot be used.
    Failing,
}

/// A change of state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    pub(crate) from: State,
    pub(crate) to: State,
}

/// One engine's health, on a cache line of its own.
#[repr(align(128))]
pub(crate) struct Health {
    state: AtomicU8,
    /// How often in a row the circuit opened or a trial was taken.
    trips: AtomicU32,
    /// When the next trial is due, in monotonic milliseconds.
    trial_ms: AtomicU64,
    /// The circuit opened since calls failed, not since it could not be reached.
    failing: AtomicBool,
    changes: AtomicU64,
}

impl Health {
    /// `looked_at`: its health route is.
    pub(crate) fn new(looked_at: bool) -> Self {
        let state = if looked_at { State::Unknown } else { State::Healthy };
        Self {
            state: AtomicU8::new(state as u8),
            trips: AtomicU32::new(0),
            trial_ms: AtomicU64::new(u64::MAX),
            failing: AtomicBool::new(false),
            changes: AtomicU64::new(0),
        }
    }

    pub(crate) fn state(&self) -> State {
        State::ALL[usize::from(self.state.load(Relaxed)).min(State::ALL.len() - 1)]
    }

    /// How often the state changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    pub(crate) fn rank(&self, now_ms: u64) -> Rank {
        match self.state() {
            State::Unknown | State::Healthy => Rank::First,
            State::Degraded | State::Down if now_ms >= self.trial_ms.load(Relaxed) => Rank::First,
            State::Degraded => Rank::Second,
            State::Draining | State::Down => Rank::Last,
        }
    }

    /// Before a call: takes the trial, where one is due. Of several who ask, one gets it.
    pub(crate) fn admit(&self, now_ms: u64) -> bool {
        if !matches!(self.state(), State::Degraded | State::Down) {
            return true;
        }
        let due_ms = self.trial_ms.load(Relaxed);
        if now_ms < due_ms {
            return true;
        }
        let next_ms = now_ms.saturating_add(back_off(self.trips.load(Relaxed) + 1));
        let taken = self.trial_ms.compare_exchange(due_ms, next_ms, Relaxed, Relaxed).is_ok();
        if taken {
            self.trips.fetch_add(1, Relaxed);
        }
        taken
    }

    /// Too many calls in a row failed: opens the circuit. `looked_at`: its health route is.
    pub(crate) fn trip(&self, cause: Cause, looked_at: bool, now_ms: u64) -> Option<Change> {
        if matches!(self.state(), State::Down | State::Draining) {
            return None;
        }
        let trips = self.trips.fetch_add(1, Relaxed) + 1;
        self.failing.store(cause == Cause::Failing, Relaxed);
        let due_ms = match cause {
            Cause::Unreachable if looked_at => u64::MAX,
            _ => now_ms.saturating_add(back_off(trips)),
        };
        self.trial_ms.store(due_ms, Relaxed);
        self.set(State::Down)
    }

    /// A call succeeded.
    pub(crate) fn succeeded(&self) -> Option<Change> {
        // What was under way when it began to drain says nothing about what comes.
        match self.state() {
            State::Healthy | State::Draining => None,
            _ => self.recover(),
        }
    }

    /// Its health route answered; `None`: often enough it did not.
    pub(crate) fn told(&self, wellbeing: Option<Wellbeing>) -> Option<Change> {
        match wellbeing {
            Some(Wellbeing::Well) if !self.failing.load(Relaxed) => self.recover(),
            // The trial must wait its time: the route was well all along, it may be.
            Some(Wellbeing::Well) => self.set(State::Degraded),
            Some(Wellbeing::Unavailable) => self.set(State::Draining),
            Some(Wellbeing::Ill) | None => {
                self.failing.store(false, Relaxed);
                self.trial_ms.store(u64::MAX, Relaxed);
                self.set(State::Down)
            }
        }
    }

    fn recover(&self) -> Option<Change> {
        if self.state() == State::Healthy {
            return None;
        }
        self.failing.store(false, Relaxed);
        self.trips.store(0, Relaxed);
        self.set(State::Healthy)
    }

    fn set(&self, to: State) -> Option<Change> {
        // Looked at first: a line that all shards read is written for a reason only.
        if self.state() == to {
            return None;
        }
        let from = State::ALL[usize::from(self.state.swap(to as u8, Relaxed)).min(4)];
        if from == to {
            return None;
        }
        self.changes.fetch_add(1, Relaxed);
        Some(Change { from, to })
    }
}

/// Milliseconds to the trial after so many in a row.
fn back_off(trips: u32) -> u64 {
    let doubled = CIRCUIT_FIRST.saturating_mul(1 << trips.saturating_sub(1).min(16));
    millis(doubled.min(CIRCUIT_LONGEST))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_have_the_names_that_are_told() {
        assert_eq!(State::ALL.map(State::name), crate::EngineStats::STATES);
    }

    fn first() -> u64 {
        millis(CIRCUIT_FIRST)
    }

    #[test]
    fn a_circuit_opens_is_tried_with_back_off_and_closes() {
        let health = Health::new(false);
        assert_eq!((health.state(), health.rank(0)), (State::Healthy, Rank::First));
        let change = health.trip(Cause::Failing, false, 0);
        assert_eq!(change, Some(Change { from: State::Healthy, to: State::Down }));
        assert_eq!(health.trip(Cause::Failing, false, 0), None, "once");
        assert_eq!(health.rank(first() - 1), Rank::Last);
        assert_eq!(health.rank(first()), Rank::First, "half open");
        assert!(health.admit(first()), "one has the trial");
        assert_eq!(health.rank(first()), Rank::Last, "and nobody else");
        assert_eq!(health.rank(3 * first() - 1), Rank::Last, "twice as long");
        assert_eq!(health.rank(3 * first()), Rank::First);
        assert_eq!(health.succeeded().map(|change| change.to), Some(State::Healthy));
        health.trip(Cause::Failing, false, 0);
        assert_eq!(health.rank(first()), Rank::First, "the back-off began anew");
        assert_eq!(health.changes(), 3);
    }

    #[test]
    fn the_back_off_ends_somewhere() {
        assert_eq!((back_off(0), back_off(1), back_off(2)), (first(), first(), 2 * first()));
        assert_eq!(back_off(1_000), millis(CIRCUIT_LONGEST));
    }

    #[test]
    fn who_cannot_be_reached_waits_for_its_health_route() {
        let health = Health::new(true);
        assert_eq!(health.state(), State::Unknown);
        health.trip(Cause::Unreachable, true, 0);
        assert_eq!(health.rank(u64::MAX - 1), Rank::Last);
        assert_eq!(health.told(Some(Wellbeing::Well)).unwrap().to, State::Healthy);
        assert_eq!(health.told(Some(Wellbeing::Well)), None);
    }

    #[test]
    fn a_good_health_route_does_not_excuse_calls_that_fail() {
        let health = Health::new(true);
        health.trip(Cause::Failing, true, 0);
        assert_eq!(health.told(Some(Wellbeing::Well)).unwrap().to, State::Degraded);
        assert_eq!(health.rank(6), Rank::Second);
        assert_eq!(health.rank(5 + first()), Rank::First, "a trial");
        assert!(health.admit(5 + first()));
        assert!(health.trip(Cause::Failing, true, 9_000).is_some());
        assert_eq!(health.succeeded().unwrap().to, State::Healthy);
    }

    #[test]
    fn an_engine_that_drains_or_is_gone_gets_nothing_until_it_is_well() {
        let health = Health::new(true);
        for ill in [Some(Wellbeing::Unavailable), Some(Wellbeing::Ill), None] {
            health.told(ill);
            assert_eq!(health.rank(u64::MAX - 1), Rank::Last, "{ill:?}");
            assert!(!health.state().up());
            assert_eq!(health.told(Some(Wellbeing::Well)).unwrap().to, State::Healthy);
        }
        health.told(Some(Wellbeing::Unavailable));
        assert_eq!(health.succeeded(), None, "a call that was under way");
    }
}
