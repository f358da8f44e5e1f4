//! Places that run sandboxes.

pub mod local;

use std::time::Duration;

pub use local::{Local, LocalConfig};

/// What a sandbox is made for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// Unique; goes into labels and leases.
    pub attempt_id: String,
    /// Who owns the sandbox: this run of Rollgate.
    pub owner: String,
}

/// A command in a sandbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exec {
    /// Program and arguments; no shell is involved.
    pub argv: Vec<String>,
    /// Variables added to the sandbox's environment.
    pub env: Vec<(String, String)>,
    /// Absolute inside the sandbox; `None`: the work directory.
    pub cwd: Option<String>,
    /// `None`: closed at once.
    pub stdin: Option<Vec<u8>>,
    /// Longest run; then the whole tree is killed.
    pub timeout: Duration,
    /// Most bytes kept of stdout and of stderr, each: head and tail are kept, the middle is cut.
    pub output_cap_bytes: usize,
}

/// How a command ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exit {
    /// `None` when killed by a signal.
    pub code: Option<i32>,
    /// Killed because its time was up.
    pub timed_out: bool,
    /// What was kept of its output.
    pub stdout: Vec<u8>,
    /// What was kept of its complaints.
    pub stderr: Vec<u8>,
    /// Bytes cut from the outputs.
    pub cut_bytes: u64,
    /// From start to end of the command itself.
    pub took: Duration,
}

/// Why a backend fails. All of these are infrastructure failures, never the agent's.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The backend or the sandbox cannot do it; says why.
    #[error("{0}")]
    Unusable(String),
}

/// A kind of place that can run sandboxes.
#[async_trait::async_trait]
pub trait Backend: Send + Sync {
    /// Its name in configurations.
    fn name(&self) -> &'static str;
    /// Which isolation its sandboxes have, for people.
    fn isolation(&self) -> String;
    /// Makes a sandbox. Whoever gets it destroys it.
    async fn create(&self, spec: &Spec) -> Result<Box<dyn Sandbox>, BackendError>;
    /// Removes sandboxes that no living owner holds; how many.
    async fn sweep(&self) -> Result<usize, BackendError>;
}

/// One isolated place.
#[async_trait::async_trait]
pub trait Sandbox: Send + Sync {
    /// Unique on the backend.
    fn id(&self) -> &str;
    /// Work directory, inside.
    fn workdir(&self) -> &str;
    /// Private HOME, inside.
    fn home(&self) -> &str;
    /// Path of the `rollgate` program, inside.
    fn rollgate(&self) -> &str;
    /// Runs a command; when it ends or is late, its whole process tree is killed.
    async fn exec(&self, exec: Exec) -> Result<Exit, BackendError>;
    /// Writes a file; parents are made. Absolute, inside.
    async fn put(&self, path: &str, contents: &[u8]) -> Result<(), BackendError>;
    /// Reads a file; `None` when there is none.
    async fn get(&self, path: &str, cap_bytes: usize) -> Result<Option<Vec<u8>>, BackendError>;
    /// Kills what runs and removes all traces. Idempotent.
    async fn destroy(&self) -> Result<(), BackendError>;
}
