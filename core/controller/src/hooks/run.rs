//! The hooks of one attempt, done in order. Each leaves a line in `hooks.jsonl` of its logs.

use std::collections::BTreeMap;
use std::path::Path;

use rollgate_backends::Sandbox;
use rollgate_pipeline::record::Reward;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::diff::{self, Tree};
use super::{Action, Event, Hook, Policy};
use crate::attempt::about::{About, Ended, told};
use crate::attempt::inside::{Inside, how, last_words};
use crate::attempt::{artifacts, log};
use crate::host;
use crate::limits;
use crate::outcome::{Outcome, Reason};
use crate::post::post;
use crate::runtime::{Cancel, Halt, guard};
use crate::task::{Task, check};

/// The hooks of one attempt.
pub struct Hooks<'a> {
    hooks: Vec<(String, &'a Hook)>,
    about: About,
    task: &'a Task,
    logs: &'a Path,
    cancel: &'a Cancel,
    /// State of each repository that is compared, before the agent.
    trees: BTreeMap<String, Tree>,
    /// Parts that programs added to the reward.
    parts: BTreeMap<String, f64>,
}

/// What a program answers.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Added {
    env: BTreeMap<String, String>,
    files: BTreeMap<String, String>,
    reward_parts: BTreeMap<String, f64>,
}

impl<'a> Hooks<'a> {
    /// The job's hooks, then the task's.
    pub fn new(
        job: &'a [Hook],
        task: &'a Task,
        about: About,
        (logs, cancel): (&'a Path, &'a Cancel),
    ) -> Self {
        let mut hooks: Vec<(String, &Hook)> = Vec::new();
        for hook in job.iter().chain(&task.hooks) {
            let plain = hook.name.as_deref().unwrap_or(hook.action.name());
            let taken = |name: &str| hooks.iter().any(|(other, _)| other == name);
            let mut name = plain.to_owned();
            for number in 2..=hooks.len() + 1 {
                if taken(&name) {
                    name = format!("{plain}-{number}");
                }
            }
            hooks.push((name, hook));
        }
        let (trees, parts) = (BTreeMap::new(), BTreeMap::new());
        Self { hooks, about, task, logs, cancel, trees, parts }
    }

    /// Which attempt they belong to.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Before the agent; may add to its environment and files.
    pub(crate) async fn before_run(&mut self, inside: &mut Inside<'_>) -> Result<(), Halt> {
        let known = Ended::default();
        for (name, hook) in self.at(Event::BeforeRun) {
            let added = self.hook(&name, hook, Some(inside), &known).await?;
            inside.env.extend(added.env);
        }
        self.remember(inside).await
    }

    /// After the agent; may add parts to the reward.
    pub(crate) async fn after_run(
        &mut self,
        inside: &Inside<'_>,
        outcome: Outcome,
        reason: Option<&Reason>,
    ) -> Result<(), Halt> {
        let known = Ended::new(outcome, reason, None);
        for (name, hook) in self.at(Event::AfterRun) {
            if !matches!(hook.action, Action::Notify { .. }) {
                let added = self.hook(&name, hook, Some(inside), &known).await?;
                self.parts.extend(added.reward_parts);
            }
        }
        Ok(())
    }

    /// The reward with the parts that programs added; the evaluation's own win.
    pub fn rewarded(&self, reward: Option<Reward>) -> Option<Reward> {
        if self.parts.is_empty() {
            return reward;
        }
        let Reward { reward, parts } =
            reward.unwrap_or(Reward { reward: None, parts: BTreeMap::new() });
        let mut all = self.parts.clone();
        all.extend(parts);
        Some(Reward { reward, parts: all })
    }

    /// Tells how it went. A reward that is known is not lost for a message that is not taken.
    pub async fn notify(&self, ended: &Ended) -> Result<(), Halt> {
        for (name, hook) in self.at(Event::AfterRun) {
            if !matches!(hook.action, Action::Notify { .. }) {
                continue;
            }
            match self.hook(&name, hook, None, ended).await {
                Err(halt) if halt.outcome == Outcome::InfraFailed && ended.reward.is_some() => {
                    tracing::warn!(attempt = self.about.attempt_id, "the reward stays: {halt}");
                }
                done => drop(done?),
            }
        }
        Ok(())
    }

    /// After a failure. What fails here is told and changes nothing: the first failure is the cause.
    pub async fn on_error(&self, sandbox: Option<&dyn Sandbox>, ended: &Ended) {
        let spared = [Outcome::Done, Outcome::Budget, Outcome::Cancelled];
        if ended.outcome.is_none_or(|outcome| spared.contains(&outcome)) {
            return;
        }
        let inside = sandbox.map(|sandbox| Inside::new(sandbox, self.task, self.cancel));
        for (name, hook) in self.at(Event::OnError) {
            if let Err(halt) = self.hook(&name, hook, inside.as_ref(), ended).await {
                tracing::warn!(attempt = self.about.attempt_id, "{halt}");
            }
        }
    }

    fn at(&self, event: Event) -> Vec<(String, &'a Hook)> {
        self.hooks.iter().filter(|(_, hook)| hook.at == event).cloned().collect()
    }

    /// Keeps the states that `diff` hooks compare with. One that cannot be had is left out: the
    /// hook says so, with its policy.
    async fn remember(&mut self, inside: &Inside<'_>) -> Result<(), Halt> {
        for (_, hook) in self.hooks.clone() {
            let Action::Diff { repository, .. } = &hook.action else { continue };
            if self.trees.contains_key(repository) {
                continue;
            }
            match diff::tree(inside, repository, hook.timeout()).await {
                Ok(tree) => drop(self.trees.insert(repository.clone(), tree)),
                Err(halt) if halt.outcome == Outcome::Cancelled => return Err(halt),
                Err(halt) => tracing::warn!(attempt = self.about.attempt_id, "{halt}"),
            }
        }
        Ok(())
    }

    /// Does one hook. An error is a cancellation, or the failure of a required one.
    async fn hook(
        &self,
        name: &str,
        hook: &Hook,
        inside: Option<&Inside<'_>>,
        known: &Ended,
    ) -> Result<Added, Halt> {
        let began = Instant::now();
        let doing = async { self.act(name, hook, inside, known).await.map_err(|halt| halt.reason) };
        // What it takes out of the sandbox, and the commands for it, have the deadline each.
        let deadline = hook.timeout().saturating_mul(3).saturating_add(limits::SLACK);
        let done = guard("hook", deadline, self.cancel, doing).await;
        let done = done.map_err(|Halt { outcome, reason }| {
            // A cancellation keeps its own code.
            let code = if outcome == Outcome::InfraFailed { "hook" } else { &reason.code };
            let what = format_args!("hook `{name}`: {}", reason.message);
            Halt { outcome, reason: Reason::new(code, what) }
        });
        self.log(name, hook, began, done.as_ref().err()).await;
        match done {
            Err(halt)
                if halt.outcome == Outcome::InfraFailed && hook.policy == Policy::BestEffort =>
            {
                tracing::warn!(attempt = self.about.attempt_id, "best effort: {halt}");
                Ok(Added::default())
            }
            done => done,
        }
    }

    async fn act(
        &self,
        name: &str,
        hook: &Hook,
        inside: Option<&Inside<'_>>,
        known: &Ended,
    ) -> Result<Added, Halt> {
        let Some(inside) = inside else {
            if hook.action.outside() {
                return self.act_outside(hook, None, known).await;
            }
            return Err(fault("there is no sandbox"));
        };
        let timeout = hook.timeout();
        match &hook.action {
            Action::Collect { paths, max_bytes } => {
                let mut found = artifacts::take(inside, paths, *max_bytes, timeout).await?;
                let dir = self.logs.join(name);
                let kept = artifacts::keep(&dir, &inside.workdir, &mut found).await;
                let kept = kept.map_err(Halt::infra)?;
                if let Some(first) = found.left_out.first() {
                    let count = found.left_out.len();
                    return Err(fault(format_args!(
                        "{kept} files are kept, {count} are left out; the first: {first}"
                    )));
                }
            }
            Action::Diff { repository, max_bytes } => {
                let before = self.trees.get(repository);
                let before =
                    before.ok_or_else(|| fault("the state before the agent is unknown"))?;
                let bounds = (*max_bytes, timeout);
                let patch = diff::patch(inside, repository, before, bounds).await?;
                let kept = log::file(self.logs, &format!("{name}.patch"), &patch).await;
                kept.map_err(|e| fault(format_args!("the patch cannot be kept: {e}")))?;
            }
            Action::Exec { command, env } => {
                let mut exec = inside.command(command.argv(), timeout);
                exec.env.retain(|(set, _)| !env.contains_key(set));
                exec.env.extend(env.clone());
                let exit = inside.exec("hook", exec).await?;
                log::keep(self.logs, &format!("hook-{name}"), &exit).await;
                if exit.code != Some(0) || exit.timed_out {
                    let (how, words) = (how(&exit), last_words(&exit));
                    return Err(fault(format_args!("it {how}; its last words: {words:?}")));
                }
            }
            Action::Notify { .. } | Action::Program { .. } => {
                let added = self.act_outside(hook, Some(inside), known).await?;
                for (path, text) in &added.files {
                    inside.put(&inside.path(path), text.as_bytes()).await?;
                }
                return Ok(added);
            }
        }
        Ok(Added::default())
    }

    async fn act_outside(
        &self,
        hook: &Hook,
        inside: Option<&Inside<'_>>,
        known: &Ended,
    ) -> Result<Added, Halt> {
        let mut body = told(hook.at.name(), &self.about, known, self.task).map_err(fault)?;
        match &hook.action {
            Action::Notify { url, headers } => {
                body.shift_remove("instruction");
                post(url, headers, &body.into(), hook.timeout()).await.map_err(fault)?;
                Ok(Added::default())
            }
            Action::Program { program, env } => {
                body.insert("logs".to_owned(), json!(self.logs));
                if let Some(inside) = inside {
                    body.insert("sandbox".to_owned(), inside.sandbox.id().into());
                    body.insert("workdir".to_owned(), inside.workdir.clone().into());
                }
                let argv = program.argv();
                let answer = host::ask(&argv, env, &Value::Object(body), hook.timeout()).await;
                added(hook.at, answer.map_err(fault)?).map_err(fault)
            }
            _ => Err(fault("there is no sandbox")),
        }
    }

    async fn log(&self, name: &str, hook: &Hook, began: Instant, failed: Option<&Halt>) {
        let line = json!({
            "hook": name,
            "at": hook.at,
            "does": hook.action.name(),
            "ok": failed.is_none(),
            "error": failed.map(|halt| &halt.reason.message),
            "took_ms": began.elapsed().as_millis() as u64,
        });
        let write = async {
            tokio::fs::create_dir_all(self.logs).await?;
            let path = self.logs.join("hooks.jsonl");
            let file = tokio::fs::OpenOptions::new().create(true).append(true).open(path).await;
            let mut file = file?;
            file.write_all(format!("{line}\n").as_bytes()).await?;
            file.flush().await
        };
        if let Err(error) = write.await {
            tracing::warn!(dir = %self.logs.display(), "a hook's line cannot be written: {error}");
        }
    }
}

/// A program's answer, checked against what may be said at that event.
fn added(at: Event, answer: Value) -> Result<Added, String> {
    if answer.is_null() {
        return Ok(Added::default());
    }
    let added: Added = serde_json::from_value(answer).map_err(|e| format!("its answer: {e}"))?;
    if at != Event::BeforeRun && !(added.env.is_empty() && added.files.is_empty()) {
        return Err("its answer: `env` and `files` come too late; set them `before_run`".to_owned());
    }
    if at != Event::AfterRun && !added.reward_parts.is_empty() {
        return Err("its answer: `reward_parts` can only be added `after_run`".to_owned());
    }
    check::names(&added.env, "env").and_then(|()| check::paths(added.files.keys(), "files"))?;
    Ok(added)
}

fn fault(what: impl std::fmt::Display) -> Halt {
    Halt::infra(Reason::new("hook", what))
}
