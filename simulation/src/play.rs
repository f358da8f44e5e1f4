//! One seed from its beginning to its end.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rollgate_pipeline::planted::{self, Bug};
use rollgate_pipeline::record::SessionOptions;
use rollgate_shards::sim::{
    Faults, Process, World, chance, draw, durable_file, file, note_hash, note_lines, now_ns, pick,
    run_until, set_faults, sleep, spawn_in, watch_writes,
};
use rollgate_shards::{Durability, Gate};

use crate::agent::work;
use crate::check;
use crate::engine::Engine;
use crate::ledger::{Ledger, numbers, word};
use crate::node::{self, Since};
use crate::plan::Plan;
use crate::stage::{SessionOf, Stage};
use crate::talk::{Client, within};

/// Virtual time that a run may take until its agents are done.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// What came of a seed.
#[derive(Debug)]
pub struct Outcome {
    /// Which one it was.
    pub seed: u64,
    /// The setting, for people.
    pub plan: String,
    /// Promises that were broken; empty is good.
    pub broken: Vec<String>,
    /// A hash of everything that happened.
    pub hash: u64,
    /// Answers that agents received.
    pub answered: u64,
    /// How often the node was ended.
    pub ended: u64,
    /// The last events.
    pub lines: Vec<String>,
}

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Plays a seed, with one bug planted or none.
pub fn run(seed: u64, bug: Option<Bug>) -> Outcome {
    note_panics();
    QUIET.set(true);
    planted::plant(bug);
    let world = World::new(seed);
    let stage = Rc::new(Stage::new(Plan::draw()));
    Run { stage: stage.clone(), engines: Vec::new() }.play();
    planted::plant(None);
    QUIET.set(false);
    for panic in PANICS.take() {
        stage.broke(format!("something panicked: {panic}"));
    }
    let outcome = Outcome {
        seed,
        plan: format!("{:#?}", stage.plan),
        broken: stage.broken.take(),
        hash: note_hash(),
        answered: stage.answered.get(),
        ended: stage.ended.get(),
        lines: note_lines(),
    };
    drop(stage.gate.take());
    drop(world);
    outcome
}

/// Panics of this thread's runs are findings, and are told with the seed.
fn note_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match QUIET.get() {
            true => PANICS.with_borrow_mut(|panics| panics.push(panic.to_string())),
            false => before(panic),
        }));
    });
}

struct Run {
    stage: Rc<Stage>,
    engines: Vec<SocketAddr>,
}

impl Run {
    fn play(&mut self) {
        let stage = self.stage.clone();
        set_faults(stage.plan.faults);
        self.watch();
        self.engines = (1..=stage.plan.engines).map(|at| Engine::start(&stage, at).addr).collect();
        node::start(&stage, &self.engines);
        if !self.open_sessions() {
            return stage.broke("sessions cannot be opened");
        }
        self.start_agents();
        if !self.until_done() {
            return stage.broke("agents are not done, and nothing is left to happen in time");
        }
        stage.healthy.set(true);
        set_faults(Faults::default());
        self.settle();
        self.probe();
        self.close();
        check::journals(&stage);
    }

    /// What agents are shown must be in a journal by then, as durable as was promised.
    fn watch(&self) {
        let stage = self.stage.clone();
        watch_writes(move |process, bytes| {
            if process.0 >= 100 {
                return;
            }
            let mut ledger = stage.ledger.borrow_mut();
            let found = numbers(bytes);
            ledger.pieces += u64::from(!found.is_empty());
            for number in found {
                ledger.shown.entry(number).or_insert_with(now_ns);
                if !ledger.proved.insert(number) {
                    continue;
                }
                if !is_durable(&stage, &ledger, number) {
                    let text = format!("an answer left before its record was durable: {number}");
                    stage.broke(text);
                }
            }
        });
    }

    fn open_sessions(&self) -> bool {
        for number in 0..self.stage.plan.sessions {
            let made = self.ask_gate(Duration::from_secs(60), async |gate: Gate| {
                loop {
                    match gate.create(SessionOptions::default()).await {
                        Ok(made) => return (gate.journal_path(&made.session_id), made),
                        Err(_) => sleep(Duration::from_millis(50)).await,
                    }
                }
            });
            let Some((path, made)) = made else { return false };
            self.stage.sessions.borrow_mut().push(Rc::new(SessionOf {
                number,
                id: made.session_id,
                key: made.key,
                path,
                closing: Cell::new(false),
                lost: Cell::new(false),
            }));
        }
        // Lost with the power, they would be nobody's fault.
        rollgate_shards::sim::sync_all();
        true
    }

    fn start_agents(&self) {
        let stage = &self.stage;
        for session in stage.sessions.borrow().iter() {
            for _ in 0..stage.plan.agents {
                spawn_in(Process(200), work(stage.clone(), session.clone()));
            }
            if chance(stage.plan.closes) {
                spawn_in(Process(300), close_early(stage.clone(), session.clone()));
            }
            if chance(300) {
                spawn_in(Process(300), look(stage.clone(), session.clone()));
            }
        }
    }

    /// Plays on, through all ends of the process, until the agents are done.
    fn until_done(&self) -> bool {
        let stage = &self.stage;
        // They have begun once they have had a moment.
        run_until(now_ns() + 1_000_000, || stage.agents.get() > 0);
        let done = || stage.agents.get() == 0;
        for (when, how) in stage.plan.ends.clone() {
            let since = Since::now(stage);
            run_until(now_ns() + LONGEST_NS, || done() || since.is_due(when, stage));
            if done() {
                return true;
            }
            node::end(stage, how);
            run_until(now_ns() + pick(1..1_500) * 1_000_000, || false);
            node::start(stage, &self.engines);
        }
        run_until(now_ns() + LONGEST_NS, done)
    }

    /// Nothing stays in flight.
    fn settle(&self) {
        let stage = &self.stage;
        let counts = || {
            let gate = stage.gate.borrow();
            let stats = gate.as_ref().map(Gate::stats).unwrap_or_default();
            stats.iter().fold((0, 0), |(flight, open), stats| {
                (flight + stats.in_flight, open + stats.connections)
            })
        };
        run_until(now_ns() + 200_000_000_000, || counts() == (0, 0));
        if counts() != (0, 0) {
            let (flight, open) = counts();
            stage.broke(format!("{flight} exchanges and {open} connections are left behind"));
        }
    }

    /// As many calls as the engine takes at once are answered at once: no permit is lost.
    fn probe(&self) {
        let stage = &self.stage;
        let at_once = u64::from(stage.plan.max_in_flight / u32::from(stage.plan.shards)).max(1);
        let sessions: Vec<_> = stage.sessions.borrow().clone();
        for session in sessions.into_iter().filter(|it| !it.closing.get() && !it.lost.get()) {
            let begun_ns = now_ns();
            for _ in 0..at_once {
                let (stage, session) = (stage.clone(), session.clone());
                stage.agents.set(stage.agents.get() + 1);
                spawn_in(Process(200), async move {
                    let ask = stage.ask(session.number, true);
                    let text = format!("A probe of {}. ask{ask:05}.", session.mark());
                    let messages = [serde_json::json!({"role": "user", "content": text})];
                    let mut client = Client::new(&stage, &session);
                    if client.ask(ask, &messages, true).await.is_err() {
                        stage.broke("a healthy node gives no answer");
                    }
                    stage.agents.set(stage.agents.get() - 1);
                });
            }
            run_until(now_ns() + LONGEST_NS, || stage.agents.get() == 0);
            let took_ms = (now_ns() - begun_ns) / 1_000_000;
            if took_ms > 1_900 {
                let session = session.number;
                stage.broke(format!(
                    "{at_once} calls at once of session {session} took {took_ms} ms instead of 1 s"
                ));
            }
        }
    }

    /// Closes all sessions and drains the node.
    fn close(&self) {
        let stage = &self.stage;
        let ids: Vec<_> = stage.sessions.borrow().iter().map(|it| it.id.clone()).collect();
        let full = stage.plan.faults.full_disk > 0;
        let closed = self.ask_gate(Duration::from_secs(60), async move |gate: Gate| {
            let mut failed = Vec::new();
            for id in ids {
                failed.extend(gate.close(&id).await.err().map(|error| error.to_string()));
            }
            gate.drain().await;
            failed
        });
        match closed {
            None => stage.broke("the node does not drain"),
            Some(failed) if !stage.plan.may_lose() && !full => {
                failed.into_iter().for_each(|why| stage.broke(format!("no close: {why}")));
            }
            Some(_) => {}
        }
    }

    /// Something that the control plane wants of the node.
    fn ask_gate<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        limit: Duration,
        wish: impl FnOnce(Gate) -> F + 'static,
    ) -> Option<T> {
        let outcome = Rc::new(RefCell::new(None));
        let (stage, told) = (self.stage.clone(), outcome.clone());
        spawn_in(Process(300), async move {
            loop {
                let gate = stage.gate.borrow().clone();
                if let Some(gate) = gate {
                    let done = wish(gate).await;
                    told.replace(Some(done));
                    return;
                }
                sleep(Duration::from_millis(1)).await;
            }
        });
        run_until(now_ns() + limit.as_nanos() as u64, || outcome.borrow().is_some());
        outcome.take()
    }
}

/// Whether a record that holds this number's answer is as durable as promised.
fn is_durable(stage: &Stage, ledger: &Ledger, number: u64) -> bool {
    let Some(generation) = ledger.generations.get(&number) else { return false };
    let sessions = stage.sessions.borrow();
    let Some(session) = sessions.iter().find(|it| it.id.to_string() == generation.session) else {
        return false;
    };
    let content = match stage.plan.durability {
        Durability::Write => file(&session.path),
        Durability::Fsync => durable_file(&session.path),
    };
    check::holds(&content.unwrap_or_default(), &word(number))
}

/// The control plane closes a session whose agents are at work.
async fn close_early(stage: Rc<Stage>, session: Rc<SessionOf>) {
    sleep(Duration::from_millis(pick(0..6_000))).await;
    if stage.healthy.get() {
        return;
    }
    session.closing.set(true);
    let gate = stage.gate.borrow().clone();
    if let Some(gate) = gate {
        // It may end meanwhile.
        let _ = gate.close(&session.id).await;
    }
}

/// The control plane looks at a session, and at all.
async fn look(stage: Rc<Stage>, session: Rc<SessionOf>) {
    for _ in 0..pick(1..6) {
        sleep(Duration::from_millis(pick(0..1_500))).await;
        let gate = stage.gate.borrow().clone();
        let Some(gate) = gate else { continue };
        let seen = within(Duration::from_secs(60), gate.describe(&session.id)).await;
        if seen.is_none() {
            stage.broke("a session cannot be looked at");
        }
        // Which sessions are in memory is nobody's promise.
        let _ = within(Duration::from_secs(60), gate.list()).await;
        let _ = draw();
    }
}

impl Stage {
    fn new(plan: Plan) -> Self {
        Self {
            plan,
            ledger: RefCell::default(),
            sessions: RefCell::default(),
            asks: RefCell::default(),
            got: RefCell::default(),
            broken: RefCell::default(),
            gate: RefCell::default(),
            process: Cell::new(Process(0)),
            healthy: Cell::new(false),
            failures: Cell::new(0),
            down: Cell::new(0),
            agents: Cell::new(0),
            answered: Cell::new(0),
            unpromised_ns: Cell::new(0),
            ended: Cell::new(0),
        }
    }
}
