//! Every bound of the data path, by name.
//!
//! A bound that is hit answers with a [`crate::fault::Fault`] that names it.

use serde::{Deserialize, Serialize};

/// Bounds that a node's `[limits]` table may change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest request body of an agent, in bytes.
    pub body_bytes: u64,
    /// Largest reply of an engine, in bytes.
    pub engine_reply_bytes: u64,
    /// Longest wait for the rest of a request head, once its first byte is here.
    pub head_ms: u64,
    /// Longest wait for the next piece of a request body.
    pub body_ms: u64,
    /// Longest wait for an agent to take a piece of its reply.
    pub write_ms: u64,
    /// How long a connection may stay open without a request.
    pub idle_ms: u64,
    /// Longest wait for an engine's whole reply.
    pub engine_ms: u64,
    /// Longest wait for a connection to an engine.
    pub connect_ms: u64,
    /// Longest wait for the next piece of an engine's reply, once its first byte is here.
    pub engine_stall_ms: u64,
    /// How long a connection to an engine is kept without a call; below what the engine keeps it.
    pub engine_idle_ms: u64,
    /// Time between two looks at an engine's health route; 0: it is not looked at.
    pub engine_health_ms: u64,
    /// Calls of one shard that wait for their turn at an engine; more are answered 503.
    pub engine_queue: u32,
    /// How often an engine call of which nothing is kept is made again.
    pub engine_retries: u32,
    /// Exchanges in flight per shard; more are answered 503.
    pub exchanges_per_shard: u32,
    /// How long a drain waits for exchanges in flight.
    pub drain_ms: u64,
    /// How long a turn that the engine gave up on waits for the engine to sample again.
    pub park_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            engine_reply_bytes: 256 << 20,
            head_ms: 10_000,
            body_ms: 30_000,
            write_ms: 60_000,
            idle_ms: 600_000,
            engine_ms: 1_800_000,
            connect_ms: 5_000,
            engine_stall_ms: 30_000,
            engine_idle_ms: 4_000,
            engine_health_ms: 5_000,
            engine_queue: 1_024,
            engine_retries: 2,
            exchanges_per_shard: 4_096,
            drain_ms: 30_000,
            park_ms: 120_000,
        }
    }
}

/// Largest request or reply head, in bytes.
pub const HEAD_BYTES: usize = 64 << 10;
/// Most header fields of a head.
pub const HEADERS: usize = 128;
/// Deepest nesting of a JSON body.
pub const JSON_DEPTH: usize = 128;
/// How often a connection is handed to another shard before it is asked to close.
pub const HANDOVERS: u8 = 4;
/// Commands waiting for one shard.
pub const COMMANDS_PER_SHARD: usize = 1_024;
/// Sockets on their way to one shard.
pub const HANDOVERS_PER_SHARD: usize = 4_096;
/// Largest journal frame, in bytes.
pub const FRAME_BYTES: usize = 1 << 30;
/// Idle keep-alive connections kept per engine and shard.
pub const ENGINE_IDLE_CONNECTIONS: usize = 256;
/// Template instructions one render may spend, against endless loops.
pub const TEMPLATE_FUEL: u64 = 50_000_000;
/// Texts that one request is compared with where digests differ, and messages that are rendered for
/// that; and places of the stored history that it is followed through, beyond one for each of its
/// messages.
pub const WALK_COMPARISONS: usize = 1_024;
/// Points of a session up to which differences from an agent's copy are kept; then they are counted
/// anew.
pub const KNOWN_COPIES: usize = 4_096;
/// Text that one render may produce, in bytes.
pub const RENDER_BYTES: usize = 64 << 20;
/// First wait of a turn that the engine gave up on, in milliseconds.
pub const PAUSE_FIRST_MS: u64 = 200;
/// Longest of the waits of such a turn, in milliseconds.
pub const PAUSE_LONGEST_MS: u64 = 5_000;
/// How often the engine is asked to go on with one turn.
pub const RESENDS: u32 = 256;
/// Longest `Retry-After` of a busy engine with which it is asked again by the gate, in seconds; a
/// longer one is passed on to the agent.
pub const BUSY_RETRY_AFTER_S: u32 = 2;
/// Answers that a session keeps for agents that left before they had them.
pub const KEPT_ANSWERS: usize = 64;
/// Longest name of a type of skipped parts that is kept, in bytes.
pub const SKIPPED_TYPE_BYTES: usize = 64;
/// Types of skipped parts that a request is counted under by name.
pub const SKIPPED_TYPES: usize = 32;
/// Longest sleep of an exchange that waits for another one of its session, in milliseconds.
pub const LOOK_AGAIN_MS: u64 = 1_000;

const _: () = assert!(PAUSE_FIRST_MS > 0 && PAUSE_FIRST_MS <= PAUSE_LONGEST_MS);
const _: () = assert!(HEAD_BYTES >= HEADERS * 128, "a full head of short fields must fit");
