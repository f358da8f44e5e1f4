//! A job while it runs: carries out what the plan says, and tells it what happened.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rollgate_backends::Backend;
use rollgate_harness::Harness;
use rollgate_shards::Gate;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::line::line;
use super::{Control, Job, JobError, Progress, Summary, Unwanted, attempt_id, background};
use crate::limits;
use crate::outcome::Reason;
use crate::plan::{Command, Event, Plan, Scope, Slot, Tick, Try, Wanted, Why};
use crate::pool::{Pool, watermark};
use crate::reach::BaseUrls;
use crate::runtime::{Ask, Cancel, Report, Runtime, UNREACHABLE, life};
use crate::sink::{Sink, SinkError};
use crate::task::{Agent, Task};

/// What attempts and machine tell the job.
#[derive(Debug)]
pub(super) enum News {
    /// A try has its sandbox.
    Up(Try),
    /// Something has run full, or no longer has.
    Full(Option<String>),
}

pub(super) struct Running<'p> {
    tasks: Vec<Arc<Task>>,
    agent: Agent,
    harnesses: HashMap<String, Arc<dyn Harness>>,
    runtime: Arc<Runtime>,
    sink: Arc<Mutex<Sink>>,
    plan: Plan,
    begun: Instant,
    wake: Option<Instant>,
    attempts: JoinSet<(Try, Report)>,
    backend: Arc<dyn Backend>,
    /// Ends with the job.
    background: JoinSet<()>,
    news: (mpsc::Sender<News>, mpsc::Receiver<News>),
    cancels: Option<mpsc::Receiver<Unwanted>>,
    tries: HashMap<tokio::task::Id, Try>,
    cancelling: HashMap<Slot, watch::Sender<Option<Why>>>,
    last: HashMap<Slot, Report>,
    earlier: HashMap<Slot, Vec<Reason>>,
    summary: Summary,
    progress: &'p mut (dyn FnMut(Progress<'_>) + Send),
}

impl<'p> Running<'p> {
    pub(super) async fn new(
        job: Job,
        gate: Gate,
        progress: &'p mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Self, JobError> {
        let harnesses = harnesses(&job)?;
        preflight(&job).await?;
        let (out, run) = (job.out.clone(), job.run.clone());
        let sink = blocking(move || Sink::open(&out, &run)).await?;
        let wanted: Vec<Wanted> = job.tasks.iter().map(|task| wanted(&job, task, &sink)).collect();
        let attempts = job.tasks.len() * job.n as usize;
        let settled: usize = wanted.iter().map(|group| group.settled.len()).sum();
        let plan = Plan::new(job.policy.clone(), wanted.clone()).map_err(|unfit| {
            let task = &job.tasks[unfit.slot.task].task_id;
            JobError::Wrong(format!("task `{task}`: {unfit}"))
        })?;
        progress(Progress::Planned { attempts, settled });
        let pool = Pool::new(job.backend.clone(), job.pool, &job.sandboxes.owner);
        for (task, group) in job.tasks.iter().zip(&wanted) {
            let agent = task.agent.as_ref().unwrap_or(&job.agent);
            let harness = harnesses.get(&agent.name);
            let program = harness.and_then(|harness| job.programs.of(agent, harness.as_ref()));
            let spec = job.sandboxes.kind(task, agent, program, task.task_id.clone());
            pool.expect(&spec, group.attempts as usize - group.settled.len());
        }
        let news = mpsc::channel(limits::NEWS);
        let background =
            background::start(job.backend.clone(), pool.clone(), job.watch, news.0.clone());
        let urls = job.urls.unwrap_or_else(|| BaseUrls::new(None, gate.agents_addr()));
        let sandboxes = (pool, job.sandboxes);
        let mut runtime = Runtime::new(gate, sandboxes, (job.served, urls), job.programs, job.n);
        runtime.hooks = job.hooks;
        Ok(Self {
            tasks: job.tasks.into_iter().map(Arc::new).collect(),
            agent: job.agent,
            harnesses,
            runtime: Arc::new(runtime),
            sink: Arc::new(Mutex::new(sink)),
            plan,
            begun: Instant::now(),
            wake: None,
            attempts: JoinSet::new(),
            backend: job.backend,
            background,
            news,
            cancels: job.cancels,
            tries: HashMap::new(),
            cancelling: HashMap::new(),
            last: HashMap::new(),
            earlier: HashMap::new(),
            summary: Summary::planned(attempts, settled),
            progress,
        })
    }

    pub(super) async fn drive(
        &mut self,
        control: &mut watch::Receiver<Control>,
    ) -> Result<(), JobError> {
        if *control.borrow() != Control::Run {
            self.step(Event::Drain).await?;
        }
        self.step(Event::Begin).await?;
        while !self.plan.done() {
            let event = tokio::select! {
                biased;
                told = told(control) => match told {
                    Control::Run => continue,
                    Control::Drain => Event::Drain,
                    Control::Abort => Event::Abort,
                },
                Some(unwanted) = received(&mut self.cancels) => match self.scope(&unwanted) {
                    Some(scope) => Event::Cancel(scope),
                    None => continue,
                },
                Some(news) = self.news.1.recv() => self.heard(news),
                Some(ended) = self.attempts.join_next() => self.ended(ended)?,
                () = until(self.wake) => {
                    self.wake = None;
                    Event::Tick
                }
            };
            self.step(event).await?;
        }
        Ok(())
    }

    /// Cancels what runs and waits until all of it is cleaned up.
    pub(super) async fn unwind(&mut self) {
        for cancel in self.cancelling.values() {
            cancel.send_replace(Some(Why::Asked));
        }
        while self.attempts.join_next().await.is_some() {}
        self.clean_up().await;
    }

    /// Leaves nothing behind, of this run and of earlier ones.
    async fn clean_up(&mut self) {
        self.background.shutdown().await;
        self.runtime.pool.close().await;
        background::sweep(self.backend.as_ref()).await;
    }

    pub(super) async fn finish(mut self) -> Result<Summary, JobError> {
        self.clean_up().await;
        let sink = self.sink.clone();
        blocking(move || lock(&sink).finish()).await?;
        self.summary.not_started += self.plan.waiting() as u64;
        self.summary.sandboxes = self.runtime.pool.counts();
        self.summary.took_ms = self.begun.elapsed().as_millis() as u64;
        Ok(self.summary.finish())
    }

    async fn step(&mut self, event: Event) -> Result<(), JobError> {
        let now = Tick(self.begun.elapsed().as_millis() as u64);
        for command in self.plan.step(now, event) {
            match command {
                Command::Start(tried) => self.start(tried)?,
                Command::Retry(slot, _) => self.retry(slot),
                Command::Accept(slot) => self.accept(slot).await?,
                Command::Forget(slot) => {
                    let attempt_id = self.attempt_id(slot);
                    self.summary.not_started += 1;
                    (self.progress)(Progress::Forgotten { attempt_id: &attempt_id });
                }
                Command::Cancel(slot, why) => {
                    if let Some(cancel) = self.cancelling.get(&slot) {
                        cancel.send_replace(Some(why));
                    }
                }
                Command::Complete(group) => {
                    self.summary.group(group);
                    let task_id = &self.tasks[group.task].task_id;
                    (self.progress)(Progress::Group { task_id, group });
                }
                // Half a millisecond more, since elapsed time is cut to whole ones.
                Command::Wake(at) => {
                    let after = Duration::from_millis(at.0) + Duration::from_micros(500);
                    self.wake = self.begun.checked_add(after);
                }
                Command::Stop(why) => {
                    (self.progress)(Progress::Stopping(&why));
                    self.summary.stopped = Some(why);
                }
            }
        }
        Ok(())
    }

    fn attempt_id(&self, slot: Slot) -> String {
        attempt_id(&self.tasks[slot.task], slot.attempt)
    }

    fn start(&mut self, tried: Try) -> Result<(), JobError> {
        let task = self.tasks[tried.slot.task].clone();
        let agent = task.agent.clone().unwrap_or_else(|| self.agent.clone());
        let harness = self.harnesses.get(&agent.name).cloned();
        let harness =
            harness.ok_or_else(|| JobError::Wrong(format!("no agent `{}`", agent.name)))?;
        let attempt_id = self.attempt_id(tried.slot);
        let logs = lock(&self.sink).logs(&attempt_id, tried.retry);
        (self.progress)(Progress::Started { attempt_id: &attempt_id, retry: tried.retry });
        if let Some(failed) = self.last.remove(&tried.slot) {
            self.earlier.entry(tried.slot).or_default().extend(failed.reason);
        }
        let (cancel, cancelled) = watch::channel(None);
        self.cancelling.insert(tried.slot, cancel);
        let ask = Ask { task, agent, harness, attempt_id, tried, logs };
        let (runtime, news) = (self.runtime.clone(), self.news.0.clone());
        let started = self.attempts.spawn(async move {
            // A full queue only means that the job hears later that a place is free.
            let up = move || drop(news.try_send(News::Up(tried)));
            let report = runtime.attempt(&ask, Cancel::when(cancelled), &up).await;
            (tried, report)
        });
        self.tries.insert(started.id(), tried);
        Ok(())
    }

    fn heard(&mut self, news: News) -> Event {
        match news {
            News::Up(tried) => Event::Up(tried),
            News::Full(full) => {
                (self.progress)(Progress::Held(full.as_deref()));
                full.map_or(Event::Release, Event::Hold)
            }
        }
    }

    fn scope(&self, unwanted: &Unwanted) -> Option<Scope> {
        let task_of = |id: &str| self.tasks.iter().position(|task| task.task_id == id);
        match unwanted {
            Unwanted::Group(id) => task_of(id).map(Scope::Group),
            Unwanted::Attempt(id) => {
                let (task, attempt) = id.rsplit_once('.')?;
                let (task, attempt) = (task_of(task)?, attempt.parse().ok()?);
                Some(Scope::Attempt(Slot { task, attempt }))
            }
        }
    }

    fn ended(
        &mut self,
        ended: Result<(Try, Report), tokio::task::JoinError>,
    ) -> Result<Event, JobError> {
        let (tried, report) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                // The attempt's own code panicked outside every guarded step.
                let tried = self.tries.get(&error.id()).copied();
                let nobody = Try { slot: Slot { task: usize::MAX, attempt: 0 }, retry: 0 };
                let report = Report::broken(Reason::new("attempt_panic", error));
                (tried.unwrap_or(nobody), report)
            }
        };
        self.tries.retain(|_, running| *running != tried);
        self.cancelling.remove(&tried.slot);
        let (outcome, tokens) = (report.outcome, report.sampled_tokens);
        if let Some(reason) = report.reason.as_ref().filter(|why| why.code == UNREACHABLE) {
            return Err(JobError::Surroundings(reason.message.clone()));
        }
        let reason = report.reason.as_ref().map(|reason| reason.code.clone());
        self.last.insert(tried.slot, report);
        Ok(Event::Ended { tried, outcome, reason, tokens })
    }

    fn retry(&mut self, slot: Slot) {
        let reason = self.last.get(&slot).and_then(|report| report.reason.clone());
        let attempt_id = self.attempt_id(slot);
        self.summary.retries += 1;
        let told = Progress::Retrying { attempt_id: &attempt_id, reason: reason.as_ref() };
        (self.progress)(told);
    }

    async fn accept(&mut self, slot: Slot) -> Result<(), JobError> {
        let Some(mut report) = self.last.remove(&slot) else { return Ok(()) };
        let earlier = self.earlier.remove(&slot).unwrap_or_default();
        let samples = std::mem::take(&mut report.samples);
        let mut line = line(&self.tasks[slot.task], slot.attempt, report, earlier);
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

/// The next thing that is told; never, once nobody can.
async fn told(control: &mut watch::Receiver<Control>) -> Control {
    match control.changed().await {
        Ok(()) => *control.borrow_and_update(),
        Err(_) => std::future::pending().await,
    }
}

/// The next wish; never, where there are none.
async fn received(cancels: &mut Option<mpsc::Receiver<Unwanted>>) -> Option<Unwanted> {
    match cancels {
        Some(cancels) => match cancels.recv().await {
            Some(unwanted) => Some(unwanted),
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Looks before anything is made whether the machine has what the job needs.
async fn preflight(job: &Job) -> Result<(), JobError> {
    watermark::enough_files(job.policy.concurrency).map_err(JobError::Surroundings)?;
    let watch = job.watch.clone();
    match tokio::task::spawn_blocking(move || watch.look()).await {
        Ok(Some(full)) => Err(JobError::Surroundings(full)),
        _ => Ok(()),
    }
}

/// A task as the plan sees it.
fn wanted(job: &Job, task: &Task, sink: &Sink) -> Wanted {
    let agent = task.agent.as_ref().unwrap_or(&job.agent);
    let settled: BTreeSet<u32> =
        (0..job.n).filter(|attempt| sink.is_settled(&attempt_id(task, *attempt))).collect();
    let demand = job.sandboxes.demand(task);
    let deadline_ms = life(task, agent).as_millis().try_into().unwrap_or(u64::MAX);
    Wanted { attempts: job.n, settled, priority: 0, demand, deadline_ms }
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

fn lock(sink: &Mutex<Sink>) -> MutexGuard<'_, Sink> {
    sink.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SinkError> + Send + 'static,
) -> Result<T, JobError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(error) => Err(JobError::Wrong(format!("a bug in Rollgate: {error}"))),
    }
}
