//! Records about the session as a whole.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{SessionId, TurnIndex};
use crate::rules::Rule;
use crate::scene::SceneRule;
use crate::turn::Sampling;

/// What the engine is shown where an agent sends history back in another form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HistoryMode {
    /// What it saw and sampled, wherever that means the same.
    #[default]
    Sticky,
    /// What the agent sent; where that differs, a branch begins.
    Faithful,
}

/// What becomes of earlier reasoning where the template leaves it out once a person speaks again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Retention {
    /// It stays: the next prompt extends what was sampled.
    #[default]
    Keep,
    /// It goes, as in the template: the conversation is rendered anew, in a new segment.
    Template,
}

/// What `POST /v1/sessions` may set. Every field has a default.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionOptions {
    /// Name of the agent, for people and rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What the engine is shown of rewritten history; the node's default where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryMode>,
    /// What becomes of earlier reasoning; the node's default where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// Rules of its own about what an agent may change in its history, before all others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Rules of its own about what exchanges are for, before all others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scenes: Vec<SceneRule>,
    /// Sampling parameters that win over the agent's.
    pub sampling: Sampling,
    /// What the session may use up.
    pub limits: Budget,
    /// Free data, echoed in samples' provenance.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// What a session may use up; `None` is no bound.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Most turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Most sampled tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// The opening record.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Opened {
    /// Version of the record format: 1.
    pub version: u32,
    /// The session.
    pub session_id: SessionId,
    /// When, in milliseconds since the epoch.
    pub at_ms: u64,
    /// As asked for, with the node's defaults where nothing was asked for.
    pub options: SessionOptions,
    /// The node's rules, behind those of the options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_rules: Vec<Rule>,
    /// The node's scene rules, behind those of the options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_scenes: Vec<SceneRule>,
    /// Name of the served model.
    pub model: String,
    /// Kind of engine.
    pub engine: String,
    /// Digest of the tokenizer in hex.
    pub tokenizer_digest: String,
    /// Digest of the chat template in hex.
    pub template_digest: String,
    /// Name and version of the output parser.
    pub parser: String,
    /// Version of Rollgate.
    pub rollgate: String,
}

/// A reward for the session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reward {
    /// The scalar; `None` withdraws an earlier one.
    pub reward: Option<f64>,
    /// Named parts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, f64>,
}

/// How much of a turn's answer reached the agent. Without this record: all of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Delivery {
    /// The turn.
    pub turn: TurnIndex,
    /// Whether all of it was taken by the agent's side; the last record of a turn counts.
    pub whole: bool,
}

/// The seal: no turn is recorded after it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sealed {
    /// When, in milliseconds since the epoch.
    pub at_ms: u64,
}
