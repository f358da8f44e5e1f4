//! Bounds of moving bytes. What an exchange may use up is in [`rollgate_pipeline::limits`].

use std::time::Duration;

/// Free space that a read is given at least.
pub(crate) const READ_BYTES: usize = 16 << 10;
/// Free space that a read is given at most when the one before filled its own.
pub(crate) const MOST_READ_BYTES: usize = 256 << 10;
/// Pieces that one write takes: the kernel's `IOV_MAX`.
#[cfg_attr(feature = "sim", expect(dead_code, reason = "a simulated socket takes them one by one"))]
pub(crate) const PIECES_AT_ONCE: usize = 1_024;
/// Buffers that grew beyond this are given back between exchanges.
pub(crate) const KEPT_BUFFER_BYTES: usize = 64 << 10;
/// Bytes of later requests that are read while an exchange waits; the read that reaches it may go
/// beyond it by [`MOST_READ_BYTES`]. An agent that sends more is not seen to leave any more.
pub(crate) const READ_AHEAD_BYTES: usize = 64 << 10;
/// Prompts that wait for the helper of one shard to encode them; more are encoded by the shard itself.
pub(crate) const ENCODES_WAITING: usize = 64;
/// How long a call is read on after its engine was told to give up on it.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(5);
/// How long exchanges of a session that is being closed may still take.
pub(crate) const CLOSE_GRACE: Duration = Duration::from_millis(300);
/// How long a call is read on after its engine was told to give up on it, where its session is being
/// closed.
pub(crate) const CLOSE_GIVE_UP: Duration = Duration::from_millis(300);
/// How long an engine has to take in that it should give up on a call.
pub(crate) const TELL: Duration = Duration::from_secs(2);
/// How often a waiting exchange may show a sign of life.
pub(crate) const TICK: Duration = Duration::from_millis(250);
/// How often journals are synced in the background.
pub(crate) const SYNC: Duration = Duration::from_secs(1);
/// How often a shard looks for idle sessions.
pub(crate) const SWEEP: Duration = Duration::from_millis(1_000);
/// The pace at which a shard shows that it is in its loop.
pub(crate) const BEAT: Duration = Duration::from_millis(100);
/// A beat that is late by this much is a stall.
pub(crate) const STALL: Duration = Duration::from_millis(100);
/// Journal files kept open per shard, at least: more where the process may open many files.
pub(crate) const OPEN_JOURNALS_LEAST: usize = 64;
/// Journal files kept open per shard, at most.
#[cfg_attr(feature = "sim", expect(dead_code, reason = "a simulated process may open any number"))]
pub(crate) const OPEN_JOURNALS_MOST: usize = 16_384;
/// Sessions that one shard loads at once.
pub(crate) const LOADS: usize = 4;
/// Bytes of a journal read at once.
pub(crate) const LOAD_CHUNK_BYTES: usize = 1 << 20;
/// Largest journal that is loaded.
pub(crate) const JOURNAL_BYTES: u64 = 4 << 30;
/// Commands that one shard works on at once; the others stay queued.
pub(crate) const COMMANDS_AT_ONCE: usize = 64;
/// Pauses before an engine is tried again; the last one repeats.
pub(crate) const ENGINE_BACKOFF: [Duration; 2] =
    [Duration::from_millis(100), Duration::from_millis(400)];
/// Bytes that a connection reads before others have their turn.
pub(crate) const BYTES_AT_ONCE: usize = 1 << 20;
/// Requests that a connection has answered before others have their turn.
pub(crate) const REQUESTS_AT_ONCE: usize = 32;
/// How long a body waits for others to make room before it is refused.
pub(crate) const ROOM: Duration = Duration::from_secs(2);
/// Bytes of records that may wait to be written for one session; beyond that its exchanges are
/// refused.
pub(crate) const JOURNAL_WAITING_BYTES: u64 = 64 << 20;
/// Answers of one connection that are kept until the agent is known to have read them.
pub(crate) const LATE_ANSWERS: usize = 8;
/// Connections beyond their limit that are told so at once; others are closed without a word.
pub(crate) const TURNED_AWAY_AT_ONCE: usize = 64;
/// The part of the idle sessions that leaves memory at once, where room is needed.
pub(crate) const EVICTED_PART: usize = 16;
/// Two panics of exchanges within this time end the process, in milliseconds.
pub(crate) const PANIC_WINDOW_MS: u64 = 60_000;
/// How far beyond its part of the calls in flight an engine may be before its sessions go to others.
pub(crate) const LOAD_BOUND: f64 = 1.25;
/// Calls of one shard that an engine has whatever its part is: so few are no load.
pub(crate) const LOAD_FREE: usize = 4;
/// Failures in a row, of one shard, after which an engine counts as down.
pub(crate) const CIRCUIT_STRIKES: u32 = 3;
/// First wait before an engine that is down is tried; it doubles.
pub(crate) const CIRCUIT_FIRST: Duration = Duration::from_secs(1);
/// Longest of these waits.
pub(crate) const CIRCUIT_LONGEST: Duration = Duration::from_secs(30);
/// Looks at a health route that must fail in a row.
pub(crate) const PROBE_STRIKES: u32 = 2;
/// How long an engine has for an answer that is no generation.
pub(crate) const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// Largest of such answers.
pub(crate) const PROBE_BYTES: u64 = 4 << 20;
/// How often a shard looks after its engine connections and its queue.
pub(crate) const TEND: Duration = Duration::from_millis(500);
/// How long and how far what an agent still sends after a refusal is thrown away, so that the
/// refusal reaches it before a reset does.
pub(crate) const LINGER: Duration = Duration::from_millis(2_000);
/// See [`LINGER`].
pub(crate) const LINGER_BYTES: usize = 16 << 20;
/// Pause after an accept that failed (out of descriptors, mostly).
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections waiting to be accepted, per shard.
#[cfg_attr(feature = "sim", expect(dead_code, reason = "simulated listeners have no bound"))]
pub(crate) const BACKLOG: i32 = 4_096;

const _: () = assert!(READ_BYTES <= KEPT_BUFFER_BYTES, "a fresh buffer must be worth keeping");
const _: () = assert!(
    TICK.as_millis() + CLOSE_GRACE.as_millis() + CLOSE_GIVE_UP.as_millis() < 1_000,
    "calls of a session that is closed are over within a second"
);
const _: () = assert!(
    TELL.as_millis() < GIVE_UP.as_millis(),
    "what a call had sampled must have time to come after its engine was told"
);
