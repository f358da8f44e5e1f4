//! Places that run sandboxes.

pub mod docker;
pub mod e2b;
pub mod local;
mod output;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use docker::{Docker, DockerConfig};
pub use e2b::{E2b, E2bConfig};
pub use local::{Local, LocalConfig};

/// What a sandbox is made for, and of what.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    /// Unique; goes into labels and leases.
    pub attempt_id: String,
    /// Who owns the sandbox: this run of Rollgate.
    pub owner: String,
    /// Image or template; `None`: the backend's own.
    pub image: Option<String>,
    /// What it may use.
    pub resources: Resources,
    /// Its longest life; whoever holds it past that may find it gone.
    pub ttl: Duration,
    /// Folders of the host to be seen inside, read-only.
    pub mounts: Vec<Mount>,
}

/// What a sandbox may use; `None`: the backend's default.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Resources {
    /// Cores; may be a fraction.
    pub cpus: Option<f64>,
    /// Main memory.
    pub memory_mib: Option<u64>,
    /// Its own files.
    pub disk_mib: Option<u64>,
    /// Processes and threads at once.
    pub pids: Option<u32>,
}

/// A folder of the host in a sandbox.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Mount {
    /// Absolute, on the host.
    pub from: PathBuf,
    /// Absolute, inside.
    pub to: String,
}

/// How long a sandbox may live that was asked for without saying so.
pub const DEFAULT_TTL: Duration = Duration::from_secs(4 * 3600);

impl Spec {
    /// A sandbox of the backend's own image with its default limits.
    pub fn new(attempt_id: impl Into<String>, owner: impl Into<String>) -> Self {
        Self {
            attempt_id: attempt_id.into(),
            owner: owner.into(),
            image: None,
            resources: Resources::default(),
            ttl: DEFAULT_TTL,
            mounts: Vec::new(),
        }
    }
}

/// How sandboxes of a backend find the gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reach {
    /// They share this machine's loopback.
    Loopback,
    /// At this address of this machine, where the gateway has to listen.
    Address(IpAddr),
    /// From elsewhere: only a public URL helps.
    Public,
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
    /// `None` when killed by a signal, where the backend can tell; docker says 128 + signal.
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
    /// How its sandboxes find the gateway.
    async fn reach(&self) -> Result<Reach, BackendError>;
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
