//! What is known of one try while it runs and after it.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use rollgate_pipeline::exchange::SessionState;
use rollgate_pipeline::record::Reward;
use rollgate_pipeline::sample::Sample;
use tokio::time::Instant;

use super::{Graded, Halt};
use crate::outcome::{Outcome, Reason};

/// How one try went.
#[derive(Debug)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, where it did not go well.
    pub reason: Option<Reason>,
    /// The reward; only with an outcome that may carry one.
    pub reward: Option<Reward>,
    /// Agent and version, where known.
    pub agent: String,
    /// The session, where one was opened.
    pub session_id: Option<String>,
    /// Turns.
    pub turns: u32,
    /// Of them, by scene.
    pub scenes: BTreeMap<String, u32>,
    /// Ids sampled.
    pub sampled_tokens: u64,
    /// Start, in milliseconds since the epoch.
    pub started_at_ms: u64,
    /// How long each stage took.
    pub stages: Stages,
    /// Its samples.
    pub samples: Vec<Sample>,
}

impl Report {
    pub(crate) fn begin(agent: &str) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            outcome: Outcome::InfraFailed,
            reason: None,
            reward: None,
            agent: agent.to_owned(),
            session_id: None,
            turns: 0,
            scenes: BTreeMap::new(),
            sampled_tokens: 0,
            started_at_ms: since.as_millis() as u64,
            stages: Stages::begin(),
            samples: Vec::new(),
        }
    }

    /// A try of which nothing is known but that it broke.
    pub(crate) fn broken(reason: Reason) -> Self {
        Self::begin("").halted(Halt::infra(reason))
    }

    pub(super) fn halted(mut self, halt: Halt) -> Self {
        self.fail(halt);
        self
    }

    /// The attempt failed: whatever it had earned is void.
    pub(crate) fn fail(&mut self, halt: Halt) {
        self.reward = None;
        // The first failure is the cause.
        if self.reason.is_none() || self.outcome.settles() {
            self.reason = Some(halt.reason);
            self.outcome = halt.outcome;
        }
    }

    pub(crate) fn settle(&mut self, run: Result<Graded, Halt>) {
        match run {
            Ok(graded) => {
                self.outcome = graded.outcome;
                self.reason = graded.reason;
                self.reward = graded.reward.filter(|_| graded.outcome.rewardable());
            }
            Err(halt) => self.fail(halt),
        }
    }

    pub(super) fn seen(&mut self, state: &SessionState) {
        self.turns = state.turns;
        self.scenes.clone_from(&state.scenes);
        self.sampled_tokens = state.sampled_tokens;
    }
}

/// Milliseconds by stage.
#[derive(Debug)]
pub struct Stages {
    last: Instant,
    /// Milliseconds of each stage that ended.
    pub took_ms: BTreeMap<String, u64>,
}

impl Stages {
    fn begin() -> Self {
        Self { last: Instant::now(), took_ms: BTreeMap::new() }
    }

    pub(super) fn end(&mut self, stage: &str) {
        let now = Instant::now();
        let took = now.duration_since(self.last).as_millis() as u64;
        self.took_ms.insert(stage.to_owned(), took);
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graded(outcome: Outcome) -> Graded {
        let reward = Reward { reward: Some(1.0), parts: BTreeMap::new() };
        Graded { outcome, reason: None, reward: Some(reward) }
    }

    #[test]
    fn only_four_outcomes_carry_a_reward() {
        for outcome in Outcome::ALL {
            let mut report = Report::begin("a");
            report.settle(Ok(graded(outcome)));
            assert_eq!(report.reward.is_some(), outcome.rewardable(), "{outcome}");
        }
    }

    #[test]
    fn a_failed_seal_voids_the_reward_and_keeps_the_first_cause() {
        let mut report = Report::begin("a");
        report.settle(Ok(graded(Outcome::Done)));
        report.fail(Halt::infra(Reason::new("first", "")));
        report.fail(Halt::infra(Reason::new("second", "")));
        assert_eq!((report.outcome, report.reward), (Outcome::InfraFailed, None));
        assert_eq!(report.reason.unwrap().code, "first");
    }
}
