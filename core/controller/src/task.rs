//! Tasks: what agents are asked to do. From JSON lines, Harbor task folders or Parquet files.
//!
//! Reading is strict: an unknown key, a duplicate id or an empty file is an error that names file,
//! line or row, and key. What a foreign format asks for and is not done is told by name. Nothing
//! here looks at the disk but [`load`] and what it calls.

pub(crate) mod check;
mod columns;
mod harbor;
mod load;
mod parquet;
mod parse;
mod sandbox;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rollgate_backends::Resources;
use rollgate_pipeline::record::{Budget, HistoryMode, Retention};
use rollgate_pipeline::rules::Rule;
use rollgate_pipeline::scene::SceneRule;
use rollgate_pipeline::turn::Sampling;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::evaluate::Evaluate;
use crate::hooks::Hook;
pub use columns::{ColumnError, Columns};
pub use load::{Loaded, load};
pub(crate) use parse::{LIMITS as LIMIT_KEYS, SAMPLING as SAMPLING_KEYS, within as keys_within};

/// A task.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Unique in its file.
    pub task_id: String,
    /// What the agent is told.
    pub instruction: String,
    /// Text files to write first; relative paths lie in the work directory.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Where the agent and all commands run; relative to the sandbox's own work directory.
    #[serde(default)]
    pub workdir: Option<String>,
    /// What its sandbox is made of: the name of an image or template, or the path of a folder with
    /// a `Dockerfile`, which begins with `/`, or in a task file with `./`. `None`: the backend's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// What its sandbox may use.
    #[serde(default, with = "sandbox::resources", skip_serializing_if = "sandbox::are_default")]
    pub resources: Resources,
    /// Commands to run before the agent, in order. Each must exit with 0.
    #[serde(default)]
    pub setup: Vec<Command>,
    /// Environment of the set-up, the agent and the evaluation.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The agent; `None`: the job's.
    #[serde(default)]
    pub agent: Option<Agent>,
    /// Deadline of the agent in seconds, where `agent` says none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// What to do before and after the agent, and when an attempt fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// How the reward is found; `None`: there is none.
    #[serde(default)]
    pub evaluate: Option<Evaluate>,
    /// What the attempt may use up.
    #[serde(default)]
    pub limits: Budget,
    /// Sampling parameters that win over the agent's.
    #[serde(default)]
    pub sampling: Sampling,
    /// What the engine is shown of rewritten history; `None`: the node's default.
    #[serde(default)]
    pub history: Option<HistoryMode>,
    /// What becomes of earlier reasoning; `None`: the node's default.
    #[serde(default)]
    pub retention: Option<Retention>,
    /// What the agent may change in its history, before the node's rules.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// What its exchanges are for, before the node's rules.
    #[serde(default)]
    pub scenes: Vec<SceneRule>,
    /// Free data, echoed in samples.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// Which agent, and how it is started.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Name of the harness.
    pub name: String,
    /// The version that must be there: a part of what the agent prints.
    #[serde(default)]
    pub version: Option<String>,
    /// Model name that the agent asks for; `None`: the served model's.
    #[serde(default)]
    pub model: Option<String>,
    /// Extra arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Deadline in seconds.
    #[serde(default)]
    pub timeout_s: Option<f64>,
}

impl Agent {
    /// The agent of this name, all else by default.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: None,
            model: None,
            args: Vec::new(),
            timeout_s: None,
        }
    }

    /// The deadline.
    pub fn timeout(&self) -> Duration {
        seconds(self.timeout_s, crate::limits::AGENT)
    }
}

/// A command: text for `sh -c`, or a program with its arguments.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Command {
    /// Run by `sh -c`.
    Shell(String),
    /// Run as it is.
    Argv(Vec<String>),
}

impl Command {
    /// The command line.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Command::Shell(text) => vec!["sh".to_owned(), "-c".to_owned(), text.clone()],
            Command::Argv(argv) => argv.clone(),
        }
    }
}

pub(crate) fn seconds(asked: Option<f64>, default: Duration) -> Duration {
    asked.and_then(|s| Duration::try_from_secs_f64(s).ok()).unwrap_or(default)
}

/// Why tasks are refused. All of these are to be mended in the file, but for [`TaskError::Io`].
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line is not a task.
    #[error("{path}, line {line}: {what}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong and how to mend it.
        what: String,
    },
    /// A row of a table is not a task.
    #[error("{path}, row {row}: {what}")]
    Row {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        row: usize,
        /// What is wrong and how to mend it.
        what: String,
    },
    /// A file is not what it should be, as a whole.
    #[error("{path}: {what}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong and how to mend it.
        what: String,
    },
    /// There is no task in it.
    #[error("{0} holds no task; one JSON object a line is expected")]
    Empty(PathBuf),
}

/// The tasks of JSON lines; `path` is for messages, and relative paths of the host start at its
/// folder. Blank lines are skipped.
pub fn parse(path: &Path, text: &str) -> Result<Vec<Task>, TaskError> {
    load::lines(path, text, &Columns::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refuse(text: &str, expected: &str) {
        let error = parse(Path::new("t.jsonl"), text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
    }

    #[test]
    fn reads_a_full_and_a_bare_task() {
        let text = r#"
            {"task_id": "a", "instruction": "fix it", "files": {"x/y.py": "1"}, "workdir": "repo",
             "setup": ["make", ["git", "init"]], "env": {"A": "b"}, "agent": {"name": "command",
             "version": "1.2", "model": "m", "args": ["-v"], "timeout_s": 2.5},
             "evaluate": {"command": "pytest", "timeout_s": 9}, "limits": {"turns": 3, "tokens": 99},
             "sampling": {"temperature": 1}, "history": "faithful", "retention": "template",
             "rules": [{"name": "r", "action": "strip", "pattern": "x"}], "metadata": {"k": [1]}}"#
            .replace('\n', " ");
        let both = format!("{text}\n\n{{\"task_id\": \"b\", \"instruction\": \"go\"}}\n");
        let tasks = parse(Path::new("t.jsonl"), &both).unwrap();
        assert_eq!(tasks.len(), 2);
        let full = &tasks[0];
        assert_eq!(full.setup[0].argv(), ["sh", "-c", "make"]);
        assert_eq!(full.setup[1].argv(), ["git", "init"]);
        assert_eq!(full.agent.as_ref().unwrap().timeout(), Duration::from_millis(2500));
        assert_eq!(full.evaluate.as_ref().unwrap().timeout(), Duration::from_secs(9));
        assert_eq!((full.limits.turns, full.limits.tokens), (Some(3), Some(99)));
        assert_eq!(full.sampling.temperature, Some(1.0));
        assert_eq!(full.history, Some(HistoryMode::Faithful));
        assert_eq!((full.retention, full.rules.len()), (Some(Retention::Template), 1));
        assert_eq!(tasks[1].evaluate, None);
    }

    #[test]
    fn an_error_names_line_and_near_key() {
        let good = r#"{"task_id": "a", "instruction": "x"}"#;
        refuse("", "holds no task");
        refuse("\n  \n", "holds no task");
        refuse(&format!("{good}\n{good}"), "line 2: task_id `a` was used");
        refuse(&format!("{good}\n\n{{"), "line 3: not JSON");
        refuse("[1]", "line 1: a task is a JSON object");
        refuse(r#"{"task_id":"a","instructions":"x"}"#, "did you mean `instruction`?");
        refuse(r#"{"task_id":"a"}"#, "missing field `instruction`");
        refuse(
            r#"{"task_id":"a","instruction":"x","agent":{"nmae":"b"}}"#,
            "in `agent`: unknown key `nmae`; did you mean `name`?",
        );
        refuse(
            r#"{"task_id":"a","instruction":"x","sampling":{"temprature":1}}"#,
            "in `sampling`: unknown key `temprature`; did you mean `temperature`?",
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let with = |rest: &str| format!(r#"{{"task_id":"a","instruction":"x",{rest}}}"#);
        refuse(&with(r#""evaluate":{"command":" "}"#), "in `evaluate`: `command` is empty");
        refuse(&with(r#""evaluate":{"comand":"x"}"#), "did you mean `command`?");
        refuse(&with(r#""hooks":[{"at":"after_run","dif":"."}]"#), "in `hooks[0]`: unknown key");
        refuse(&with(r#""resources":{"cpu":1}"#), "did you mean `cpus`?");
        refuse(&with(r#""resources":{"cpus":0}"#), "`resources.cpus` must be over 0");
        refuse(&with(r#""resources":{"pids":0}"#), "`resources.pids` must be at least 1");
        refuse(&with(r#""timeout_s":-1"#), "`timeout_s` must be over 0");
        refuse(&with(r#""setup":[[]]"#), "`setup[0]` is empty");
        refuse(&with(r#""files":{"a/../../b":"x"}"#), "may not hold `..`");
        refuse(&with(r#""workdir":"../x""#), "may not hold `..`");
        refuse(&with(r#""agent":{"name":"c","timeout_s":0}"#), "`agent.timeout_s` must be");
        refuse(&with(r#""env":{"A=B":"x"}"#), "`env` holds a name");
        refuse(&with(r#""history":"stick""#), "unknown variant `stick`");
        refuse(&with(r#""rules":[{"name":"","action":"same"}]"#), "has no name");
        refuse(&with(r#""rules":[{"name":"r","action":"same"}]"#), "`rules`: rule \"r\"");
        refuse(r#"{"task_id":"","instruction":"x"}"#, "`task_id` is empty");
        refuse(&with(r#""limits":{"turns":0}"#), "`limits.turns` must be at least 1");
    }

    #[test]
    fn the_known_sampling_keys_are_those_that_there_are() {
        let all = Sampling {
            temperature: Some(1.0),
            top_p: Some(1.0),
            top_k: Some(1),
            min_p: Some(0.0),
            presence_penalty: Some(0.0),
            frequency_penalty: Some(0.0),
            max_tokens: Some(1),
            seed: Some(1),
            stop: vec!["x".to_owned()],
            extra: [("x".to_owned(), Value::Null)].into_iter().collect(),
        };
        let Value::Object(all) = serde_json::to_value(all).unwrap() else { panic!("an object") };
        assert!(all.keys().eq(SAMPLING_KEYS.iter()), "{all:?}");
    }
}
