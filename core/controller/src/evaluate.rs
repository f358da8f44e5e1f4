//! Evaluation: who says what an attempt is worth, and how that is asked.
//!
//! Four kinds of graders: a command in a sandbox, a Harbor test folder, a program on the host, an
//! HTTP service. None of them gets the agent's key, and none is told to begin before the agent and
//! all it left running are dead. A missing, stale, broken or non-finite reward is an error, never 0.

mod folder;
mod fresh;
mod grade;
mod harbor;
mod outside;
mod raw;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::task::{Command, seconds};
pub use grade::Bench;
pub(crate) use grade::grade;
pub use harbor::{LOGS_DIR_ENV, TESTS_DIR_ENV};
pub(crate) use raw::KEYS;
use raw::RawEvaluate;

/// How the reward is found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "RawEvaluate", into = "RawEvaluate")]
pub struct Evaluate {
    /// Who says it.
    pub grader: Grader,
    /// Deadline in seconds, for each of copying, preparing and grading.
    pub timeout_s: Option<f64>,
    /// Files of the agent's sandbox that the grader gets: paths and patterns of `sh`.
    pub artifacts: Vec<String>,
    /// Environment of the grader, beside the task's. `${NAME}` is looked up in Rollgate's own.
    pub env: BTreeMap<String, String>,
}

/// Who says what an attempt is worth.
#[derive(Clone, PartialEq, Debug)]
pub enum Grader {
    /// A command in a sandbox: its reward file, or its exit code, is the reward. See
    /// [`crate::reward`].
    Command {
        /// The command.
        command: Command,
        /// Where it runs.
        sandbox: Where,
        /// Text files of the tests, by path; written after the agent stopped.
        files: BTreeMap<String, String>,
    },
    /// A folder on the host with a `test.sh` that writes `/logs/verifier/reward.json` or
    /// `reward.txt`, as Harbor has them. Its exit code says nothing.
    Harbor {
        /// The folder.
        tests: PathBuf,
        /// Where it runs.
        sandbox: Where,
    },
    /// A program on the host: JSON on stdin, JSON on stdout.
    Program(Command),
    /// An HTTP service: JSON is posted, JSON is the answer.
    Url {
        /// Where.
        url: String,
        /// Headers; `${NAME}` is looked up in Rollgate's environment.
        headers: BTreeMap<String, String>,
    },
}

/// In which sandbox a grader runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Where {
    /// The agent's.
    Same,
    /// One that the agent never saw: prepared as the agent's was, then the artifacts are put over
    /// it.
    Fresh {
        /// Its image; `None`: the task's.
        image: Option<String>,
    },
}

impl Evaluate {
    /// An evaluation by a command in the agent's sandbox.
    pub fn command(command: Command) -> Self {
        let grader = Grader::Command { command, sandbox: Where::Same, files: BTreeMap::new() };
        Self { grader, timeout_s: None, artifacts: Vec::new(), env: BTreeMap::new() }
    }

    /// The deadline.
    pub fn timeout(&self) -> Duration {
        seconds(self.timeout_s, crate::limits::EVALUATE)
    }

    /// Where it runs; `None`: not in a sandbox.
    pub fn sandbox(&self) -> Option<&Where> {
        match &self.grader {
            Grader::Command { sandbox, .. } | Grader::Harbor { sandbox, .. } => Some(sandbox),
            Grader::Program(_) | Grader::Url { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
