//! An evaluation as it is written, and what makes no sense in it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Evaluate, Grader, Where};
use crate::attempt::artifacts;
use crate::task::{Command, check};

/// Keys, for messages.
pub(crate) const KEYS: [&str; 11] = [
    "command",
    "harbor",
    "program",
    "url",
    "timeout_s",
    "sandbox",
    "image",
    "files",
    "artifacts",
    "env",
    "headers",
];

/// As written: every key optional.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawEvaluate {
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Command>,
    #[serde(skip_serializing_if = "Option::is_none")]
    harbor: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<Command>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<RawWhere>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    files: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawWhere {
    Same,
    Fresh,
}

impl TryFrom<RawEvaluate> for Evaluate {
    type Error = String;

    fn try_from(raw: RawEvaluate) -> Result<Self, String> {
        raw.settle()
    }
}

impl RawEvaluate {
    fn settle(self) -> Result<Evaluate, String> {
        self.sense()?;
        let sandbox = match (self.sandbox, self.image) {
            (Some(RawWhere::Fresh), image) => Where::Fresh { image },
            (_, Some(_)) => return Err("`image` goes with `sandbox`: \"fresh\" only".to_owned()),
            (_, None) => Where::Same,
        };
        let grader = match (self.command, self.harbor, self.program, self.url) {
            (Some(command), None, None, None) => {
                Grader::Command { command, sandbox, files: self.files }
            }
            (None, Some(tests), None, None) => Grader::Harbor { tests, sandbox },
            (None, None, Some(program), None) => Grader::Program(program),
            (None, None, None, Some(url)) => Grader::Url { url, headers: self.headers },
            (None, None, None, None) => {
                return Err("one of `command`, `harbor`, `program`, `url` is missing".to_owned());
            }
            _ => return Err("only one of `command`, `harbor`, `program`, `url` may be".to_owned()),
        };
        let (timeout_s, artifacts, env) = (self.timeout_s, self.artifacts, self.env);
        Ok(Evaluate { grader, timeout_s, artifacts, env })
    }

    /// What a key's value must be, and which keys go together.
    fn sense(&self) -> Result<(), String> {
        check::positive(self.timeout_s, "timeout_s")?;
        for (command, name) in [(&self.command, "command"), (&self.program, "program")] {
            if let Some(command) = command {
                check::filled(command, name)?;
            }
        }
        if let Some(url) = &self.url {
            check::url(url, "url")?;
        }
        check::paths(self.files.keys(), "files")?;
        check::names(&self.env, "env")?;
        check::headers(&self.headers, "headers")?;
        for pattern in &self.artifacts {
            if let Some(why) = artifacts::refused(pattern) {
                return Err(format!("pattern {pattern:?} of `artifacts` {why}"));
            }
        }
        let inside = self.command.is_some() || self.harbor.is_some();
        let fresh = self.sandbox == Some(RawWhere::Fresh);
        let misplaced = [
            (self.sandbox.is_some() && !inside, "`sandbox` goes with `command` and `harbor`"),
            (!self.files.is_empty() && self.command.is_none(), "`files` goes with `command`"),
            (!self.headers.is_empty() && self.url.is_none(), "`headers` goes with `url`"),
            (!self.env.is_empty() && self.url.is_some(), "`env` does not go with `url`"),
            (
                !self.artifacts.is_empty() && inside && !fresh,
                "`artifacts` does not go with the agent's own sandbox: set `sandbox` to \"fresh\"",
            ),
        ];
        misplaced.iter().find(|(wrong, _)| *wrong).map_or(Ok(()), |(_, what)| Err((*what).into()))
    }
}

impl From<Evaluate> for RawEvaluate {
    fn from(evaluate: Evaluate) -> Self {
        let Evaluate { grader, timeout_s, artifacts, env } = evaluate;
        let mut raw = Self { timeout_s, artifacts, env, ..Self::default() };
        let mut at = |sandbox| match sandbox {
            Where::Same => {}
            Where::Fresh { image } => {
                raw.sandbox = Some(RawWhere::Fresh);
                raw.image = image;
            }
        };
        match grader {
            Grader::Command { command, sandbox, files } => {
                at(sandbox);
                raw.command = Some(command);
                raw.files = files;
            }
            Grader::Harbor { tests, sandbox } => {
                at(sandbox);
                raw.harbor = Some(tests);
            }
            Grader::Program(program) => raw.program = Some(program),
            Grader::Url { url, headers } => {
                raw.url = Some(url);
                raw.headers = headers;
            }
        }
        raw
    }
}
