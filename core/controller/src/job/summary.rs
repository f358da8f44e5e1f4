//! What a job came to.

use std::collections::BTreeMap;

use rollgate_pipeline::scene::Scene;
use serde::Serialize;

use crate::limits::{FAILURES_TOLD, UNKNOWN_PERCENT};
use crate::outcome::{Outcome, Reason};
use crate::plan::Group;
use crate::pool::PoolCounts;
use crate::sink::AttemptLine;

/// What a job came to. Attempts that an earlier run settled are in `settled_earlier` only.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// Attempts in all: tasks times n.
    pub attempts: u64,
    /// Of them, settled by an earlier run in the same directory.
    pub settled_earlier: u64,
    /// Attempts by outcome.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Attempts that were never started, because the job was stopped or they were cancelled.
    pub not_started: u64,
    /// Groups of which every attempt has a result that lasts; those of earlier runs not included.
    pub groups_complete: u64,
    /// Groups that are over in this run and lack some: a later run makes these.
    pub groups_partial: u64,
    /// Tries that were made again.
    pub retries: u64,
    /// Attempts with a reward.
    pub rewarded: u64,
    /// Mean of their rewards.
    pub mean_reward: Option<f64>,
    /// Turns of all attempts.
    pub turns: u64,
    /// Of them, by scene.
    pub scenes: BTreeMap<String, u64>,
    /// Ids sampled in all attempts.
    pub sampled_tokens: u64,
    /// Samples written.
    pub samples: u64,
    /// Reason codes of samples that are not clean, with counts.
    pub unhealthy: BTreeMap<String, u64>,
    /// Reason codes of attempts that did not go well, with counts.
    pub reasons: BTreeMap<String, u64>,
    /// Attempts that did not go well, the first ones.
    pub failures: Vec<Failure>,
    /// What should be looked at, though it is no failure.
    pub warnings: Vec<String>,
    /// Why the job stopped by itself.
    pub stopped: Option<String>,
    /// What became of sandboxes.
    pub sandboxes: PoolCounts,
    /// Milliseconds from the first start to the end of the last clean-up.
    pub took_ms: u64,
    #[serde(skip)]
    reward_sum: f64,
}

/// An attempt that did not go well.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Failure {
    /// `TASK_ID.ATTEMPT`.
    pub attempt_id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Why.
    pub reason: Option<Reason>,
}

impl Summary {
    pub(super) fn planned(attempts: usize, settled: usize) -> Self {
        Self { attempts: attempts as u64, settled_earlier: settled as u64, ..Self::default() }
    }

    pub(super) fn add(&mut self, line: &AttemptLine) {
        *self.outcomes.entry(line.outcome).or_default() += 1;
        self.turns += u64::from(line.turns);
        self.sampled_tokens += line.sampled_tokens;
        self.samples += line.samples.len() as u64;
        for (scene, count) in &line.scenes {
            *self.scenes.entry(scene.clone()).or_default() += u64::from(*count);
        }
        for (code, count) in &line.unhealthy {
            *self.unhealthy.entry(code.clone()).or_default() += count;
        }
        if let Some(reward) = line.reward {
            self.rewarded += 1;
            self.reward_sum += reward;
        }
        if line.outcome == Outcome::Done {
            return;
        }
        if let Some(reason) = &line.reason {
            *self.reasons.entry(reason.code.clone()).or_default() += 1;
        }
        if self.failures.len() < FAILURES_TOLD {
            self.failures.push(Failure {
                attempt_id: line.attempt_id.clone(),
                outcome: line.outcome,
                reason: line.reason.clone(),
            });
        }
    }

    pub(super) fn group(&mut self, group: Group) {
        let complete = group.settled == group.attempts;
        *(if complete { &mut self.groups_complete } else { &mut self.groups_partial }) += 1;
    }

    pub(super) fn finish(mut self) -> Self {
        self.mean_reward = (self.rewarded > 0).then(|| self.reward_sum / self.rewarded as f64);
        self.warnings.extend(self.unknown_scenes());
        self
    }

    /// A warning where too many turns are of no known scene.
    fn unknown_scenes(&self) -> Option<String> {
        let unknown = self.scenes.get(Scene::Unknown.name()).copied().unwrap_or_default();
        let turns = self.turns;
        (unknown * 100 > turns * UNKNOWN_PERCENT).then(|| {
            format!(
                "{unknown} of {turns} turns are of no known scene, so they are not trained: is the \
                 agent's version one that its scene rules know? Rules of your own go into `scenes` \
                 of task or node (docs/configuration.md)"
            )
        })
    }

    /// How many attempts of this run ended so.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(&outcome).copied().unwrap_or_default()
    }

    /// Whether every attempt is settled without a failure of verifier or infrastructure. That an
    /// agent fails its task is a result, not a failure of the job.
    pub fn all_well(&self) -> bool {
        let bad = [Outcome::VerifierFailed, Outcome::InfraFailed, Outcome::Cancelled];
        self.not_started == 0
            && self.stopped.is_none()
            && bad.iter().all(|outcome| self.count(*outcome) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(turns: u64, unknown: u64, warns: bool) {
        let scenes = [("main", turns - unknown), ("unknown", unknown)];
        let scenes = scenes.map(|(scene, count)| (scene.to_owned(), count)).into();
        let summary = Summary { turns, scenes, ..Summary::default() }.finish();
        assert_eq!(summary.warnings.len(), usize::from(warns), "{unknown} of {turns}");
        let told = format!("{unknown} of {turns} turns");
        assert!(summary.warnings.iter().all(|text| text.starts_with(&told)));
    }

    #[test]
    fn more_than_a_twentieth_of_unknown_scene_warns() {
        check(100, 5, false);
        check(100, 6, true);
        check(3, 1, true);
        check(40, 0, false);
        assert_eq!(Summary::default().finish().warnings, Vec::<String>::new());
    }
}
