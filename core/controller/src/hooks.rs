//! Hooks: what else is done around an agent's run. One ordered list, from the job and the task.
//!
//! Every hook has a deadline and says whether the attempt may go on without it. Hooks never get
//! the agent's key.
//!
//! | event | when | a required hook's failure |
//! |---|---|---|
//! | `before_run` | after the set-up, before the agent | `infra_failed` |
//! | `after_run` | after the agent, before the evaluation; `notify`: after it, with the reward | `infra_failed`, unless a reward is known |
//! | `on_error` | once the attempt failed, its sandbox still there | cannot be required |

mod diff;
mod raw;
mod run;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::task::{Command, seconds};
use raw::RawHook;
pub(crate) use raw::{KEYS, sense};
pub use run::Hooks;

/// One hook.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "RawHook", into = "RawHook")]
pub struct Hook {
    /// Name of its logs; `None`: what it does.
    pub name: Option<String>,
    /// When.
    pub at: Event,
    /// Whether the attempt may go on without it.
    pub policy: Policy,
    /// Deadline in seconds.
    pub timeout_s: Option<f64>,
    /// What.
    pub action: Action,
}

/// When a hook is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// After the set-up, before the agent.
    BeforeRun,
    /// After the agent ended, however it did.
    AfterRun,
    /// After the attempt failed: any outcome but `done`, `budget` and `cancelled`.
    OnError,
}

impl Event {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Event::BeforeRun => "before_run",
            Event::AfterRun => "after_run",
            Event::OnError => "on_error",
        }
    }
}

/// Whether an attempt may go on without a hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// No: its failure is the attempt's.
    Required,
    /// Yes: its failure is told in the logs.
    #[default]
    BestEffort,
}

/// What a hook does.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Copies files out of the sandbox into the attempt's logs.
    Collect {
        /// Paths and patterns of `sh`; relative ones start at the work directory.
        paths: Vec<String>,
        /// Most bytes in all; a file that does not fit is left out and told.
        max_bytes: u64,
    },
    /// Writes what changed in a git repository since before the agent as a patch, untracked files
    /// included.
    Diff {
        /// The repository; relative to the work directory.
        repository: String,
        /// Most bytes of the patch.
        max_bytes: u64,
    },
    /// Runs a command in the sandbox; it must exit with 0.
    Exec {
        /// The command.
        command: Command,
        /// Its environment, beside the task's.
        env: BTreeMap<String, String>,
    },
    /// Posts a summary as JSON.
    Notify {
        /// Where.
        url: String,
        /// Headers; `${NAME}` is looked up in Rollgate's environment.
        headers: BTreeMap<String, String>,
    },
    /// Runs a program on the host: the summary as JSON on stdin, `{env?, files?, reward_parts?}` or
    /// nothing on stdout.
    Program {
        /// The program.
        program: Command,
        /// Its environment; `${NAME}` is looked up in Rollgate's environment.
        env: BTreeMap<String, String>,
    },
}

impl Action {
    /// Its name: the key that it has in files.
    pub fn name(&self) -> &'static str {
        match self {
            Action::Collect { .. } => "collect",
            Action::Diff { .. } => "diff",
            Action::Exec { .. } => "exec",
            Action::Notify { .. } => "notify",
            Action::Program { .. } => "program",
        }
    }

    /// Whether it can be done without a sandbox.
    fn outside(&self) -> bool {
        matches!(self, Action::Notify { .. } | Action::Program { .. })
    }
}

impl Hook {
    /// The deadline.
    pub fn timeout(&self) -> Duration {
        seconds(self.timeout_s, limits::HOOK)
    }
}

#[cfg(test)]
mod tests;
