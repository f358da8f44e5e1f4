//! Every bound of the control path, by name. Times are the longest wait for one step.

use std::time::Duration;

/// For a command of the data plane (create, reward), retries while its queue is full included.
pub const SESSION: Duration = Duration::from_secs(30);
/// For sealing a session: exchanges in flight are waited for.
pub const CLOSE: Duration = Duration::from_secs(120);
/// For a sandbox to be made.
pub const SANDBOX: Duration = Duration::from_secs(300);
/// For one file to be written into or read from a sandbox.
pub const FILE: Duration = Duration::from_secs(60);
/// For one setup command.
pub const SETUP: Duration = Duration::from_secs(600);
/// For the agent, unless the task says otherwise.
pub const AGENT: Duration = Duration::from_secs(3_600);
/// For an agent to print its version.
pub const VERSION: Duration = Duration::from_secs(60);
/// For another attempt to have asked the same agent for its version.
pub const VERSION_WAIT: Duration = Duration::from_secs(300);
/// For the evaluation, unless the task says otherwise.
pub const EVALUATE: Duration = Duration::from_secs(600);
/// For a sandbox to be destroyed.
pub const DESTROY: Duration = Duration::from_secs(60);
/// Between two searches for sandboxes that nobody owns.
pub const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// What is added to the longest that the steps of an attempt may take, before it counts as stuck.
pub const ATTEMPT_MARGIN: Duration = Duration::from_secs(60);
/// For the first sandbox to reach the gateway, each time it is tried.
pub const REACH: Duration = Duration::from_secs(20);
/// How often the first sandbox tries to reach the gateway.
pub const REACH_TRIES: u32 = 3;
/// Between two of those tries.
pub const REACH_PAUSE: Duration = Duration::from_secs(1);
/// For a warm sandbox to show that it runs commands.
pub const BORROW_TEST: Duration = Duration::from_secs(10);
/// Between two looks at warm sandboxes and at how full the machine is.
pub const TEND_EVERY: Duration = Duration::from_secs(5);
/// After a warm sandbox could not be made; doubles with each further failure.
pub const REFILL_PAUSE: Duration = Duration::from_secs(5);
/// Longest such pause.
pub const REFILL_PAUSE_MOST: Duration = Duration::from_secs(300);
/// For all that is made or unmade to be done with at the end of a job.
pub const POOL_CLOSE: Duration = Duration::from_secs(90);
/// For the journal to be read and samples to be built.
pub const COLLECT: Duration = Duration::from_secs(300);
/// What a command's own deadline may be overrun by before the wait for it is given up.
pub const SLACK: Duration = Duration::from_secs(30);
/// Longest deadline a task may ask for.
pub const LONGEST: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Pause before a command is sent again to a data plane whose queue was full.
pub const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Bytes kept of an agent's stdout and of its stderr, each.
pub const AGENT_OUTPUT_BYTES: usize = 8 << 20;
/// Bytes kept of the outputs of setup and evaluation commands, each.
pub const COMMAND_OUTPUT_BYTES: usize = 1 << 20;
/// Largest reward file, in bytes.
pub const REWARD_BYTES: usize = 64 << 10;
/// Largest line of a task file or sample file, in bytes.
pub const LINE_BYTES: u64 = 1 << 30;
/// Largest journal that is read, in bytes.
pub const JOURNAL_BYTES: u64 = 8 << 30;
/// Journals that are turned into samples at once.
pub const COLLECTS: usize = 4;
/// Size from which on the next attempt's samples go to a new file, in bytes.
pub const ROLL_BYTES: u64 = 256 << 20;
/// Size of what is put into one row group of a Parquet file, before compression, in bytes.
pub const PARQUET_GROUP_BYTES: usize = 32 << 20;
/// Failures that a summary tells one by one.
pub const FAILURES_TOLD: usize = 100;
/// Turns of no known scene, in percent of all: a job with more of them warns.
pub const UNKNOWN_PERCENT: u64 = 5;

/// For a hook, unless it says otherwise.
pub const HOOK: Duration = Duration::from_secs(60);
/// Hooks of one attempt.
pub const HOOKS: usize = 64;
/// Bytes that one hook or evaluation takes out of a sandbox, unless it says otherwise.
pub const COLLECT_BYTES: u64 = 64 << 20;
/// Most bytes that a hook may ask for.
pub const COLLECT_MOST_BYTES: u64 = 4 << 30;
/// Files that one hook or evaluation takes out of a sandbox.
pub const COLLECT_FILES: usize = 2_000;
/// Bytes of artifacts that are sent to an HTTP grader, before they are encoded.
pub const SENT_ARTIFACT_BYTES: u64 = 8 << 20;
/// Bytes of a folder of tests.
pub const TESTS_BYTES: u64 = 256 << 20;
/// Files of a folder of tests.
pub const TESTS_FILES: usize = 5_000;
/// Bytes kept of the answer and of the complaints of a program on the host, each.
pub const PROGRAM_OUTPUT_BYTES: usize = 1 << 20;
/// Largest answer to an HTTP POST of a hook or an evaluation, in bytes.
pub const POST_ANSWER_BYTES: u64 = 1 << 20;
/// How often such a POST is sent at most.
pub const POST_TRIES: u32 = 4;
/// Pause before it is sent again; doubled each time.
pub const POST_PAUSE: Duration = Duration::from_millis(250);
/// Largest file of a task folder that is read as text, in bytes.
pub const TASK_FILE_BYTES: u64 = 4 << 20;
/// Tasks of one file or folder.
pub const TASKS: usize = 1_000_000;
/// Open files of one attempt: pipes and process handle, its connection, an engine's, a journal.
pub const FILES_PER_ATTEMPT: u64 = 6;
/// Open files of all else.
pub const FILES_BASE: u64 = 256;
/// Files that must still be openable for anything more to be started.
pub const FILES_SPARE: u64 = 64;
/// News of attempts and machine that wait for the job to hear them.
pub const NEWS: usize = 1_024;
/// Requests to cancel attempts that wait for the job to hear them.
pub const CANCELS: usize = 64;

const _: () = assert!(SENT_ARTIFACT_BYTES <= COLLECT_BYTES && COLLECT_BYTES <= COLLECT_MOST_BYTES);

/// Largest body of a control request, in bytes.
pub const API_BODY_BYTES: usize = 1 << 20;
/// For one control request, its answer built.
pub const API_REQUEST: Duration = Duration::from_secs(300);
/// For control requests in flight to end, once the port is being closed.
pub const API_DRAIN: Duration = Duration::from_secs(10);

const _: () = assert!(COLLECT.as_secs() <= API_REQUEST.as_secs(), "an answer may need a collect");
const _: () = assert!(DESTROY.as_secs() < POOL_CLOSE.as_secs(), "the last one is waited for");
const _: () = assert!(TEND_EVERY.as_secs() < SWEEP_EVERY.as_secs());
const _: () = assert!(REWARD_BYTES < COMMAND_OUTPUT_BYTES);
