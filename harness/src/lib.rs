//! How each agent is prepared, started and read. A harness describes; it runs nothing.
//!
//! Instructions reach agents by file, never by a long argument. Every agent has a HOME of its own
//! and finds its model through a base URL and a key in its environment.

mod claude_code;
mod codex;
mod command;
mod hermes;
mod mini_swe_agent;
mod openclaw;
mod opencode;
mod outcome;
mod package;
mod pi;
mod qwen_code;
mod scripted;

use std::time::Duration;

pub use claude_code::ClaudeCode;
pub use codex::Codex;
pub use command::CommandLine;
pub use hermes::Hermes;
pub use mini_swe_agent::MiniSweAgent;
pub use openclaw::OpenClaw;
pub use opencode::OpenCode;
pub use package::{Package, Source};
pub use pi::Pi;
pub use qwen_code::QwenCode;
pub use scripted::Scripted;

/// Most bytes that are read of a [`Launch::result_file`].
pub const RESULT_BYTES: usize = 256 << 20;

/// What an agent is to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// The task in words.
    pub instruction: String,
    /// Base URL of the Chat API, `/v1` included.
    pub openai_base_url: String,
    /// Base URL of the Messages API.
    pub anthropic_base_url: String,
    /// Key of the session.
    pub key: String,
    /// Model name to ask for.
    pub model: String,
    /// The agent's program from its bundle, as seen inside the sandbox; `None`: it is on PATH.
    pub program: Option<String>,
    /// Tokens of the served model's context: agents must know it, or they never compact.
    pub max_context: u32,
    /// Work directory, as seen inside the sandbox.
    pub workdir: String,
    /// Private HOME, as seen inside the sandbox.
    pub home: String,
    /// Path of the `rollgate` program inside the sandbox.
    pub rollgate: String,
    /// Extra arguments of the task; each harness says what it does with them.
    pub args: Vec<String>,
    /// Longest run of the agent.
    pub timeout: Duration,
}

impl Job {
    /// Base URL of the Chat and Responses APIs under which every call is of this scene, for slots of
    /// an agent that serve nothing else. `/v1` included.
    pub fn openai_url_of(&self, scene: &str) -> String {
        let root = self.openai_base_url.trim_end_matches('/');
        format!("{}/scene/{scene}/v1", root.strip_suffix("/v1").unwrap_or(root))
    }

    /// The same for the Messages API.
    pub fn anthropic_url_of(&self, scene: &str) -> String {
        format!("{}/scene/{scene}", self.anthropic_base_url.trim_end_matches('/'))
    }

    /// The program to start: the bundle's, else the one of this name on PATH.
    pub fn program_or(&self, name: &str) -> String {
        self.program.clone().unwrap_or_else(|| name.to_owned())
    }
}

/// A file to write before the start; the path is absolute inside the sandbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileToWrite {
    /// Absolute path inside the sandbox.
    pub path: String,
    /// The whole file.
    pub contents: Vec<u8>,
}

/// How to start an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Files to write before the start.
    pub files: Vec<FileToWrite>,
    /// Variables added to the sandbox's environment.
    pub env: Vec<(String, String)>,
    /// Program and arguments; no shell is involved.
    pub argv: Vec<String>,
    /// Stdin of the agent; `None`: closed at once.
    pub stdin: Option<Vec<u8>>,
    /// Longest run of the agent.
    pub timeout: Duration,
    /// File in the sandbox in which the agent says how it ended. Whoever runs the agent hands its
    /// contents, at most [`RESULT_BYTES`], to [`Harness::judge`] as [`Ended::result`].
    pub result_file: Option<String>,
}

/// What was seen of the agent's end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ended {
    /// `None`: killed by a signal.
    pub exit_code: Option<i32>,
    /// Killed because its time was up.
    pub timed_out: bool,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// Contents of [`Launch::result_file`]; `None` when none was asked for or written.
    pub result: Option<Vec<u8>>,
}

/// How the agent's run is to be judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentOutcome {
    /// It says that it finished.
    Done,
    /// It gave up or broke; why.
    Failed(String),
    /// Its time was up.
    TimedOut,
}

/// Why a harness cannot describe a launch.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// The configuration asks for something that cannot be; says what to change.
    #[error("{0}")]
    Wrong(String),
}

/// The recipe for one kind of agent.
pub trait Harness: Send + Sync {
    /// Its name in configurations.
    fn name(&self) -> &'static str;
    /// How to start the agent on a job.
    fn launch(&self, job: &Job) -> Result<Launch, HarnessError>;
    /// What the end of the agent means.
    fn judge(&self, ended: &Ended) -> AgentOutcome;
    /// Where the agent comes from; `None`: it is no program of its own.
    fn package(&self) -> Option<Package> {
        None
    }
    /// Command line whose first line of output has the agent's version, if it can.
    fn version_argv(&self, job: &Job) -> Option<Vec<String>>;
}

/// Names of all harnesses.
pub const NAMES: [&str; 10] = [
    scripted::NAME,
    command::NAME,
    claude_code::NAME,
    codex::NAME,
    hermes::NAME,
    mini_swe_agent::NAME,
    openclaw::NAME,
    opencode::NAME,
    pi::NAME,
    qwen_code::NAME,
];

/// The harness of this name; the error lists the names there are.
pub fn by_name(name: &str) -> Result<Box<dyn Harness>, HarnessError> {
    match name {
        scripted::NAME => Ok(Box::new(Scripted)),
        command::NAME => Ok(Box::new(CommandLine)),
        mini_swe_agent::NAME => Ok(Box::new(MiniSweAgent)),
        hermes::NAME => Ok(Box::new(Hermes)),
        openclaw::NAME => Ok(Box::new(OpenClaw)),
        claude_code::NAME => Ok(Box::new(ClaudeCode)),
        codex::NAME => Ok(Box::new(Codex)),
        opencode::NAME => Ok(Box::new(OpenCode)),
        pi::NAME => Ok(Box::new(Pi)),
        qwen_code::NAME => Ok(Box::new(QwenCode)),
        _ => Err(HarnessError::Wrong(unknown(name))),
    }
}

fn unknown(name: &str) -> String {
    let lower = name.to_lowercase();
    let near = NAMES
        .into_iter()
        .map(|known| (strsim::jaro_winkler(&lower, known), known))
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .filter(|(likeness, _)| *likeness > 0.75);
    let hint =
        near.map_or_else(|| ".".to_owned(), |(_, known)| format!("; did you mean `{known}`?"));
    format!("there is no agent called `{name}`{hint} Agents: {}", NAMES.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn job(args: &[&str]) -> Job {
        Job {
            instruction: "Fix \"it\"\n".to_owned(),
            openai_base_url: "http://gate/v1".to_owned(),
            anthropic_base_url: "http://gate".to_owned(),
            key: "key".to_owned(),
            model: "m".to_owned(),
            program: None,
            max_context: 100_000,
            workdir: "/box/work".to_owned(),
            home: "/box/home".to_owned(),
            rollgate: "/bin/rollgate".to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            timeout: Duration::from_secs(9),
        }
    }

    /// The launch in one text: files, environment, command line.
    pub(crate) fn show(launch: &Launch) -> String {
        let files = launch.files.iter().map(|file| {
            format!("file {} {:?}\n", file.path, String::from_utf8_lossy(&file.contents))
        });
        let env = launch.env.iter().map(|(name, value)| format!("env {name}={value}\n"));
        let argv = format!("argv {}\n", launch.argv.join(" "));
        files.chain(env).chain([argv]).collect()
    }

    #[test]
    fn every_name_finds_its_harness() {
        for name in NAMES {
            assert_eq!(by_name(name).unwrap().name(), name);
        }
    }

    #[test]
    fn an_unknown_name_gets_the_list_and_the_near_one() {
        let error = |name| by_name(name).err().unwrap().to_string();
        assert_eq!(
            error("mini-swe"),
            "there is no agent called `mini-swe`; did you mean `mini-swe-agent`? \
             Agents: scripted, command, claude-code, codex, hermes, mini-swe-agent, openclaw, \
             opencode, pi, qwen-code"
        );
        assert_eq!(
            error("zzz"),
            "there is no agent called `zzz`. \
             Agents: scripted, command, claude-code, codex, hermes, mini-swe-agent, openclaw, \
             opencode, pi, qwen-code"
        );
    }
}
