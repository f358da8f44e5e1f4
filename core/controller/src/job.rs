//! A job: tasks times n attempts into an out directory, with progress, to a summary.
//!
//! The [`Plan`] decides, the [`Runtime`] works, the [`Sink`] keeps. An attempt counts once its line
//! is written.

mod summary;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rollgate_backends::Backend;
use rollgate_harness::{Harness, HarnessError};
use rollgate_shards::Gate;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::limits;
use crate::outcome::Reason;
use crate::plan::{Command, Event, Plan, Policy, Slot, Try};
use crate::programs::Programs;
use crate::reach::BaseUrls;
use crate::runtime::{Ask, Cancel, Report, Runtime, Served};
use crate::sink::{AttemptLine, RunSettings, Sink, SinkError};
use crate::task::{Agent, Task};

pub use summary::{Failure, Summary};

/// What a job is.
pub struct Job {
    /// The tasks; ids are unique.
    pub tasks: Vec<Task>,
    /// Attempts per task.
    pub n: u32,
    /// The agent of tasks that name none.
    pub agent: Agent,
    /// Finds harnesses: [`rollgate_harness::by_name`].
    pub harnesses: fn(&str) -> Result<Box<dyn Harness>, HarnessError>,
    /// Where sandboxes are made.
    pub backend: Arc<dyn Backend>,
    /// What agents are served.
    pub served: Served,
    /// Programs of agents that are not on PATH.
    pub programs: Programs,
    /// Where sandboxes of this backend find the gateway; `None`: at the gate's address.
    pub urls: Option<BaseUrls>,
    /// Concurrency and retries.
    pub policy: Policy,
    /// The out directory.
    pub out: PathBuf,
    /// What the run is started with.
    pub run: RunSettings,
}

/// What may be told to a running job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Control {
    /// Go on.
    #[default]
    Run,
    /// Start nothing more; let what runs end.
    Drain,
    /// Start nothing more; cancel what runs.
    Abort,
}

/// What a job tells while it runs.
#[derive(Debug)]
pub enum Progress<'a> {
    /// How much there is to do: attempts in all, and those settled by an earlier run.
    Planned {
        /// In all.
        attempts: usize,
        /// Settled earlier.
        settled: usize,
    },
    /// A try began.
    Started {
        /// `TASK_ID.ATTEMPT`.
        attempt_id: &'a str,
        /// How often it was tried before.
        retry: u32,
    },
    /// A try failed for reasons outside it; another follows.
    Retrying {
        /// `TASK_ID.ATTEMPT`.
        attempt_id: &'a str,
        /// Why it failed.
        reason: Option<&'a Reason>,
    },
    /// An attempt ended, and its line is written.
    Ended(&'a AttemptLine),
    /// The job stops by itself.
    Stopping(&'a str),
}

/// Why a job cannot be run or go on.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The job makes no sense as it is given.
    #[error("{0}")]
    Wrong(String),
    /// The out directory.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// Runs a job to its end. `control` may drain or abort it; `progress` is called in order.
pub async fn run(
    job: Job,
    gate: Gate,
    mut control: watch::Receiver<Control>,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<Summary, JobError> {
    control.mark_changed();
    let mut running = Running::new(job, gate, progress).await?;
    match running.drive(&mut control).await {
        Ok(()) => running.finish().await,
        Err(error) => {
            running.unwind().await;
            Err(error)
        }
    }
}

/// The next thing that is told; never, once nobody can.
async fn told(control: &mut watch::Receiver<Control>) -> Control {
    match control.changed().await {
        Ok(()) => *control.borrow_and_update(),
        Err(_) => std::future::pending().await,
    }
}

struct Running<'p> {
    tasks: Vec<Arc<Task>>,
    agent: Agent,
    harnesses: HashMap<String, Arc<dyn Harness>>,
    runtime: Arc<Runtime>,
    sink: Arc<Mutex<Sink>>,
    plan: Plan,
    attempts: JoinSet<(Slot, Report)>,
    /// Ends with the job.
    _background: JoinSet<()>,
    slots: HashMap<tokio::task::Id, Slot>,
    cancels: HashMap<Slot, watch::Sender<bool>>,
    last: HashMap<Slot, Report>,
    earlier: HashMap<Slot, Vec<Reason>>,
    summary: Summary,
    progress: &'p mut (dyn FnMut(Progress<'_>) + Send),
}

impl<'p> Running<'p> {
    async fn new(
        job: Job,
        gate: Gate,
        progress: &'p mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Self, JobError> {
        let harnesses = harnesses(&job)?;
        let (out, run) = (job.out.clone(), job.run.clone());
        let sink = blocking(move || Sink::open(&out, &run)).await?;
        let (mut slots, mut attempts) = (Vec::new(), 0);
        for (task, about) in job.tasks.iter().enumerate() {
            for attempt in 0..job.n {
                attempts += 1;
                if !sink.is_settled(&attempt_id(about, attempt)) {
                    slots.push(Slot { task, attempt });
                }
            }
        }
        let settled = attempts - slots.len();
        progress(Progress::Planned { attempts, settled });
        let mut background = JoinSet::new();
        background.spawn(sweeps(job.backend.clone()));
        let urls = job.urls.unwrap_or_else(|| BaseUrls::new(None, gate.agents_addr()));
        let runtime = Runtime::new(gate, job.backend, job.served, urls, job.programs, job.n);
        Ok(Self {
            tasks: job.tasks.into_iter().map(Arc::new).collect(),
            agent: job.agent,
            harnesses,
            runtime: Arc::new(runtime),
            sink: Arc::new(Mutex::new(sink)),
            plan: Plan::new(job.policy, slots),
            attempts: JoinSet::new(),
            _background: background,
            slots: HashMap::new(),
            cancels: HashMap::new(),
            last: HashMap::new(),
            earlier: HashMap::new(),
            summary: Summary::planned(attempts, settled),
            progress,
        })
    }

    async fn drive(&mut self, control: &mut watch::Receiver<Control>) -> Result<(), JobError> {
        if *control.borrow() != Control::Run {
            self.step(Event::Drain).await?;
        }
        self.step(Event::Begin).await?;
        while !self.attempts.is_empty() {
            let event = tokio::select! {
                biased;
                told = told(control) => match told {
                    Control::Run => continue,
                    Control::Drain => Event::Drain,
                    Control::Abort => Event::Abort,
                },
                Some(ended) = self.attempts.join_next() => self.ended(ended),
            };
            self.step(event).await?;
        }
        Ok(())
    }

    /// Cancels what runs and waits until all of it is cleaned up.
    async fn unwind(&mut self) {
        for cancel in self.cancels.values() {
            cancel.send_replace(true);
        }
        while self.attempts.join_next().await.is_some() {}
    }

    async fn finish(mut self) -> Result<Summary, JobError> {
        let sink = self.sink.clone();
        blocking(move || lock(&sink).finish()).await?;
        self.summary.not_started = self.plan.waiting() as u64;
        Ok(self.summary.finish())
    }

    async fn step(&mut self, event: Event) -> Result<(), JobError> {
        for command in self.plan.step(event) {
            match command {
                Command::Start(tried) => self.start(tried)?,
                Command::Retry(slot) => self.retry(slot),
                Command::Accept(slot) => self.accept(slot).await?,
                Command::Cancel(slot) => {
                    if let Some(cancel) = self.cancels.get(&slot) {
                        cancel.send_replace(true);
                    }
                }
                Command::Stop(why) => {
                    (self.progress)(Progress::Stopping(&why));
                    self.summary.stopped = Some(why);
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, tried: Try) -> Result<(), JobError> {
        let task = self.tasks[tried.slot.task].clone();
        let agent = task.agent.clone().unwrap_or_else(|| self.agent.clone());
        let harness = self.harnesses.get(&agent.name).cloned();
        let harness =
            harness.ok_or_else(|| JobError::Wrong(format!("no agent `{}`", agent.name)))?;
        let attempt_id = attempt_id(&task, tried.slot.attempt);
        let logs = lock(&self.sink).logs(&attempt_id, tried.retry);
        (self.progress)(Progress::Started { attempt_id: &attempt_id, retry: tried.retry });
        if let Some(failed) = self.last.remove(&tried.slot) {
            self.earlier.entry(tried.slot).or_default().extend(failed.reason);
        }
        let (cancel, cancelled) = watch::channel(false);
        self.cancels.insert(tried.slot, cancel);
        let ask = Ask { task, agent, harness, attempt_id, tried, logs };
        let runtime = self.runtime.clone();
        let started = self.attempts.spawn(async move {
            let report = runtime.attempt(&ask, Cancel::when(cancelled)).await;
            (tried.slot, report)
        });
        self.slots.insert(started.id(), tried.slot);
        Ok(())
    }

    fn ended(&mut self, ended: Result<(Slot, Report), tokio::task::JoinError>) -> Event {
        let (slot, report) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                // The attempt's own code panicked outside every guarded step.
                let slot = self.slots.get(&error.id()).copied();
                let slot = slot.unwrap_or(Slot { task: usize::MAX, attempt: 0 });
                (slot, Report::broken(Reason::new("attempt_panic", error)))
            }
        };
        self.slots.retain(|_, running| *running != slot);
        self.cancels.remove(&slot);
        let (outcome, reason) = (report.outcome, report.reason.as_ref());
        let reason = reason.map(|reason| reason.code.clone());
        self.last.insert(slot, report);
        Event::Ended { slot, outcome, reason }
    }

    fn retry(&mut self, slot: Slot) {
        let reason = self.last.get(&slot).and_then(|report| report.reason.clone());
        let attempt_id = attempt_id(&self.tasks[slot.task], slot.attempt);
        self.summary.retries += 1;
        let told = Progress::Retrying { attempt_id: &attempt_id, reason: reason.as_ref() };
        (self.progress)(told);
    }

    async fn accept(&mut self, slot: Slot) -> Result<(), JobError> {
        let Some(mut report) = self.last.remove(&slot) else { return Ok(()) };
        let earlier = self.earlier.remove(&slot).unwrap_or_default();
        let samples = std::mem::take(&mut report.samples);
        let mut line = line(&self.tasks[slot.task], slot.attempt, report, earlier);
        for reason in samples.iter().flat_map(|sample| sample.health.reasons()) {
            *line.unhealthy.entry(reason.clone()).or_default() += 1;
        }
        let sink = self.sink.clone();
        let line = blocking(move || {
            lock(&sink).accept(&mut line, samples)?;
            Ok(line)
        })
        .await?;
        self.summary.add(&line);
        (self.progress)(Progress::Ended(&line));
        Ok(())
    }
}

fn lock(sink: &Mutex<Sink>) -> std::sync::MutexGuard<'_, Sink> {
    sink.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of an attempt.
pub fn attempt_id(task: &Task, attempt: u32) -> String {
    format!("{}.{attempt}", task.task_id)
}

/// Every harness that the job needs; a name that has none is told before anything is started.
fn harnesses(job: &Job) -> Result<HashMap<String, Arc<dyn Harness>>, JobError> {
    let mut found: HashMap<String, Arc<dyn Harness>> = HashMap::new();
    for task in &job.tasks {
        let name = &task.agent.as_ref().unwrap_or(&job.agent).name;
        if !found.contains_key(name) {
            let harness = (job.harnesses)(name)
                .map_err(|e| JobError::Wrong(format!("task `{}`: {e}", task.task_id)))?;
            found.insert(name.clone(), Arc::from(harness));
        }
    }
    if job.n == 0 || found.is_empty() {
        return Err(JobError::Wrong("there is nothing to do: no tasks, or n is 0".to_owned()));
    }
    Ok(found)
}

/// Sweeps at once, then now and then.
async fn sweeps(backend: Arc<dyn Backend>) {
    let mut every = tokio::time::interval(limits::SWEEP_EVERY);
    loop {
        every.tick().await;
        sweep(backend.as_ref()).await;
    }
}

/// Removes what earlier runs left behind. A failure costs nothing: it is told.
async fn sweep(backend: &dyn Backend) {
    match tokio::time::timeout(limits::SANDBOX, backend.sweep()).await {
        Ok(Ok(0)) => {}
        Ok(Ok(count)) => tracing::info!(count, "removed sandboxes that nobody owns"),
        Ok(Err(error)) => tracing::warn!("cannot look for left-over sandboxes: {error}"),
        Err(_) => tracing::warn!("looking for left-over sandboxes takes too long"),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SinkError> + Send + 'static,
) -> Result<T, JobError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(error) => Err(JobError::Wrong(format!("a bug in Rollgate: {error}"))),
    }
}

fn line(task: &Task, attempt: u32, report: Report, earlier: Vec<Reason>) -> AttemptLine {
    let reward = report
        .reward
        .unwrap_or(rollgate_pipeline::record::Reward { reward: None, parts: BTreeMap::new() });
    AttemptLine {
        attempt_id: attempt_id(task, attempt),
        task_id: task.task_id.clone(),
        group_id: task.task_id.clone(),
        attempt,
        outcome: report.outcome,
        reason: report.reason,
        reward: reward.reward,
        reward_parts: reward.parts,
        agent: report.agent,
        session_id: report.session_id,
        turns: report.turns,
        scenes: report.scenes,
        sampled_tokens: report.sampled_tokens,
        earlier,
        started_at_ms: report.started_at_ms,
        took_ms: report.stages.took_ms,
        samples: Vec::new(),
        unhealthy: BTreeMap::new(),
        samples_end: None,
    }
}
