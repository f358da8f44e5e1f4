//! Where the time of an exchange goes: what is counted and, where asked for, told of it.

use std::time::{Duration, Instant};

use rollgate_pipeline::exchange::{Exchange, Want};
use rollgate_pipeline::scene::Scene;

use crate::ExchangeStage;
use crate::rt::time::now;
use crate::sessions::Stay;
use crate::stats::Counters;

/// Target of the events that tell of each exchange; off by default, since it is one line a turn.
const TARGET: &str = "rollgate::exchange";

/// Adds up the time of one exchange by stage.
pub(super) struct Stages {
    begun: Instant,
    own: Duration,
    spent: [Duration; ExchangeStage::ALL.len()],
}

impl Stages {
    pub(super) fn begin() -> Self {
        Self { begun: now(), own: Duration::ZERO, spent: Default::default() }
    }

    /// A step of our own took so long.
    pub(super) fn worked(&mut self, time: Duration) {
        self.own += time;
        self.spent[ExchangeStage::Own as usize] += time;
    }

    /// Begins to wait for what is wanted.
    pub(super) fn wait(&self, want: &Want) -> Waiting {
        Waiting { stage: stage(want), since: now(), own: self.own }
    }

    /// The wait is over. Steps of our own since it began are not part of it.
    pub(super) fn waited(&mut self, waiting: &Waiting) {
        let worked = self.own.saturating_sub(waiting.own);
        self.spent[waiting.stage as usize] +=
            now().saturating_duration_since(waiting.since).saturating_sub(worked);
    }

    /// The exchange is over.
    pub(super) fn end(&self, counters: &Counters, stay: &Stay, exchange: &Exchange) {
        for (stage, time) in ExchangeStage::ALL.iter().zip(self.spent) {
            counters.stages[*stage as usize].add(micros(time));
        }
        let of = |stage: ExchangeStage| micros(self.spent[stage as usize]);
        let passage = exchange.passage();
        tracing::info!(
            target: TARGET,
            session = %stay.id,
            scene = passage.recorded.map(Scene::name),
            fault = exchange.fault().map(|fault| fault.kind.label()),
            adopted = passage.adopted,
            parks = passage.parks,
            body_us = of(ExchangeStage::Body),
            own_us = of(ExchangeStage::Own),
            engine_us = of(ExchangeStage::Engine),
            wait_us = of(ExchangeStage::Wait),
            record_us = of(ExchangeStage::Record),
            write_us = of(ExchangeStage::Write),
            total_us = micros(now().saturating_duration_since(self.begun)),
            "exchange"
        );
    }
}

/// A wait under way.
pub(super) struct Waiting {
    stage: ExchangeStage,
    since: Instant,
    own: Duration,
}

fn stage(want: &Want) -> ExchangeStage {
    match want {
        Want::AgentBytes => ExchangeStage::Body,
        Want::Engine(_) | Want::EngineBytes => ExchangeStage::Engine,
        Want::Wait { .. } => ExchangeStage::Wait,
        Want::Durable(_) => ExchangeStage::Record,
        Want::Agent(_) => ExchangeStage::Write,
        Want::Encode(_) | Want::Done { .. } => ExchangeStage::Own,
    }
}

/// Whole microseconds.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
