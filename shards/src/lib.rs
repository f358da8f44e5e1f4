//! The data path at work: shard threads, sockets, engine connections, journal.
//!
//! Each shard is one thread with its own ring and its own sessions. The rest of the process speaks
//! to it through [`Gate`] only. No tokio type enters this crate: answers are futures that any
//! executor can wait for.

mod bounds;
mod command;
mod connection;
mod driver;
mod engine;
mod exchange;
mod gate;
mod handover;
mod journal;
mod listener;
mod plane;
mod pool;
mod sessions;
mod shard;
mod stats;
mod stream;
mod sync;
mod unsafe_fd;
mod wake;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rollgate_pipeline::exchange::Gatehouse;
use rollgate_pipeline::fault::Fault;
use rollgate_pipeline::id::{SessionId, SessionKey, ShardCount};

pub use gate::Gate;

/// Which driver a shard's runtime uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    Uring,
    Epoll,
}

/// What the configuration asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverChoice {
    Auto,
    Uring,
    Epoll,
}

/// When a record counts as durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    Write,
    Fsync,
}

/// One engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineTarget {
    /// `http://host:port`; the path prefix, if any, goes before the engine's routes.
    pub url: String,
    pub max_in_flight: u32,
}

/// What the data plane is started with.
pub struct GateConfig {
    pub listen: SocketAddr,
    pub shards: ShardCount,
    pub driver: DriverChoice,
    pub durability: Durability,
    /// Journals lie in `state_dir/sessions`.
    pub state_dir: PathBuf,
    pub engines: Vec<EngineTarget>,
    pub gatehouse: Arc<Gatehouse>,
    /// Drop a session from memory after this long without a request.
    pub idle_evict_ms: u64,
}

/// Why the data plane does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {addr}: {source}")]
    Listen { addr: SocketAddr, source: std::io::Error },
    #[error("{0}")]
    Environment(String),
}

/// Why a command of the control plane fails.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("no such session")]
    NoSession,
    #[error("the session is closed")]
    Closed,
    #[error("the shard's queue is full")]
    Busy,
    #[error("the data plane has stopped")]
    Stopped,
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A new session.
#[derive(Clone, Debug)]
pub struct Created {
    pub session_id: SessionId,
    pub key: SessionKey,
}

/// Plain counters of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardStats {
    pub exchanges: u64,
    pub faults: u64,
    pub handovers_out: u64,
    pub handovers_in: u64,
    pub connections: u64,
    pub sessions: u64,
    pub in_flight: u64,
    pub journal_bytes: u64,
    pub journal_failures: u64,
    pub keepalives: u64,
    pub engine_calls: u64,
    pub engine_retries: u64,
    pub reloads: u64,
    pub evictions: u64,
    pub torn_tails: u64,
}
