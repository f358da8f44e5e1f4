//! The warm sandboxes of one kind.

use std::time::Duration;

use rollgate_backends::{Sandbox, Spec};
use tokio::time::Instant;

use super::flight::Flight;
use crate::limits;

/// One that waits for somebody.
pub(super) struct Warm {
    pub sandbox: Box<dyn Sandbox>,
    pub made: Instant,
    /// Its longest life, from when it was made.
    pub life: Duration,
}

pub(super) struct Shelf {
    /// A spec of the kind.
    pub spec: Spec,
    pub flight: Flight,
    /// The one that was made last is taken first: the others may go idle.
    pub warm: Vec<Warm>,
    /// Those under way count as there: a kind that cannot be made is not made ever more often.
    pub making: usize,
    /// How many somebody will still ask for.
    pub wanted: usize,
    /// In a row.
    pub failures: u32,
    not_before: Option<Instant>,
}

impl Shelf {
    pub(super) fn new(spec: Spec) -> Self {
        Self {
            spec,
            flight: Flight::default(),
            warm: Vec::new(),
            making: 0,
            wanted: 0,
            failures: 0,
            not_before: None,
        }
    }

    /// Whether one more is to be made.
    pub(super) fn lacks(&self, most: usize, now: Instant) -> bool {
        let there = self.warm.len() + self.making;
        there < most.min(self.wanted) && self.not_before.is_none_or(|at| at <= now)
    }

    /// One could not be made: the pause before the next.
    pub(super) fn failed(&mut self, now: Instant) -> Duration {
        let doubled = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let pause = limits::REFILL_PAUSE.saturating_mul(doubled).min(limits::REFILL_PAUSE_MOST);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + pause);
        pause
    }
}
