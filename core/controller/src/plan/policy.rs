//! The numbers of the policy, and what is asked of the plan.

use std::collections::BTreeSet;

use super::Slot;

/// Milliseconds since the job began. Only ever compared: the plan has no clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tick(pub u64);

impl Tick {
    /// So many milliseconds later.
    pub fn after(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

/// The numbers of the policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Attempts under way at once, those that wait for their sandbox included. At least 1.
    pub concurrency: usize,
    /// Of them, those that may wait for their sandbox. At least 1.
    pub starting: usize,
    /// How often an attempt that failed for reasons outside it is made again.
    pub retries: u32,
    /// The pause before it is made again.
    pub backoff: Backoff,
    /// The job stops after this many such failures in a row for the same reason, if they are not all
    /// of one task among several. At least 1.
    pub same_failures: u32,
    /// How fast sandboxes are asked for; `None`: as fast as places get free.
    pub rate: Option<Rate>,
    /// What the attempts under way may use together.
    pub offer: Room,
    /// What the job may use up.
    pub budget: JobBudget,
    /// How long the job may be held with nothing under way before it stops, in milliseconds.
    pub hold_ms: u64,
    /// Seed of all that is random.
    pub seed: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            concurrency: 64,
            starting: 64,
            retries: 2,
            backoff: Backoff { first_ms: 1_000, most_ms: 60_000 },
            same_failures: 12,
            rate: None,
            offer: Room::ENDLESS,
            budget: JobBudget::default(),
            hold_ms: 600_000,
            seed: 0,
        }
    }
}

/// A pause that doubles with each retry. What is taken is between half of it and all of it, so that
/// attempts that failed together do not come back together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    /// Before the first retry, in milliseconds.
    pub first_ms: u64,
    /// Longest, in milliseconds.
    pub most_ms: u64,
}

/// A token bucket: so many at once, and so many each minute in the long run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// At least 1.
    pub per_minute: u32,
    /// At least 1.
    pub burst: u32,
}

/// Cores and memory: what a sandbox asks for, or what the node offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// Thousandths of a core.
    pub millicores: u64,
    /// Main memory.
    pub memory_mib: u64,
}

impl Room {
    /// No bound.
    pub const ENDLESS: Room = Room { millicores: u64::MAX, memory_mib: u64::MAX };

    /// Whether there is as much of everything.
    pub fn holds(self, other: Room) -> bool {
        other.millicores <= self.millicores && other.memory_mib <= self.memory_mib
    }

    /// What both are together.
    pub fn plus(self, other: Room) -> Room {
        Room {
            millicores: self.millicores.saturating_add(other.millicores),
            memory_mib: self.memory_mib.saturating_add(other.memory_mib),
        }
    }

    /// What is left of it without the other.
    pub fn minus(self, other: Room) -> Room {
        Room {
            millicores: self.millicores.saturating_sub(other.millicores),
            memory_mib: self.memory_mib.saturating_sub(other.memory_mib),
        }
    }
}

/// What a job may use up; `None`: no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobBudget {
    /// Tries that are started, retries included. Then nothing more is started.
    pub tries: Option<u64>,
    /// Ids sampled in tries that ended. Then nothing more is started.
    pub tokens: Option<u64>,
    /// Milliseconds from the job's begin. Then nothing more is started, and what runs is cancelled.
    pub time_ms: Option<u64>,
}

/// A task as the plan sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Attempts of its group.
    pub attempts: u32,
    /// Those that an earlier run settled.
    pub settled: BTreeSet<u32>,
    /// Higher ones go first; equal ones in the order of the list.
    pub priority: i32,
    /// What one attempt's sandbox uses.
    pub demand: Room,
    /// Longest a try may take, in milliseconds. It is cancelled then, as a failure from outside.
    pub deadline_ms: u64,
}

impl Wanted {
    /// A group of so many attempts, all else by default.
    pub fn group(attempts: u32) -> Self {
        Self {
            attempts,
            settled: BTreeSet::new(),
            priority: 0,
            demand: Room::default(),
            deadline_ms: u64::MAX,
        }
    }
}

/// An attempt that could never be started.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a sandbox of it asks for {} cores and {} MiB, and all there is are {} cores and {} MiB: ask for \
     less, or let the job use more",
    cores(.demand.millicores), .demand.memory_mib, cores(.offer.millicores), .offer.memory_mib
)]
pub struct Unfit {
    /// Its first attempt.
    pub slot: Slot,
    /// What it asks for.
    pub demand: Room,
    /// What there is.
    pub offer: Room,
}

fn cores(millicores: u64) -> f64 {
    millicores as f64 / 1_000.0
}
