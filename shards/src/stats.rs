//! Counters of a shard: written by it alone, read by anyone.

mod histogram;

use std::sync::atomic::{AtomicU64, Ordering};

use rollgate_pipeline::scene::Scene;

pub(crate) use histogram::Histogram;
pub use histogram::{BUCKETS_US, Times};

use crate::{ExchangeStage, ShardStats};

/// A number with one writer. Reading never makes the writer wait.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Only the owning shard's thread may call this.
    pub(crate) fn add(&self, by: u64) {
        self.0.store(self.get().wrapping_add(by), Ordering::Relaxed);
    }

    /// Only the owning shard's thread may call this.
    pub(crate) fn sub(&self, by: u64) {
        self.0.store(self.get().saturating_sub(by), Ordering::Relaxed);
    }

    /// Only the owning shard's thread may call this.
    pub(crate) fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }

    /// Sets it where that makes it larger. Only the owning shard's thread may call this.
    pub(crate) fn raise(&self, to: u64) {
        self.set(self.get().max(to));
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one shard, on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) exchanges: Counter,
    pub(crate) faults: Counter,
    pub(crate) handovers_out: Counter,
    pub(crate) handovers_in: Counter,
    pub(crate) connections: Counter,
    pub(crate) sessions: Counter,
    pub(crate) in_flight: Counter,
    pub(crate) journal_bytes: Counter,
    pub(crate) journal_failures: Counter,
    pub(crate) keepalives: Counter,
    pub(crate) engine_calls: Counter,
    pub(crate) engine_retries: Counter,
    pub(crate) engine_resends: Counter,
    pub(crate) engine_queue: Counter,
    pub(crate) engine_waits: Counter,
    pub(crate) engine_wait_ms: Counter,
    pub(crate) engine_wait_longest_ms: Counter,
    pub(crate) engine_queue_full: Counter,
    pub(crate) reloads: Counter,
    pub(crate) evictions: Counter,
    pub(crate) torn_tails: Counter,
    pub(crate) orphans: Counter,
    pub(crate) orphans_given_up: Counter,
    pub(crate) retries_adopted: Counter,
    pub(crate) answers_replayed: Counter,
    pub(crate) turns_parked: Counter,
    pub(crate) turns_resumed: Counter,
    pub(crate) counted: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) stalls: Counter,
    pub(crate) longest_stall_ms: Counter,
    /// When the shard was last in its loop, in monotonic milliseconds; 0: not yet.
    pub(crate) beat_ms: Counter,
    /// By stage in the order of [`ExchangeStage::ALL`].
    pub(crate) stages: [Histogram; ExchangeStage::ALL.len()],
    /// By scene in the order of [`Scene::ALL`].
    pub(crate) turns: [Counter; Scene::ALL.len()],
}

impl Counters {
    /// A turn of this scene was recorded.
    pub(crate) fn turn(&self, scene: Scene) {
        if let Some(at) = Scene::ALL.iter().position(|other| *other == scene) {
            self.turns[at].add(1);
        }
    }

    /// `now_ms`: the monotonic clock that beats are told by.
    pub(crate) fn read(&self, now_ms: u64) -> ShardStats {
        let beat_ms = self.beat_ms.get();
        ShardStats {
            stalls: self.stalls.get(),
            longest_stall_ms: self.longest_stall_ms.get(),
            beat_age_ms: if beat_ms == 0 { 0 } else { now_ms.saturating_sub(beat_ms) },
            stages: self.stages.each_ref().map(Histogram::read),
            exchanges: self.exchanges.get(),
            faults: self.faults.get(),
            handovers_out: self.handovers_out.get(),
            handovers_in: self.handovers_in.get(),
            connections: self.connections.get(),
            sessions: self.sessions.get(),
            in_flight: self.in_flight.get(),
            journal_bytes: self.journal_bytes.get(),
            journal_failures: self.journal_failures.get(),
            keepalives: self.keepalives.get(),
            engine_calls: self.engine_calls.get(),
            engine_retries: self.engine_retries.get(),
            engine_resends: self.engine_resends.get(),
            engine_queue: self.engine_queue.get(),
            engine_waits: self.engine_waits.get(),
            engine_wait_ms: self.engine_wait_ms.get(),
            engine_wait_longest_ms: self.engine_wait_longest_ms.get(),
            engine_queue_full: self.engine_queue_full.get(),
            reloads: self.reloads.get(),
            evictions: self.evictions.get(),
            torn_tails: self.torn_tails.get(),
            orphans: self.orphans.get(),
            orphans_given_up: self.orphans_given_up.get(),
            retries_adopted: self.retries_adopted.get(),
            answers_replayed: self.answers_replayed.get(),
            turns_parked: self.turns_parked.get(),
            turns_resumed: self.turns_resumed.get(),
            counted: self.counted.get(),
            cancelled: self.cancelled.get(),
            turns: self.turns.each_ref().map(Counter::get),
        }
    }
}
