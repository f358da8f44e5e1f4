//! What all threads of the data plane share: the settled configuration, and a door to each shard.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Instant;

use rollgate_pipeline::exchange::{Gatehouse, Now};
use rollgate_pipeline::id::{SessionHash, ShardCount, ShardIndex};
use rollgate_pipeline::limits::{COMMANDS_PER_SHARD, HANDOVERS_PER_SHARD, Limits};

use crate::command::Command;
use crate::engine::Engine;
use crate::guard::Guard;
use crate::inbox::Inbox;
use crate::pool::health::{Change, Health};
use crate::pool::meter::Meter;
use crate::rt::time;
use crate::stats::Counters;
use crate::{Driver, Durability};

/// Read-only but for doors and flags.
pub(crate) struct Plane {
    pub(crate) gatehouse: Arc<Gatehouse>,
    pub(crate) driver: Driver,
    pub(crate) durability: Durability,
    /// `state_dir/sessions`.
    pub(crate) journals: PathBuf,
    pub(crate) engines: Vec<Engine>,
    /// How each engine is. Written on change only.
    pub(crate) healths: Vec<Health>,
    /// By shard, then by engine.
    pub(crate) meters: Vec<Box<[Meter]>>,
    pub(crate) idle_evict_ms: u64,
    #[cfg_attr(feature = "sim", expect(dead_code, reason = "a simulation has no cores"))]
    pub(crate) pin: bool,
    /// Journal files that each shard keeps open.
    pub(crate) open_journals: usize,
    pub(crate) guard: Guard,
    pub(crate) doors: Vec<Door>,
    /// Set once, when the drain begins.
    pub(crate) draining: AtomicBool,
    /// Shards whose threads have not ended.
    pub(crate) running: AtomicUsize,
    /// A journal was written since the last background sync.
    pub(crate) unsynced: AtomicBool,
    pub(crate) epoch: Instant,
}

/// How others reach one shard.
pub(crate) struct Door {
    inbox: Inbox<Command>,
    pub(crate) counters: Counters,
}

/// The queues of a door.
const COMMANDS: usize = 0;
const SOCKETS: usize = 1;

impl Plane {
    pub(crate) fn shards(&self) -> ShardCount {
        ShardCount(u16::try_from(self.doors.len()).unwrap_or(u16::MAX))
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.gatehouse.limits
    }

    pub(crate) fn owner(&self, hash: SessionHash) -> ShardIndex {
        hash.bucket().owner(self.shards())
    }

    pub(crate) fn door(&self, shard: ShardIndex) -> &Door {
        &self.doors[usize::from(shard.0)]
    }

    pub(crate) fn now(&self) -> Now {
        let since_epoch = time::now().saturating_duration_since(self.epoch);
        Now {
            wall_ms: time::wall_ms(),
            mono_ms: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(crate) fn draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Tells every shard to stop accepting and to finish.
    pub(crate) fn begin_drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.doors.iter().for_each(|door| door.wake());
    }

    /// Something was written that the next background sync has to cover.
    pub(crate) fn leave_to_sync(&self) {
        // Looked at first: shards do not take the line from each other for nothing.
        if !self.unsynced.load(Ordering::Relaxed) {
            self.unsynced.store(true, Ordering::Release);
        }
    }

    /// Says that an engine's state changed, where it did.
    pub(crate) fn tell_change(&self, engine: usize, change: Option<Change>, reason: &str) {
        let Some(Change { from, to }) = change else { return };
        let (engine, from, to) = (&self.engines[engine].url, from.name(), to.name());
        if to == "healthy" {
            tracing::info!(engine, from, to, reason, "an engine's state changed");
        } else {
            tracing::warn!(engine, from, to, reason, "an engine's state changed");
        }
    }

    /// Where the session's journal lies.
    pub(crate) fn journal_path(&self, hash: SessionHash) -> PathBuf {
        let name = hash.to_string();
        self.journals.join(&name[..2]).join(format!("{name}.rgj"))
    }
}

impl Default for Door {
    fn default() -> Self {
        let inbox = Inbox::new([COMMANDS_PER_SHARD, HANDOVERS_PER_SHARD]);
        Self { inbox, counters: Counters::default() }
    }
}

impl Door {
    /// Queues a command and wakes the shard. A full queue gives the command back.
    pub(crate) fn push(&self, command: Command) -> Result<(), Command> {
        let queue = if let Command::Socket(_) = command { SOCKETS } else { COMMANDS };
        self.inbox.push(queue, command)
    }

    pub(crate) fn next_command(&self) -> Option<Command> {
        self.inbox.pop(COMMANDS)
    }

    pub(crate) fn next_socket(&self) -> Option<Command> {
        self.inbox.pop(SOCKETS)
    }

    /// For the shard's own thread, before it looks.
    pub(crate) fn register(&self, waker: &Waker) {
        self.inbox.register(waker);
    }

    /// Lets the shard look again.
    pub(crate) fn wake(&self) {
        self.inbox.wake();
    }

    /// For the shard's own thread. Nothing will be taken any more. What waits is dropped, which answers it.
    pub(crate) fn close(&self) {
        self.inbox.close();
    }
}
