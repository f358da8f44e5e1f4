//! The data path at work: shard threads, sockets, engine connections, journal.
//!
//! Each shard is one thread with its own ring and its own sessions. The rest of the process speaks
//! to it through [`Gate`] only. No tokio type enters this crate: answers are futures that any
//! executor can wait for.

mod bounds;
mod command;
mod connection;
#[cfg(not(feature = "sim"))]
mod driver;
mod engine;
mod exchange;
mod gate;
mod handover;
mod journal;
#[cfg(not(feature = "sim"))]
mod listener;
mod plane;
mod pool;
mod rt;
mod sessions;
mod shard;
mod stats;
mod stream;
#[cfg(not(feature = "sim"))]
mod sync;
#[cfg(not(feature = "sim"))]
mod unsafe_fd;
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
    /// `http://host:port`; the path prefix, if any, goes before the engine's routes.
    pub url: String,
    /// Calls in flight, over all shards.
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
    /// Exchanges that were cancelled, since their session was closed.
    pub cancelled: u64,
    /// Turns recorded, by scene in the order of [`Scene::ALL`].
    pub turns: [u64; Scene::ALL.len()],
}
