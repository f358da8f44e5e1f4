//! A hook as it is written, and what makes no sense in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Action, Event, Hook, Policy};
use crate::attempt::artifacts;
use crate::limits;
use crate::task::{Command, check};

/// Keys, for messages.
pub(crate) const KEYS: [&str; 12] = [
    "name",
    "at",
    "policy",
    "timeout_s",
    "collect",
    "diff",
    "exec",
    "notify",
    "program",
    "env",
    "headers",
    "max_bytes",
];

/// As written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHook {
    at: Event,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default)]
    policy: Policy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    collect: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exec: Option<Command>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notify: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<Command>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_bytes: Option<u64>,
}

impl TryFrom<RawHook> for Hook {
    type Error = String;

    fn try_from(raw: RawHook) -> Result<Self, String> {
        raw.settle()
    }
}

impl RawHook {
    fn settle(self) -> Result<Hook, String> {
        self.sense()?;
        let max_bytes = self.max_bytes.unwrap_or(limits::COLLECT_BYTES);
        let (env, headers) = (self.env, self.headers);
        let action = match (self.collect, self.diff, self.exec, self.notify, self.program) {
            (Some(paths), None, None, None, None) => Action::Collect { paths, max_bytes },
            (None, Some(repository), None, None, None) => Action::Diff { repository, max_bytes },
            (None, None, Some(command), None, None) => Action::Exec { command, env },
            (None, None, None, Some(url), None) => Action::Notify { url, headers },
            (None, None, None, None, Some(program)) => Action::Program { program, env },
            (None, None, None, None, None) => {
                return Err(
                    "one of `collect`, `diff`, `exec`, `notify`, `program` is missing".to_owned()
                );
            }
            _ => {
                return Err(
                    "only one of `collect`, `diff`, `exec`, `notify`, `program` may be".to_owned()
                );
            }
        };
        let (name, at, policy, timeout_s) = (self.name, self.at, self.policy, self.timeout_s);
        Ok(Hook { name, at, policy, timeout_s, action })
    }

    fn sense(&self) -> Result<(), String> {
        check::positive(self.timeout_s, "timeout_s")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if let Some(name) = &self.name
            && (name.is_empty()
                || name.len() > 60
                || name.starts_with('.')
                || !name.chars().all(plain))
        {
            return Err("`name` is the name of its logs: letters, digits, `-`, `_`, `.`".to_owned());
        }
        if self.at == Event::OnError && self.policy == Policy::Required {
            return Err("an `on_error` hook cannot be required: the attempt failed already".into());
        }
        if self.at == Event::BeforeRun && self.diff.is_some() {
            return Err("`diff` says what the agent changed: before it ran there is nothing".into());
        }
        for (command, name) in [(&self.exec, "exec"), (&self.program, "program")] {
            if let Some(command) = command {
                check::filled(command, name)?;
            }
        }
        if let Some(url) = &self.notify {
            check::url(url, "notify")?;
        }
        check::paths(&self.diff, "diff")?;
        check::names(&self.env, "env")?;
        check::headers(&self.headers, "headers")?;
        if self.collect.as_ref().is_some_and(Vec::is_empty) {
            return Err("`collect` names nothing".to_owned());
        }
        for pattern in self.collect.iter().flatten() {
            if let Some(why) = artifacts::refused(pattern) {
                return Err(format!("pattern {pattern:?} of `collect` {why}"));
            }
        }
        let most = limits::COLLECT_MOST_BYTES;
        if self.max_bytes.is_some_and(|bytes| bytes == 0 || bytes > most) {
            return Err(format!("`max_bytes` must be over 0 and at most {most}"));
        }
        let runs = self.exec.is_some() || self.program.is_some();
        let copies = self.collect.is_some() || self.diff.is_some();
        let misplaced = [
            (!self.env.is_empty() && !runs, "`env` goes with `exec` and `program`"),
            (!self.headers.is_empty() && self.notify.is_none(), "`headers` goes with `notify`"),
            (self.max_bytes.is_some() && !copies, "`max_bytes` goes with `collect` and `diff`"),
        ];
        misplaced.iter().find(|(wrong, _)| *wrong).map_or(Ok(()), |(_, what)| Err((*what).into()))
    }
}

impl From<Hook> for RawHook {
    fn from(hook: Hook) -> Self {
        let Hook { name, at, policy, timeout_s, action } = hook;
        let mut raw = Self {
            at,
            name,
            policy,
            timeout_s,
            collect: None,
            diff: None,
            exec: None,
            notify: None,
            program: None,
            env: BTreeMap::new(),
            headers: BTreeMap::new(),
            max_bytes: None,
        };
        match action {
            Action::Collect { paths, max_bytes } => {
                raw.collect = Some(paths);
                raw.max_bytes = Some(max_bytes);
            }
            Action::Diff { repository, max_bytes } => {
                raw.diff = Some(repository);
                raw.max_bytes = Some(max_bytes);
            }
            Action::Exec { command, env } => (raw.exec, raw.env) = (Some(command), env),
            Action::Notify { url, headers } => (raw.notify, raw.headers) = (Some(url), headers),
            Action::Program { program, env } => (raw.program, raw.env) = (Some(program), env),
        }
        raw
    }
}

/// What makes no sense in a whole list.
pub(crate) fn sense(hooks: &[Hook]) -> Result<(), String> {
    if hooks.len() > limits::HOOKS {
        return Err(format!("{} hooks are over the {} allowed", hooks.len(), limits::HOOKS));
    }
    for (index, hook) in hooks.iter().enumerate() {
        let earlier = hooks.get(..index).unwrap_or_default();
        if let Some(name) = &hook.name
            && earlier.iter().any(|other| other.name.as_ref() == Some(name))
        {
            return Err(format!("two hooks are named `{name}`: the name is that of their logs"));
        }
    }
    Ok(())
}
