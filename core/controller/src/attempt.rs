//! What an attempt does inside its sandbox: set-up, agent, evaluation.
//!
//! Nothing here knows sessions. Commands of the set-up and the evaluation never get the key.

mod log;

use std::path::Path;
use std::time::Duration;

use rollgate_backends::{Exec, Exit, Sandbox};
use rollgate_harness::{AgentOutcome, Ended, Harness, Job, Launch, RESULT_BYTES};
use rollgate_pipeline::record::Reward;

use crate::limits;
use crate::outcome::{Outcome, Reason};
use crate::reach::BaseUrls;
use crate::reward::{self, REWARD_FILE_ENV};
use crate::runtime::{Cancel, Halt, Served, guard};
use crate::task::{Agent, Evaluate, Task};

/// A sandbox with a task in it.
pub struct Place<'a> {
    sandbox: &'a dyn Sandbox,
    task: &'a Task,
    /// The agent that works here.
    pub agent: &'a Agent,
    logs: &'a Path,
    cancel: &'a Cancel,
    workdir: String,
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
        let workdir = match &task.workdir {
            Some(dir) => under(sandbox.workdir(), dir),
            None => sandbox.workdir().to_owned(),
        };
        Self { sandbox, task, agent, logs, cancel, workdir }
    }

    /// Writes the task's files and runs its set-up.
    pub async fn prepare(&self) -> Result<(), Halt> {
        if self.task.workdir.is_some() {
            let argv = ["mkdir", "-p", "--", &self.workdir].map(str::to_owned).to_vec();
            let mut exec = self.command(argv, limits::SETUP);
            exec.cwd = None;
            self.must(exec, "workdir").await?;
        }
        for (path, text) in &self.task.files {
            self.put(&under(&self.workdir, path), text.as_bytes()).await?;
        }
        for (index, command) in self.task.setup.iter().enumerate() {
            let exec = self.command(command.argv(), limits::SETUP);
            self.must(exec, &format!("setup[{index}]")).await?;
        }
        Ok(())
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
            workdir: self.workdir.clone(),
            home: self.sandbox.home().to_owned(),
            rollgate: self.sandbox.rollgate().to_owned(),
            args: self.agent.args.clone(),
            timeout: self.agent.timeout(),
        }
    }

    /// The agent's version as it prints it; empty when it does not say. A pinned version that is
    /// not there is a failure.
    pub async fn version(&self, harness: &dyn Harness, job: &Job) -> Result<String, Halt> {
        let mut version = String::new();
        if let Some(argv) = harness.version_argv(job) {
            let exit = self.exec("version", self.command(argv, limits::VERSION)).await?;
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
        let launch = guard("launch", limits::FILE, self.cancel, described).await?;
        for file in &launch.files {
            self.put(&file.path, &file.contents).await?;
        }
        let result_file = launch.result_file.clone();
        let exit = self.exec("agent", self.agent_exec(launch)).await?;
        log::keep(self.logs, "agent", &exit).await;
        let result = match result_file {
            // What cannot be read is what the agent made of it: the harness judges.
            Some(path) => match self.get(&path, RESULT_BYTES).await {
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
        let judged = guard("judge", limits::FILE, self.cancel, judge).await?;
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
    pub async fn evaluate(&self, evaluate: &Evaluate) -> Result<Result<Reward, Reason>, Halt> {
        match self.graded(evaluate).await {
            Err(halt) if halt.outcome == Outcome::InfraFailed && self.lives().await => {
                Ok(Err(halt.reason))
            }
            other => other,
        }
    }

    /// Whether the sandbox still runs commands: then what failed in it is not the backend's fault.
    async fn lives(&self) -> bool {
        let mut exec = self.command(vec!["true".to_owned()], limits::FILE);
        exec.cwd = Some("/".to_owned());
        self.exec("alive", exec).await.is_ok_and(|exit| exit.code == Some(0))
    }

    async fn graded(&self, evaluate: &Evaluate) -> Result<Result<Reward, Reason>, Halt> {
        // A fresh name: no file of the agent can be taken for the evaluation's.
        let dir = format!("{}/rollgate-reward-{}", self.sandbox.home(), random_hex()?);
        self.put(&format!("{dir}/.keep"), b"").await?;
        let path = format!("{dir}/reward.json");
        let mut exec = self.command(evaluate.command.argv(), evaluate.timeout());
        exec.env.push((REWARD_FILE_ENV.to_owned(), path.clone()));
        let exit = self.exec("evaluate", exec).await?;
        log::keep(self.logs, "evaluate", &exit).await;
        let file = self.get(&path, limits::REWARD_BYTES).await?;
        Ok(reward::of(&exit, file.as_deref()))
    }

    /// A command with the task's environment.
    fn command(&self, argv: Vec<String>, timeout: Duration) -> Exec {
        Exec {
            argv,
            env: self.task.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            cwd: Some(self.workdir.clone()),
            stdin: None,
            timeout,
            output_cap_bytes: limits::COMMAND_OUTPUT_BYTES,
        }
    }

    /// The agent's command; what the harness sets wins over the task's environment.
    fn agent_exec(&self, launch: Launch) -> Exec {
        let mut exec = self.command(launch.argv, launch.timeout);
        exec.env.retain(|(name, _)| !launch.env.iter().any(|(set, _)| set == name));
        exec.env.extend(launch.env);
        exec.stdin = launch.stdin;
        exec.output_cap_bytes = limits::AGENT_OUTPUT_BYTES;
        exec
    }

    async fn must(&self, exec: Exec, what: &str) -> Result<(), Halt> {
        let exit = self.exec("setup", exec).await?;
        if exit.code == Some(0) && !exit.timed_out {
            return Ok(());
        }
        let (how, words) = (how(&exit), last_words(&exit));
        let message = format!("`{what}` {how}; its last words: {words:?}");
        Err(Halt::infra(Reason::new("setup", message)))
    }

    async fn exec(&self, step: &str, exec: Exec) -> Result<Exit, Halt> {
        let deadline = exec.timeout.saturating_add(limits::SLACK);
        let run = async { self.sandbox.exec(exec).await.map_err(|e| Reason::new(step, e)) };
        guard(step, deadline, self.cancel, run).await
    }

    async fn put(&self, path: &str, contents: &[u8]) -> Result<(), Halt> {
        let put =
            async { self.sandbox.put(path, contents).await.map_err(|e| Reason::new("files", e)) };
        guard("files", limits::FILE, self.cancel, put).await
    }

    async fn get(&self, path: &str, cap: usize) -> Result<Option<Vec<u8>>, Halt> {
        let get = async { self.sandbox.get(path, cap).await.map_err(|e| Reason::new("files", e)) };
        guard("files", limits::FILE, self.cancel, get).await
    }
}

fn under(dir: &str, path: &str) -> String {
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{}/{path}", dir.trim_end_matches('/'))
    }
}

fn how(exit: &Exit) -> String {
    match exit.code {
        _ if exit.timed_out => "did not end in time".to_owned(),
        Some(code) => format!("exited with {code}"),
        None => "was killed by a signal".to_owned(),
    }
}

/// The last line that was printed, complaints first.
fn last_words(exit: &Exit) -> String {
    let last = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        line.map(|line| line.trim().chars().take(300).collect::<String>())
    };
    last(&exit.stderr).or_else(|| last(&exit.stdout)).unwrap_or_default()
}

fn random_hex() -> Result<String, Halt> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|e| Halt::infra(Reason::new("random", e)))?;
    Ok(format!("{:032x}", u128::from_le_bytes(bits)))
}

#[cfg(test)]
mod tests;
