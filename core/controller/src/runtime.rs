//! The runtime: carries one attempt from session to samples.
//!
//! `session -> sandbox -> files, set-up -> agent -> evaluation -> reward -> seal -> samples`. Every
//! step has a deadline and is cut short by a cancellation; errors and panics become outcomes. What
//! was made is always unmade: the sandbox is destroyed, the session is sealed.

mod collect;
mod guard;
mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rollgate_backends::{Backend, Sandbox, Spec};
use rollgate_harness::Harness;
use rollgate_pipeline::exchange::SessionState;
use rollgate_pipeline::id::SessionId;
use rollgate_pipeline::record::{Budget, SessionOptions};
use rollgate_shards::{CommandError, Created, Gate};
use tokio::sync::Semaphore;

use crate::attempt::about::{About, Ended};
use crate::attempt::{Place, Ran};
use crate::evaluate::Bench;
use crate::hooks::{Hook, Hooks};
use crate::limits;
use crate::outcome::{Outcome, Reason};
use crate::plan::Try;
use crate::programs::Programs;
use crate::reach::BaseUrls;
use crate::task::{Agent, Task};

pub use guard::{Cancel, Halt, guard};
pub use report::{Report, Stages};

/// What attempts need and share.
pub struct Runtime {
    /// The data plane.
    pub gate: Gate,
    /// Where sandboxes are made.
    pub backend: Arc<dyn Backend>,
    /// What agents are served.
    pub served: Served,
    /// Where sandboxes of this backend find the gateway.
    pub urls: BaseUrls,
    /// Programs of agents that are not on PATH.
    pub programs: Programs,
    /// Who owns the sandboxes: this run.
    pub owner: String,
    /// Attempts per task.
    pub siblings: u32,
    /// Hooks of all attempts, before the task's own.
    pub hooks: Vec<Hook>,
    /// Names with versions by agent and the program that was asked.
    versions: Mutex<BTreeMap<(String, String), String>>,
    collects: Semaphore,
}

/// What agents are told of the served model.
#[derive(Clone, Debug)]
pub struct Served {
    /// Its name.
    pub model: String,
    /// Tokens of its context.
    pub max_context: u32,
}

/// One attempt to be made.
pub struct Ask {
    /// The task.
    pub task: Arc<Task>,
    /// Its agent.
    pub agent: Agent,
    /// How that agent is started.
    pub harness: Arc<dyn Harness>,
    /// `TASK_ID.ATTEMPT`.
    pub attempt_id: String,
    /// Which slot and try.
    pub tried: Try,
    /// Where logs go.
    pub logs: PathBuf,
}

impl Runtime {
    /// A runtime for a job of groups of `siblings` attempts.
    pub fn new(
        gate: Gate,
        backend: Arc<dyn Backend>,
        served: Served,
        urls: BaseUrls,
        programs: Programs,
        siblings: u32,
    ) -> Self {
        Self {
            gate,
            backend,
            served,
            urls,
            programs,
            owner: format!("run-{}", std::process::id()),
            siblings,
            hooks: Vec::new(),
            versions: Mutex::default(),
            collects: Semaphore::new(limits::COLLECTS),
        }
    }

    /// Makes one attempt. Never fails: how it went is in the report.
    pub async fn attempt(&self, ask: &Ask, cancel: Cancel) -> Report {
        let mut report = Report::begin(&ask.agent.name);
        let options = SessionOptions {
            agent: Some(ask.agent.name.clone()),
            sampling: ask.task.sampling.clone(),
            limits: ask.task.limits.clone(),
            history: ask.task.history,
            retention: ask.task.retention,
            rules: ask.task.rules.clone(),
            scenes: ask.task.scenes.clone(),
            metadata: ask.task.metadata.clone(),
        };
        let create = patient(|| self.gate.create(options.clone()));
        let created = guard("session", limits::SESSION, &cancel, create).await;
        report.stages.end("session");
        let created = match created {
            Ok(created) => created,
            Err(halt) => return report.halted(halt),
        };
        report.session_id = Some(created.session_id.to_string());
        let run = self.in_sandbox(ask, &created, &cancel, &mut report).await;
        report.settle(run);
        self.seal(&created.session_id, &mut report).await;
        report.stages.end("seal");
        self.collect(ask, &created.session_id, &mut report).await;
        report.stages.end("collect");
        report
    }

    /// Makes a sandbox, works in it, and destroys it in every case.
    async fn in_sandbox(
        &self,
        ask: &Ask,
        created: &Created,
        cancel: &Cancel,
        report: &mut Report,
    ) -> Result<Graded, Halt> {
        let around = (ask.logs.as_path(), cancel);
        let mut hooks = Hooks::new(&self.hooks, &ask.task, about(ask, created), around);
        let sandbox = self.sandbox(ask, cancel).await;
        report.stages.end("sandbox");
        let sandbox = match sandbox {
            Ok(sandbox) => sandbox,
            Err(halt) => {
                hooks.on_error(None, &Ended::new(halt.outcome, Some(&halt.reason), None)).await;
                return Err(halt);
            }
        };
        let run = self.work(ask, created, (sandbox.as_ref(), &mut hooks), cancel, report).await;
        hooks.on_error(Some(sandbox.as_ref()), &told(&run)).await;
        report.stages.end("on_error");
        let destroy = async { sandbox.destroy().await.map_err(|e| Reason::new("destroy", e)) };
        if let Err(halt) = guard("destroy", limits::DESTROY, &Cancel::never(), destroy).await {
            tracing::warn!(sandbox = sandbox.id(), "not destroyed, left to the sweep: {halt}");
        }
        report.stages.end("destroy");
        run
    }

    /// What its sandbox is made of.
    fn spec(&self, ask: &Ask) -> Spec {
        let unique = match ask.tried.retry {
            0 => ask.attempt_id.clone(),
            retry => format!("{}.retry-{retry}", ask.attempt_id),
        };
        let mut spec = Spec::new(unique, self.owner.clone());
        ask.task.shape(&mut spec);
        spec.ttl = spec.ttl.max(ask.task.longest(&ask.agent));
        spec
    }

    /// A sandbox that is made too late is destroyed as soon as it is there.
    async fn sandbox(&self, ask: &Ask, cancel: &Cancel) -> Result<Box<dyn Sandbox>, Halt> {
        let spec = self.spec(ask);
        let backend = self.backend.clone();
        let mut making = tokio::spawn(async move { backend.create(&spec).await });
        let made = async {
            match (&mut making).await {
                Ok(made) => made.map_err(|e| Reason::new("sandbox", e)),
                Err(e) => Err(Reason::new("sandbox_panic", e)),
            }
        };
        let made = guard("sandbox", limits::SANDBOX, cancel, made).await;
        if made.is_err() && !making.is_finished() {
            tokio::spawn(async move {
                if let Ok(Ok(late)) = making.await
                    && let Err(error) = late.destroy().await
                {
                    tracing::warn!(sandbox = late.id(), "not destroyed: {error}");
                }
            });
        }
        made
    }

    async fn work(
        &self,
        ask: &Ask,
        created: &Created,
        (sandbox, hooks): (&dyn Sandbox, &mut Hooks<'_>),
        cancel: &Cancel,
        report: &mut Report,
    ) -> Result<Graded, Halt> {
        let mut place = Place::new(sandbox, &ask.task, &ask.agent, &ask.logs, cancel);
        place.prepare().await?;
        report.stages.end("setup");
        let harness = ask.harness.as_ref();
        let program = self.programs.of(&ask.agent, harness);
        let job = place.job(&self.urls, created.key.expose(), &self.served, program);
        report.agent = self.agent(&place, harness, &job).await?;
        report.stages.end("version");
        place.before_run(hooks).await?;
        report.stages.end("before_run");
        let ran = place.run(harness, &job).await?;
        report.stages.end("agent");
        let state = patient(|| self.gate.describe(&created.session_id));
        let state = guard("session", limits::SESSION, cancel, state).await?;
        report.seen(&state);
        if let (0, Some(fault)) = (state.turns, state.last_fault) {
            let what = format_args!(
                "the agent called the model, but no call was answered; the last failed with {fault} \
                 (the log has the text of each)"
            );
            return Err(Halt::infra(Reason::new(fault, what)));
        }
        if state.turns == 0 {
            return Err(Halt::infra(ran.no_model_call(&job.openai_base_url)));
        }
        if let (true, Some(fault)) = (ran.outcome != Outcome::Done, state.last_fault) {
            // The agent ended because it got no answer: that says nothing about the agent.
            let what = format_args!("the agent ended after a model call failed with {fault}");
            return Err(Halt::infra(Reason::new(fault, what)));
        }
        let (outcome, reason) = judged(ran, &state, &ask.task.limits);
        place.after_run(hooks, outcome, reason.as_ref()).await?;
        report.stages.end("after_run");
        let mut graded = Graded { outcome, reason, reward: None };
        if let Some(evaluate) = &ask.task.evaluate {
            let bench = Bench {
                about: &hooks.about().clone(),
                outcome,
                task: &ask.task,
                logs: &ask.logs,
                backend: &self.backend,
                spec: &self.spec(ask),
            };
            match place.evaluate(evaluate, &bench).await? {
                Ok(reward) => graded.reward = Some(reward),
                Err(why) => {
                    graded.outcome = Outcome::VerifierFailed;
                    graded.reason = Some(why);
                }
            }
            report.stages.end("evaluate");
        }
        if graded.outcome.rewardable() {
            graded.reward = hooks.rewarded(graded.reward);
        }
        hooks.notify(&graded.ended()).await?;
        report.stages.end("notify");
        Ok(graded)
    }

    /// The agent's name and version. Asked once per agent, or each time where a task pins it.
    async fn agent(
        &self,
        place: &Place<'_>,
        harness: &dyn Harness,
        job: &rollgate_harness::Job,
    ) -> Result<String, Halt> {
        let lock = || self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &place.agent.name;
        // What is asked for its version is what will be started.
        let asked = harness.version_argv(job).and_then(|argv| argv.into_iter().next());
        let started = (name.clone(), asked.unwrap_or_default());
        let known = lock().get(&started).cloned();
        if let (None, Some(known)) = (&place.agent.version, known) {
            return Ok(known);
        }
        let version = place.version(harness, job).await?;
        let full = format!("{name} {version}").trim_end().to_owned();
        lock().insert(started, full.clone());
        Ok(full)
    }

    /// Hands in the reward and seals the session, also after a failure or a cancellation.
    async fn seal(&self, id: &SessionId, report: &mut Report) {
        let never = Cancel::never();
        if let Some(reward) = report.reward.clone() {
            let command = patient(|| self.gate.reward(id, reward.clone()));
            if let Err(halt) = guard("reward", limits::SESSION, &never, command).await {
                report.fail(halt);
            }
        }
        let close = patient(|| self.gate.close(id));
        match guard("close", limits::CLOSE, &never, close).await {
            Ok(state) => report.seen(&state),
            Err(halt) => report.fail(halt),
        }
    }
}

/// How an attempt that ran to its end is judged.
pub struct Graded {
    outcome: Outcome,
    reason: Option<Reason>,
    reward: Option<rollgate_pipeline::record::Reward>,
}

impl Graded {
    fn ended(&self) -> Ended {
        Ended::new(self.outcome, self.reason.as_ref(), self.reward.as_ref())
    }
}

/// What hooks are told of a run.
fn told(run: &Result<Graded, Halt>) -> Ended {
    match run {
        Ok(graded) => graded.ended(),
        Err(halt) => Ended::new(halt.outcome, Some(&halt.reason), None),
    }
}

fn about(ask: &Ask, created: &Created) -> About {
    About {
        task_id: ask.task.task_id.clone(),
        attempt_id: ask.attempt_id.clone(),
        attempt: ask.tried.slot.attempt,
        retry: ask.tried.retry,
        agent: ask.agent.name.clone(),
        session_id: created.session_id.to_string(),
    }
}

/// An agent that did not get done because its session was used up is not a failed one.
fn judged(ran: Ran, state: &SessionState, limits: &Budget) -> (Outcome, Option<Reason>) {
    let turns = limits.turns.is_some_and(|most| state.turns >= most);
    let tokens = limits.tokens.is_some_and(|most| state.sampled_tokens >= most);
    if ran.outcome != Outcome::Done && (turns || tokens) {
        let what = if turns { "turns" } else { "tokens" };
        let reason = Reason::new("budget", format_args!("the session's {what} are used up"));
        return (Outcome::Budget, Some(reason));
    }
    (ran.outcome, ran.reason)
}

/// A command to the data plane, sent again while its queue is full. The caller sets the deadline.
async fn patient<T, F>(mut send: impl FnMut() -> F) -> Result<T, Reason>
where
    F: Future<Output = Result<T, CommandError>>,
{
    loop {
        match send().await {
            Ok(answer) => return Ok(answer),
            Err(CommandError::Busy) => tokio::time::sleep(limits::BUSY_PAUSE).await,
            Err(error) => return Err(Reason::new("gateway", error)),
        }
    }
}
