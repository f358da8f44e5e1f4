//! One grading: artifacts out, a sandbox where one is needed, the grader, its answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rollgate_backends::{Backend, Spec};
use rollgate_pipeline::record::Reward;

use super::{Evaluate, Grader, Where, fresh, harbor, outside};
use crate::attempt::about::{About, Ended};
use crate::attempt::artifacts::{self, Artifact};
use crate::attempt::inside::Inside;
use crate::attempt::log;
use crate::host::expanded;
use crate::limits;
use crate::outcome::{Outcome, Reason};
use crate::reward::{self, REWARD_FILE_ENV};
use crate::runtime::Halt;
use crate::task::{Command, Task};

/// What a grading is done with.
pub struct Bench<'a> {
    /// Which attempt it is.
    pub about: &'a About,
    /// How the agent ended.
    pub outcome: Outcome,
    /// The task.
    pub task: &'a Task,
    /// Where logs go.
    pub logs: &'a Path,
    /// Where fresh sandboxes are made.
    pub backend: &'a Arc<dyn Backend>,
    /// What the agent's sandbox was made of; so is a fresh one.
    pub spec: &'a Spec,
}

impl Bench<'_> {
    pub(super) fn ended(&self) -> Ended {
        Ended::new(self.outcome, None, None)
    }
}

/// Finds the reward. The inner error is the evaluation's own failure, and whatever the agent made
/// of its place: neither is tried again.
pub(crate) async fn grade(
    inside: &Inside<'_>,
    evaluate: &Evaluate,
    bench: &Bench<'_>,
) -> Result<Result<Reward, Reason>, Halt> {
    let taken = taken(inside, evaluate).await;
    let taken = match excused(inside, taken).await? {
        Ok(taken) => taken,
        Err(reason) => return Ok(Err(reason)),
    };
    match evaluate.sandbox() {
        Some(Where::Same) => {
            let graded = in_sandbox(inside, evaluate, bench).await;
            Ok(excused(inside, graded).await?.and_then(|graded| graded))
        }
        Some(Where::Fresh { image }) => {
            let with = Taken { from: inside, files: &taken };
            fresh::graded(evaluate, image.as_deref(), &with, bench).await
        }
        None => outside::graded(inside, evaluate, &taken, bench).await,
    }
}

/// Artifacts and where they come from.
pub(super) struct Taken<'a> {
    pub(super) from: &'a Inside<'a>,
    pub(super) files: &'a [Artifact],
}

/// A grader that saw only some of the artifacts would judge something else.
async fn taken(inside: &Inside<'_>, evaluate: &Evaluate) -> Result<Vec<Artifact>, Halt> {
    let most = match evaluate.grader {
        Grader::Url { .. } => limits::SENT_ARTIFACT_BYTES,
        _ => limits::COLLECT_BYTES,
    };
    let found = artifacts::take(inside, &evaluate.artifacts, most, evaluate.timeout()).await?;
    match found.left_out.first() {
        None => Ok(found.files),
        Some(first) => {
            let count = found.left_out.len();
            let what = format!("{count} artifacts cannot be had, of at most {most} bytes: {first}");
            Err(Halt::infra(Reason::new("artifacts", what)))
        }
    }
}

/// What failed in a sandbox that still runs commands is not the backend's fault.
pub(super) async fn excused<T>(
    inside: &Inside<'_>,
    done: Result<T, Halt>,
) -> Result<Result<T, Reason>, Halt> {
    match done {
        Err(halt) if halt.outcome == Outcome::InfraFailed && inside.lives().await => {
            Ok(Err(halt.reason))
        }
        other => other.map(Ok),
    }
}

/// Runs a grader that runs in this sandbox.
pub(super) async fn in_sandbox(
    inside: &Inside<'_>,
    evaluate: &Evaluate,
    bench: &Bench<'_>,
) -> Result<Result<Reward, Reason>, Halt> {
    let env = expanded(&evaluate.env);
    let env = env.map_err(|e| Halt::infra(Reason::new("evaluate_env", e)))?;
    let asked = Asked { inside, evaluate, logs: bench.logs, env };
    match &evaluate.grader {
        Grader::Command { command, files, .. } => asked.command(command, files).await,
        Grader::Harbor { tests, .. } => harbor::graded(&asked, tests).await,
        // `Evaluate::sandbox` says so.
        Grader::Program(_) | Grader::Url { .. } => {
            Err(Halt::infra(Reason::new("evaluate", "a grader outside of sandboxes")))
        }
    }
}

/// A grader in a sandbox.
pub(super) struct Asked<'a> {
    pub(super) inside: &'a Inside<'a>,
    pub(super) evaluate: &'a Evaluate,
    pub(super) logs: &'a Path,
    pub(super) env: BTreeMap<String, String>,
}

impl Asked<'_> {
    async fn command(
        &self,
        command: &Command,
        files: &BTreeMap<String, String>,
    ) -> Result<Result<Reward, Reason>, Halt> {
        for (path, text) in files {
            self.inside.put(&self.inside.path(path), text.as_bytes()).await?;
        }
        // A fresh name: no file of the agent can be taken for the evaluation's.
        let dir = self.inside.scratch("reward")?;
        self.inside.put(&format!("{dir}/.keep"), b"").await?;
        let path = format!("{dir}/reward.json");
        let exit = self.run(command.argv(), &[(REWARD_FILE_ENV, &path)]).await?;
        let file = self.inside.get(&path, limits::REWARD_BYTES).await?;
        Ok(reward::of(&exit, file.as_deref()))
    }

    /// Runs the grader's command and keeps what it printed.
    pub(super) async fn run(
        &self,
        argv: Vec<String>,
        more: &[(&str, &str)],
    ) -> Result<rollgate_backends::Exit, Halt> {
        let mut exec = self.inside.command(argv, self.evaluate.timeout());
        let more = more.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let more: Vec<_> = self.env.clone().into_iter().chain(more).collect();
        exec.env.retain(|(name, _)| more.iter().all(|(set, _)| set != name));
        exec.env.extend(more);
        let exit = self.inside.exec("evaluate", exec).await?;
        log::keep(self.logs, "evaluate", &exit).await;
        Ok(exit)
    }
}
