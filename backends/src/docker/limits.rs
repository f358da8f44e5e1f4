//! Every bound of this backend.

use std::time::Duration;

/// Containers that are made at once, and as many removed. More makes an engine slower, not faster.
pub(super) const IN_FLIGHT: usize = 8;
/// Commands that are being started at once; how many run is not limited here.
pub(super) const STARTS_IN_FLIGHT: usize = 16;

/// Longest wait for the engine's first word.
pub(super) const CONNECT: Duration = Duration::from_secs(10);
/// Longest question that changes nothing.
pub(super) const ASK: Duration = Duration::from_secs(20);
/// Longest making and start of a container, unless the config says otherwise.
pub(super) const CREATE_ALL: Duration = Duration::from_secs(120);
/// Longest removal of a container, each try.
pub(super) const REMOVE: Duration = Duration::from_secs(30);
/// Longest start of a command.
pub(super) const EXEC_START: Duration = Duration::from_secs(30);
/// Longest killing of a command's tree; then the container is killed.
pub(super) const KILL: Duration = Duration::from_secs(20);
/// Longest copy of a file in or out.
pub(super) const COPY: Duration = Duration::from_secs(120);
/// Longest build or pull of an image.
pub(super) const IMAGE: Duration = Duration::from_secs(30 * 60);
/// The client's own bound, which must not come before any of ours.
pub(super) const CLIENT: Duration = Duration::from_secs(2 * 60 * 60);
const _: () = assert!(CLIENT.as_secs() > IMAGE.as_secs());

/// How long a container may take to show up whose making was not answered.
pub(super) const SETTLE: Duration = Duration::from_secs(10);
/// First and longest pause between two looks or tries.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
pub(super) const PAUSE_MOST: Duration = Duration::from_secs(1);
/// Tries to remove a container.
pub(super) const REMOVE_TRIES: u32 = 4;
/// How long a container that never showed up is looked for by sweeps.
pub(super) const DOUBT: Duration = Duration::from_secs(15 * 60);
/// Containers in doubt that are remembered; the oldest go first.
pub(super) const DOUBTS: usize = 4096;

/// How long output may go on after the command itself ended.
pub(super) const OUTPUT_GRACE: Duration = Duration::from_secs(1);
/// Longest last line of our script.
pub(super) const REPORT_BYTES: usize = 128;
/// Most bytes kept of what our own helper commands say.
pub(super) const SAID_BYTES: usize = 4 << 10;

/// What a container lives longer than its lease, so that its end is a sweep's doing.
pub(super) const TTL_MARGIN: Duration = Duration::from_secs(60);
/// Processes and threads of a sandbox whose spec and config say nothing.
pub(super) const DEFAULT_PIDS: u32 = 1024;

/// Largest folder that an image is built from.
pub(super) const CONTEXT_BYTES: u64 = 256 << 20;
/// Last lines of a build's log that its error tells.
pub(super) const LOG_LINES: usize = 20;
/// Images whose preparation is remembered.
pub(super) const FLIGHTS: usize = 256;

/// What a file's archive may have besides the file.
pub(super) const ARCHIVE_BYTES: usize = 64 << 10;
/// Links that are followed to a file.
pub(super) const LINKS: u32 = 8;
/// Largest list of users of an image.
pub(super) const USERS_BYTES: usize = 1 << 20;
