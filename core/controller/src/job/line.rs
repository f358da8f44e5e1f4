//! What is kept of an attempt once it has ended.

use std::collections::BTreeMap;

use rollgate_pipeline::record::Reward;

use super::attempt_id;
use crate::outcome::Reason;
use crate::runtime::Report;
use crate::sink::AttemptLine;
use crate::task::Task;

/// The line of an attempt whose last try went so.
pub(super) fn line(task: &Task, attempt: u32, report: Report, earlier: Vec<Reason>) -> AttemptLine {
    let none = Reward { reward: None, parts: BTreeMap::new() };
    let reward = report.reward.unwrap_or(none);
    let mut unhealthy = BTreeMap::new();
    for reason in report.samples.iter().flat_map(|sample| sample.health.reasons()) {
        *unhealthy.entry(reason.clone()).or_default() += 1;
    }
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
        unhealthy,
        samples_end: None,
    }
}
