//! The data path at work: shard threads, sockets, engine connections, journal.
//!
//! Each shard is one thread with its own ring and its own sessions. The rest of the process speaks
//! to it through [`Gate`] only. No tokio type enters this crate: answers are futures that any
//! executor can wait for.

mod aside;
mod atoms;
mod bodies;
mod bounds;
mod command;
mod connection;
#[cfg(not(feature = "sim"))]
mod cores;
#[cfg(not(feature = "sim"))]
mod driver;
mod engine;
mod exchange;
mod fair;
mod gate;
mod guard;
mod handover;
mod inbox;
mod journal;
#[cfg(not(feature = "sim"))]
mod listener;
mod plane;
mod pool;
mod ready;
mod rt;
mod sessions;
mod shard;
mod stall;
mod stats;
mod stream;
#[cfg(not(feature = "sim"))]
mod sync;
#[cfg(not(feature = "sim"))]
mod unsafe_fd;
#[cfg(not(feature = "sim"))]
mod unsafe_iovec;
mod wake;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rollgate_pipeline::exchange::Gatehouse;
use rollgate_pipeline::fault::Fault;
use rollgate_pipeline::id::{SessionId, SessionKey, ShardCount};
use rollgate_pipeline::scene::Scene;

pub use gate::Gate;
#[cfg(feature = "sim")]
pub use rt::sim;
pub use stats::{BUCKETS_US, LimitHit, Times};

/// Which driver a shard's runtime uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    /// io_uring.
    Uring,
    /// epoll.
    Epoll,
}

/// What the configuration asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverChoice {
    /// io_uring where it works, else epoll with a warning.
    Auto,
    /// io_uring, or no start.
    Uring,
    /// epoll.
    Epoll,
}

/// When a record counts as durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Once it is with the kernel: survives the end of the process. Synced every second.
    Write,
    /// Once it is synced as well: survives a power loss.
    Fsync,
}

/// One engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineTarget {
    /// `http://host:port`; the path prefix, if any, goes before the engine's routes. A `/v1` at its
    /// end is left out.
    pub url: String,
    /// Calls in flight, over all shards; at least one for each shard.
    pub max_in_flight: u32,
}

/// What the data plane is started with.
pub struct GateConfig {
    /// The agents' port; 0 takes any free one.
    pub listen: SocketAddr,
    /// How many shards. May change over a restart.
    pub shards: ShardCount,
    /// Which driver.
    pub driver: DriverChoice,
    /// Whether each shard is bound to a core of its own.
    pub pin: bool,
    /// When a record counts as durable.
    pub durability: Durability,
    /// Journals lie in `state_dir/sessions`.
    pub state_dir: PathBuf,
    /// Where exchanges are sent.
    pub engines: Vec<EngineTarget>,
    /// What all exchanges share.
    pub gatehouse: Arc<Gatehouse>,
    /// Drop a session from memory after this long without a request.
    pub idle_evict_ms: u64,
}

/// Why the data plane does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The agents' port cannot be opened.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// As configured.
        addr: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The machine or the configuration forbids it; the text says how to mend that.
    #[error("{0}")]
    Environment(String),
}

/// Why a command of the control plane fails.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Neither in memory nor on disk.
    #[error("no such session")]
    NoSession,
    /// The session takes no more of these.
    #[error("the session is closed")]
    Closed,
    /// Try again later.
    #[error("the shard's queue is full")]
    Busy,
    /// The data plane drains or has ended.
    #[error("the data plane has stopped")]
    Stopped,
    /// What went wrong on the shard.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A new session.
#[derive(Clone, Debug)]
pub struct Created {
    /// Its public name.
    pub session_id: SessionId,
    /// The secret that opens it. Stored nowhere.
    pub key: SessionKey,
}

/// What an exchange spends its time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExchangeStage {
    /// Waiting for the rest of the request.
    Body,
    /// The gateway's own work.
    Own,
    /// Waiting for an engine: for a turn there, and for its reply.
    Engine,
    /// Waiting for another exchange, or for an engine that is paused.
    Wait,
    /// Waiting for the record to be durable.
    Record,
    /// Waiting for the agent to take its answer.
    Write,
}

impl ExchangeStage {
    /// All of them.
    pub const ALL: [ExchangeStage; 6] = [
        ExchangeStage::Body,
        ExchangeStage::Own,
        ExchangeStage::Engine,
        ExchangeStage::Wait,
        ExchangeStage::Record,
        ExchangeStage::Write,
    ];

    /// The name used in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            ExchangeStage::Body => "body",
            ExchangeStage::Own => "own",
            ExchangeStage::Engine => "engine",
            ExchangeStage::Wait => "wait",
            ExchangeStage::Record => "record",
            ExchangeStage::Write => "write",
        }
    }
}

/// Plain counters of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// Exchanges begun.
    pub exchanges: u64,
    /// Faults answered or met: refusals, engines that failed, records that could not be written.
    pub faults: u64,
    /// Connections handed to other shards.
    pub handovers_out: u64,
    /// Connections taken over from other shards.
    pub handovers_in: u64,
    /// Connections open now.
    pub connections: u64,
    /// Sessions in memory now.
    pub sessions: u64,
    /// Exchanges under way now.
    pub in_flight: u64,
    /// Bytes written to journals.
    pub journal_bytes: u64,
    /// Journals given up after a failed write.
    pub journal_failures: u64,
    /// Signs of life sent to agents.
    pub keepalives: u64,
    /// Calls of engines, tries included.
    pub engine_calls: u64,
    /// Calls tried again. A stale kept connection does not count.
    pub engine_retries: u64,
    /// Calls sent again though the engine may have begun to sample, stale kept connections included.
    pub engine_resends: u64,
    /// Calls that wait for their turn at an engine now.
    pub engine_queue: u64,
    /// Calls that had to wait for their turn.
    pub engine_waits: u64,
    /// How long they waited, in milliseconds.
    pub engine_wait_ms: u64,
    /// The longest of these waits, in milliseconds.
    pub engine_wait_longest_ms: u64,
    /// Calls refused since too many waited already.
    pub engine_queue_full: u64,
    /// Sessions loaded from their journals.
    pub reloads: u64,
    /// Idle sessions dropped from memory.
    pub evictions: u64,
    /// Unfinished writes cut off journals at load.
    pub torn_tails: u64,
    /// Exchanges whose agent left before it had its whole answer.
    pub orphans: u64,
    /// Orphans that nobody asked for again within the grace period.
    pub orphans_given_up: u64,
    /// Requests that took over what an orphan had.
    pub retries_adopted: u64,
    /// Of these, those for which the answer was there already.
    pub answers_replayed: u64,
    /// Waits of turns whose engine gave up on them.
    pub turns_parked: u64,
    /// Calls of engines after such a wait.
    pub turns_resumed: u64,
    /// Exchanges that only had their tokens counted.
    pub counted: u64,
    /// Whole prompts whose head was known: what many sessions begin with was not encoded again.
    pub heads_known: u64,
    /// Whole prompts whose head was not.
    pub heads_new: u64,
    /// Prompts that were encoded beside the shard, since they are long.
    pub encodes_aside: u64,
    /// Of these, those that the shard had to encode itself, since its helper had too many waiting.
    pub encodes_held_up: u64,
    /// Exchanges that were cancelled, since their session was closed.
    pub cancelled: u64,
    /// How often something kept the shard from its loop for long.
    pub stalls: u64,
    /// The longest of those times, in milliseconds.
    pub longest_stall_ms: u64,
    /// How long ago the shard was last in its loop, in milliseconds.
    pub beat_age_ms: u64,
    /// Times of exchanges, by stage in the order of [`ExchangeStage::ALL`].
    pub stages: [Times; ExchangeStage::ALL.len()],
    /// Turns recorded, by scene in the order of [`Scene::ALL`].
    pub turns: [u64; Scene::ALL.len()],
    /// Bytes of request bodies on their way in.
    pub bodies_bytes: u64,
    /// How often bounds were hit, in the order of [`LimitHit::ALL`].
    pub limits_hit: [u64; LimitHit::ALL.len()],
}

impl ShardStats {
    /// How often this bound was hit.
    pub fn hits(&self, bound: LimitHit) -> u64 {
        self.limits_hit[bound as usize]
    }
}

/// How a call of an engine can fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineFailure {
    /// There was no connection.
    Unreachable,
    /// The connection broke, or was closed, before a byte of a reply.
    Broken,
    /// The reply ended too early.
    Cut,
    /// The reply began and did not go on.
    Stalled,
    /// It took too long.
    Late,
    /// The engine asked to come back later.
    Busy,
    /// The engine broke down over the request, or its reply cannot be used.
    BadReply,
    /// The engine refused the request.
    Refused,
}

impl EngineFailure {
    /// Every one.
    pub const ALL: [EngineFailure; 8] = [
        EngineFailure::Unreachable,
        EngineFailure::Broken,
        EngineFailure::Cut,
        EngineFailure::Stalled,
        EngineFailure::Late,
        EngineFailure::Busy,
        EngineFailure::BadReply,
        EngineFailure::Refused,
    ];

    /// Metric label.
    pub fn label(self) -> &'static str {
        match self {
            EngineFailure::Unreachable => "unreachable",
            EngineFailure::Broken => "broken",
            EngineFailure::Cut => "cut",
            EngineFailure::Stalled => "stalled",
            EngineFailure::Late => "late",
            EngineFailure::Busy => "busy",
            EngineFailure::BadReply => "bad_reply",
            EngineFailure::Refused => "refused",
        }
    }
}

/// What one shard counted of one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineShardStats {
    /// Calls, tries included.
    pub calls: u64,
    /// Calls in flight now.
    pub in_flight: u64,
    /// Calls that failed, in the order of [`EngineFailure::ALL`].
    pub failures: [u64; EngineFailure::ALL.len()],
}

/// One engine, as the node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineStats {
    /// Its URL without the scheme.
    pub name: String,
    /// `unknown`, `healthy`, `degraded`, `draining` or `down`.
    pub state: &'static str,
    /// Whether it is healthy or degraded.
    pub up: bool,
    /// How often its state changed.
    pub changes: u64,
    /// By shard.
    pub shards: Vec<EngineShardStats>,
}

impl EngineStats {
    /// Every state.
    pub const STATES: [&str; 5] = ["unknown", "healthy", "degraded", "draining", "down"];
}

/// Why a node should be given no work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotReady {
    /// It ends.
    #[error("the node drains")]
    Draining,
    /// Shards have ended.
    #[error("{running} of {of} shards run; the log says why")]
    Shards {
        /// Those that run.
        running: usize,
        /// All.
        of: usize,
    },
    /// No engine is up: name and state of each.
    #[error("no engine is up: {}", .0.iter().map(|(name, state)| format!("{name} is {state}"))
        .collect::<Vec<_>>().join(", "))]
    Engines(Vec<(String, &'static str)>),
    /// The state directory cannot be written.
    #[error("the state directory cannot be written: {0}")]
    Disk(String),
}

impl NotReady {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            NotReady::Draining => "draining",
            NotReady::Shards { .. } => "shards",
            NotReady::Engines(_) => "engines",
            NotReady::Disk(_) => "disk",
        }
    }
}
