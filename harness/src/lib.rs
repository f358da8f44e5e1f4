//! How each agent is prepared, started and read. A harness describes; it runs nothing.

use std::time::Duration;

/// What an agent is to do.
#[derive(Clone, Debug)]
pub struct Job {
    pub instruction: String,
    /// Base URL of the Chat API, `/v1` included.
    pub openai_base_url: String,
    /// Base URL of the Messages API.
    pub anthropic_base_url: String,
    pub key: String,
    /// Model name to ask for.
    pub model: String,
    /// Paths as seen inside the sandbox.
    pub workdir: String,
    pub home: String,
    /// Path of the `rollgate` program inside the sandbox.
    pub rollgate: String,
    /// Extra arguments of the task.
    pub args: Vec<String>,
    pub timeout: Duration,
}

/// A file to write before the start; the path is absolute inside the sandbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileToWrite { pub path: String, pub contents: Vec<u8> }

/// How to start an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    pub files: Vec<FileToWrite>,
    pub env: Vec<(String, String)>,
    pub argv: Vec<String>,
    /// Stdin of the agent; `None`: closed at once.
    pub stdin: Option<Vec<u8>>,
    pub timeout: Duration,
}

/// What was seen of the agent's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended { pub exit_code: Option<i32>, pub timed_out: bool, pub stdout: String, pub stderr: String }

/// How the agent's run is to be judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentOutcome { Done, Failed(String), TimedOut }

/// Why a harness cannot describe a launch.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    #[error("{0}")]
    Wrong(String),
}

/// The recipe for one kind of agent.
pub trait Harness: Send + Sync {
    fn name(&self) -> &'static str;
    fn launch(&self, job: &Job) -> Result<Launch, HarnessError>;
    fn judge(&self, ended: &Ended) -> AgentOutcome;
    /// Command line that prints the agent's version, if it can.
    fn version_argv(&self, job: &Job) -> Option<Vec<String>>;
}

/// The harness of this name; the error lists the names there are.
pub fn by_name(_name: &str) -> Result<Box<dyn Harness>, HarnessError> { todo!() }
