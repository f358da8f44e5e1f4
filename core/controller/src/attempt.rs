//! What an attempt does inside its sandbox: set-up, agent, evaluation.
//!
//! Nothing here knows sessions. Commands of the set-up and the evaluation never get the key.

pub mod about;
pub(crate) mod artifacts;
pub(crate) mod inside;
pub(crate) mod log;
#[cfg(test)]
pub(crate) mod trial;

use std::path::Path;

use rollgate_backends::{Exec, Sandbox};
use rollgate_harness::{AgentOutcome, Ended, Harness, Job, Launch, RESULT_BYTES};
use rollgate_pipeline::record::Reward;

use crate::evaluate::{Bench, Evaluate, grade};
use crate::hooks::Hooks;
use crate::limits;
use crate::outcome::{Outcome, Reason};
use crate::reach::BaseUrls;
use crate::runtime::{Cancel, Halt, Served, guard};
use crate::task::{Agent, Task};
use inside::{Inside, how, last_words};

/// A sandbox with a task in it.
pub struct Place<'a> {
    inside: Inside<'a>,
    task: &'a Task,
    /// The agent that works here.
    pub agent: &'a Agent,
    logs: &'a Path,
}

/// How the agent's run ended.
#[derive(Debug)]
pub struct Ran {
    /// [`Outcome::Done`], [`Outcome::AgentFailed`] or [`Outcome::AgentTimeout`].
    pub outcome: Outcome,
    /// Why, where it is not done.
    pub reason: Option<Reason>,
    exit: String,
    last_words: String,
}

impl Ran {
    /// The reason of an agent that never reached the model, with a hint.
    pub fn no_model_call(&self, base_url: &str) -> Reason {
        let (exit, words) = (&self.exit, &self.last_words);
        Reason::new(
            "no_model_call",
            format_args!(
                "the agent {exit} without one answered model call. Does it start at all, and does \
                 it send its requests to {base_url}? Its last words: {words:?}"
            ),
        )
    }
}

impl<'a> Place<'a> {
    /// The place of a task's attempt.
    pub fn new(
        sandbox: &'a dyn Sandbox,
        task: &'a Task,
        agent: &'a Agent,
        logs: &'a Path,
        cancel: &'a Cancel,
    ) -> Self {
        Self { inside: Inside::new(sandbox, task, cancel), task, agent, logs }
    }

    /// Writes the task's files and runs its set-up.
    pub async fn prepare(&self) -> Result<(), Halt> {
        self.inside.prepare(self.task).await
    }

    /// Runs the hooks that come before the agent.
    pub async fn before_run(&mut self, hooks: &mut Hooks<'_>) -> Result<(), Halt> {
        hooks.before_run(&mut self.inside).await
    }

    /// Runs the hooks that come after the agent.
    pub async fn after_run(
        &self,
        hooks: &mut Hooks<'_>,
        outcome: Outcome,
        reason: Option<&Reason>,
    ) -> Result<(), Halt> {
        hooks.after_run(&self.inside, outcome, reason).await
    }

    /// What the agent is told.
    pub fn job(&self, urls: &BaseUrls, key: &str, served: &Served, program: Option<&str>) -> Job {
        Job {
            instruction: self.task.instruction.clone(),
            openai_base_url: urls.openai.clone(),
            anthropic_base_url: urls.anthropic.clone(),
            key: key.to_owned(),
            program: program.map(str::to_owned),
            max_context: served.max_context,
            model: self.agent.model.clone().unwrap_or_else(|| served.model.clone()),
            workdir: self.inside.workdir.clone(),
            home: self.inside.sandbox.home().to_owned(),
            rollgate: self.inside.sandbox.rollgate().to_owned(),
            args: self.agent.args.clone(),
            timeout: self.task.agent_timeout(self.agent),
        }
    }

    /// The agent's version as it prints it; empty when it does not say. A pinned version that is
    /// not there is a failure.
    pub async fn version(&self, harness: &dyn Harness, job: &Job) -> Result<String, Halt> {
        let mut version = String::new();
        if let Some(argv) = harness.version_argv(job) {
            let exit =
                self.inside.exec("version", self.inside.command(argv, limits::VERSION)).await?;
            if exit.code == Some(0) {
                let text = String::from_utf8_lossy(&exit.stdout);
                version = text.lines().next().unwrap_or_default().trim().to_owned();
            }
        }
        match &self.agent.version {
            Some(pinned) if !version.contains(pinned.as_str()) => {
                let name = &self.agent.name;
                let what = format!("{name} says {version:?}; the task wants version {pinned}");
                Err(Halt::infra(Reason::new("agent_version", what)))
            }
            _ => {
                let proven = harness.package().map(|package| package.version);
                if let Some(proven) = proven.filter(|proven| !version.contains(proven)) {
                    tracing::warn!(
                        agent = %self.agent.name, %version, %proven,
                        "not the version this Rollgate is proven with: scenes and launch may differ"
                    );
                }
                Ok(version)
            }
        }
    }

    /// Runs the agent to its end.
    pub async fn run(&self, harness: &dyn Harness, job: &Job) -> Result<Ran, Halt> {
        let described = async { harness.launch(job).map_err(|e| Reason::new("launch", e)) };
        let launch = guard("launch", limits::FILE, self.inside.cancel, described).await?;
        for file in &launch.files {
            self.inside.put(&file.path, &file.contents).await?;
        }
        let result_file = launch.result_file.clone();
        let exit = self.inside.exec("agent", self.agent_exec(launch)).await?;
        log::keep(self.logs, "agent", &exit).await;
        let result = match result_file {
            // What cannot be read is what the agent made of it: the harness judges.
            Some(path) => match self.inside.get(&path, RESULT_BYTES).await {
                Err(halt) if halt.outcome == Outcome::InfraFailed => None,
                got => got?,
            },
            None => None,
        };
        let ended = Ended {
            exit_code: exit.code,
            timed_out: exit.timed_out,
            stdout: String::from_utf8_lossy(&exit.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&exit.stderr).into_owned(),
            result,
        };
        let judge = async { Ok(harness.judge(&ended)) };
        let judged = guard("judge", limits::FILE, self.inside.cancel, judge).await?;
        let (outcome, reason) = match judged {
            AgentOutcome::Done => (Outcome::Done, None),
            AgentOutcome::Failed(why) => {
                (Outcome::AgentFailed, Some(Reason::new("agent_failed", why)))
            }
            AgentOutcome::TimedOut => {
                let what = format!("the agent did not end within {:?}", job.timeout);
                (Outcome::AgentTimeout, Some(Reason::new("agent_timeout", what)))
            }
        };
        Ok(Ran { outcome, reason, exit: how(&exit), last_words: last_words(&exit) })
    }

    /// Finds the reward. The inner error is the evaluation's own failure, and whatever the agent made
    /// of its place: neither is tried again.
    pub async fn evaluate(
        &self,
        evaluate: &Evaluate,
        bench: &Bench<'_>,
    ) -> Result<Result<Reward, Reason>, Halt> {
        grade(&self.inside, evaluate, bench).await
    }

    /// The agent's command; what the harness sets wins over the task's environment.
    fn agent_exec(&self, launch: Launch) -> Exec {
        let mut exec = self.inside.command(launch.argv, launch.timeout);
        exec.env.retain(|(name, _)| !launch.env.iter().any(|(set, _)| set == name));
        exec.env.extend(launch.env);
        exec.stdin = launch.stdin;
        exec.output_cap_bytes = limits::AGENT_OUTPUT_BYTES;
        exec
    }
}

#[cfg(test)]
mod tests;
