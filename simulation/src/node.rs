//! The node under test: started, ended at any moment, started again.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use rollgate_pipeline::engine::EngineKind;
use rollgate_pipeline::exchange::{Gatehouse, SessionDefaults};
use rollgate_pipeline::id::ShardCount;
use rollgate_shards::sim::{End, Process, kill, now_ns, spawn_in};
use rollgate_shards::{DriverChoice, Durability, EngineTarget, Gate, GateConfig};

use crate::plan::When;
use crate::stage::{Stage, model};

/// Where agents connect to.
pub const AGENTS: ([u8; 4], u16) = ([10, 0, 0, 1], 80);

/// Starts the node as a new process.
pub fn start(stage: &Rc<Stage>, engines: &[SocketAddr]) {
    let process = Process(stage.process.get().0 + 1);
    stage.process.set(process);
    let config = config(stage, engines);
    let stage = stage.clone();
    spawn_in(process, async move {
        match Gate::simulate(config) {
            Ok(gate) => drop(stage.gate.borrow_mut().replace(gate)),
            Err(error) => stage.broke(format!("the node does not start: {error}")),
        }
    });
}

/// Ends the node at this moment.
pub fn end(stage: &Stage, how: End) {
    kill(stage.process.get(), how);
    stage.ended.set(stage.ended.get() + 1);
    // Its handle's last wishes reach nobody.
    drop(stage.gate.borrow_mut().take());
    stage.asks.borrow_mut().iter_mut().for_each(|ask| ask.once = false);
    if how == End::PowerLoss && stage.plan.durability == Durability::Write {
        // Not promised: what was answered within the last second may be lost.
        stage.unpromised_ns.set(now_ns());
        stage.ledger.borrow_mut().proved.clear();
        stage.sessions.borrow().iter().for_each(|session| session.lost.set(true));
    }
}

/// What a [`When`] counts from.
#[derive(Clone, Copy)]
pub struct Since {
    at_ns: u64,
    replies: u64,
    pieces: u64,
}

impl Since {
    /// From now on.
    pub fn now(stage: &Stage) -> Self {
        let ledger = stage.ledger.borrow();
        Self { at_ns: now_ns(), replies: ledger.replies, pieces: ledger.pieces }
    }

    /// Whether the process is to end now.
    pub fn is_due(self, when: When, stage: &Stage) -> bool {
        let ledger = stage.ledger.borrow();
        match when {
            When::After(ms) => now_ns() >= self.at_ns + ms * 1_000_000,
            When::Replies(count) => ledger.replies >= self.replies + count,
            When::Answers(count) => ledger.pieces >= self.pieces + count,
        }
    }
}

fn config(stage: &Stage, engines: &[SocketAddr]) -> GateConfig {
    let plan = &stage.plan;
    let target =
        |addr| EngineTarget { url: format!("http://{addr}"), max_in_flight: plan.max_in_flight };
    let gatehouse = Gatehouse {
        model: model(),
        engine: EngineKind::Vllm,
        engine_model: "m".into(),
        limits: plan.limits.clone(),
        keepalive_first_ms: plan.keepalive_first_ms,
        keepalive_next_ms: 500,
        node: "n1".into(),
        sessions: SessionDefaults { orphan_grace_ms: plan.grace_ms, ..SessionDefaults::default() },
    };
    GateConfig {
        listen: SocketAddr::from(AGENTS),
        shards: ShardCount(plan.shards),
        driver: DriverChoice::Epoll,
        pin: false,
        durability: plan.durability,
        state_dir: PathBuf::from("/state"),
        engines: engines.iter().map(target).collect(),
        gatehouse: Arc::new(gatehouse),
        idle_evict_ms: plan.idle_evict_ms,
    }
}
