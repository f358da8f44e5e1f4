//! What hooks and graders are told of an attempt. Holds no key.

use std::collections::BTreeMap;

use rollgate_pipeline::record::Reward;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::outcome::{Outcome, Reason};
use crate::task::Task;

/// Which attempt it is.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// Its task.
    pub task_id: String,
    /// `TASK_ID.ATTEMPT`.
    pub attempt_id: String,
    /// Its number in its group, from 0.
    pub attempt: u32,
    /// How often it was tried before.
    pub retry: u32,
    /// Name of its agent.
    pub agent: String,
    /// Its session; the id opens nothing.
    pub session_id: String,
}

/// How an attempt went, as far as is known.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ended {
    /// `None`: the agent did not run yet.
    pub outcome: Option<Outcome>,
    /// Why, where it did not go well.
    pub reason: Option<Reason>,
    /// The reward; `None`: there is none, or not yet.
    pub reward: Option<f64>,
    /// Its parts.
    pub reward_parts: BTreeMap<String, f64>,
}

impl Ended {
    /// An attempt that ended so.
    pub fn new(outcome: Outcome, reason: Option<&Reason>, reward: Option<&Reward>) -> Self {
        Self {
            outcome: Some(outcome),
            reason: reason.cloned(),
            reward: reward.and_then(|reward| reward.reward),
            reward_parts: reward.map(|reward| reward.parts.clone()).unwrap_or_default(),
        }
    }
}

/// One JSON object of all that is told.
pub(crate) fn told(
    event: &str,
    about: &About,
    ended: &Ended,
    task: &Task,
) -> serde_json::Result<Map<String, Value>> {
    let mut told = Map::new();
    told.insert("event".to_owned(), event.into());
    for part in [serde_json::to_value(about)?, serde_json::to_value(ended)?] {
        if let Value::Object(part) = part {
            told.extend(part);
        }
    }
    told.insert("instruction".to_owned(), task.instruction.clone().into());
    told.insert("metadata".to_owned(), Value::Object(task.metadata.clone()));
    Ok(told)
}
