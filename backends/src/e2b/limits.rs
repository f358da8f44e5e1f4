//! Every bound of the E2B client that is not a setting.

use std::time::Duration;

/// Streams that a client opens on one HTTP/2 connection; the edge of E2B allows 100.
pub(super) const STREAMS_PER_CONNECTION: usize = 90;
/// Connections that are being made at once, to all servers together.
pub(super) const DIALS_IN_FLIGHT: usize = 64;
/// Longest wait for a connection, TLS included.
pub(super) const DIAL: Duration = Duration::from_secs(15);
/// An idle HTTP/1.1 connection older than this is not used again: servers close theirs by then.
pub(super) const IDLE_CONNECTION: Duration = Duration::from_secs(20);
/// Idle HTTP/1.1 connections that are kept per server.
pub(super) const IDLE_CONNECTIONS: usize = 256;
/// Tries on fresh connections when a reused one turns out to be closed.
pub(super) const STALE_TRIES: usize = 4;
/// Silence after which an HTTP/2 connection is asked whether it lives, and the wait for its answer.
pub(super) const PING: Duration = Duration::from_secs(20);

/// Retries of a call of the control plane, after the first try.
pub(super) const CALL_RETRIES: u32 = 3;
/// Pause before a retry: doubled each time, with jitter, within these.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause before a retry.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Longest `Retry-After` that is followed to the letter.
pub(super) const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);
/// Longest answer of the control plane.
pub(super) const ANSWER_BYTES: usize = 4 << 20;
/// Longest answer of a call that reads no file.
pub(super) const MESSAGE_BYTES: usize = 1 << 20;
/// Longest envelope of a stream.
pub(super) const ENVELOPE_BYTES: usize = 4 << 20;
/// Pages of one list that are read.
pub(super) const LIST_PAGES: usize = 1_000;

/// Looks for a sandbox whose create had no clear answer, before it is asked for again.
pub(super) const RECONCILE_LOOKS: u32 = 3;
/// Pause between two of them.
pub(super) const RECONCILE_PAUSE: Duration = Duration::from_millis(300);
/// Renewals and removals in flight at once.
pub(super) const UPKEEP_IN_FLIGHT: usize = 16;
/// Longest pause between two tries to renew one sandbox.
pub(super) const LONGEST_RENEW_PAUSE: Duration = Duration::from_secs(30);
/// Sandboxes removed by one sweep; the rest is left to the next.
pub(super) const SWEPT_AT_ONCE: usize = 1_000;
/// Longest removal of one sandbox, retries included; then it is left to the sweep.
pub(super) const REMOVAL: Duration = Duration::from_secs(60);

/// Output that a command's report brings along; more is read as files.
pub(super) const INLINE_BYTES: usize = 64 << 10;
/// Longest report: its line, and the output that it brings along.
pub(super) const REPORT_BYTES: usize = INLINE_BYTES + (4 << 10);
/// Most that is kept of each output, whatever the command asks for.
pub(super) const OUTPUT_BYTES: usize = 256 << 20;
/// How long past its own time a command may stay before the server ends its runner.
pub(super) const SERVER_MARGIN: Duration = Duration::from_secs(120);
/// Tries to kill the tree of a command.
pub(super) const KILL_TRIES: u32 = 3;

/// All mounts of a sandbox together, which are uploaded as one archive.
pub(super) const MOUNT_BYTES: u64 = 64 << 20;
/// Slowest upload or download that is waited for.
pub(super) const BYTES_PER_SECOND: u64 = 256 << 10;

const _: () = assert!(STREAMS_PER_CONNECTION < 100, "the edge of E2B allows 100 streams");
const _: () = assert!(INLINE_BYTES < REPORT_BYTES && REPORT_BYTES < MESSAGE_BYTES);
const _: () = assert!(FIRST_PAUSE.as_millis() < LONGEST_PAUSE.as_millis());
