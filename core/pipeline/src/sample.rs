//! Samples: what the trainer receives. Format version 1.
//!
//! A sample is built from a session's records, and its invariants are checked when it is built.
//! Nothing here writes files.
//!
//! - A branch ends at a turn that is trained and that nothing trained goes on from; one branch is one
//!   segment is one sample. Untrained tails belong to no sample.
//! - An answer that the agent never got whole, and did not go on from, is trained all the same, in a
//!   segment of its own: its tokens were sampled as they stand. `undelivered_turns` counts it, so that
//!   a trainer that wants none of those can tell.
//! - An aborted answer is never trained.

mod branches;
mod build;
mod check;
mod columns;
mod fill;
mod links;
mod session;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{SessionId, TokenId, TurnIndex};
use crate::turn::Sampling;

pub use build::{Attempt, build};
pub use check::{Violation, check, check_vocabulary};
pub use columns::columns_blake3;
pub use links::{Link, LinkKind, LinkTarget};
pub use session::{Share, check_session, trained_share};

/// One segment of an attempt. Field order is the order in JSON.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Version of this format: 1.
    pub format: u32,
    /// `SESSION-SEGMENT`, unique.
    pub sample_id: String,
    /// The task; empty when the session was opened without one.
    pub task_id: String,
    /// The attempts of one task share it.
    pub group_id: String,
    /// Which attempt of the group, from 0.
    pub attempt: u32,
    /// Shared by the segments of one attempt.
    pub session_id: SessionId,
    /// Which segment of the attempt, from 0.
    pub segment: u32,
    /// How many segments the attempt has.
    pub segments: u32,
    /// How many attempts the group has.
    pub siblings: u32,
    /// Ids the engine saw and sampled.
    pub tokens: Vec<TokenId>,
    /// Tokens before the first sampled one.
    pub prompt_len: u32,
    /// 1 = sampled here, trained here.
    pub loss_mask: Vec<u8>,
    /// Log-probabilities of sampled ids; 0 elsewhere.
    pub logprobs: Vec<f32>,
    /// Sampled spans, ascending.
    pub turns: Vec<SampledSpan>,
    /// From which token on a weight version holds; the first start is 0.
    pub weight_versions: Vec<(u32, String)>,
    /// Relations to other segments.
    pub links: Vec<Link>,
    /// Canonical text form.
    pub messages: Vec<Value>,
    /// Tools on offer.
    pub tools: Vec<Value>,
    /// Scene of the segment's last turn.
    pub scene: String,
    /// `null` when there is none.
    pub reward: Option<f64>,
    /// Named parts of the reward.
    pub reward_parts: BTreeMap<String, f64>,
    /// `done`, `agent_failed`, `agent_timeout`, `budget`, `verifier_failed`, `infra_failed`,
    /// `cancelled`; `open` while the session is not sealed.
    pub outcome: String,
    /// Clean, or why not.
    pub health: Health,
    /// Counts of what is not exact or was left out.
    pub counts: BTreeMap<String, u64>,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// A sampled span of a sample.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SampledSpan {
    /// Which turn of the session; a turn is trained in one segment only.
    pub turn: TurnIndex,
    /// First token.
    pub start: u32,
    /// One past the last token.
    pub end: u32,
    /// Scene of the exchange.
    pub scene: String,
    /// `stop`, `length` or `abort`.
    pub finish_reason: String,
    /// Whether the output did not fit the model family's grammar.
    pub ill_formed: bool,
    /// How the engine was told to sample.
    pub sampling: Sampling,
    /// The rules that allowed a loose match, joined with `+`, where some did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Tokens of the sample at which the engine had given up and was asked to go on, ascending, all
    /// within the span.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed_at: Vec<u32>,
}

/// Whether a sample can be trusted: `"clean"` or a list of reason codes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Health {
    /// `"clean"`.
    Clean(CleanWord),
    /// Reason codes.
    Unhealthy(Vec<String>),
}

/// The word `"clean"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CleanWord {
    /// The only value.
    #[serde(rename = "clean")]
    Clean,
}

impl Health {
    /// Clean if there are no reasons.
    pub fn from_reasons(reasons: Vec<String>) -> Self {
        if reasons.is_empty() {
            Health::Clean(CleanWord::Clean)
        } else {
            Health::Unhealthy(reasons)
        }
    }

    /// The reasons; empty when clean.
    pub fn reasons(&self) -> &[String] {
        match self {
            Health::Clean(_) => &[],
            Health::Unhealthy(reasons) => reasons,
        }
    }
}

/// Where a sample comes from.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Provenance {
    /// Agent and version, where known.
    pub agent: String,
    /// The served model.
    pub model: String,
    /// Kind of engine.
    pub engine: String,
    /// blake3 of the tokenizer in hex.
    pub tokenizer: String,
    /// blake3 of the chat template in hex.
    pub template: String,
    /// Name and version of the output parser.
    pub parser: String,
    /// Version of Rollgate.
    pub rollgate: String,
    /// The session's metadata.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// blake3 over the columns, see [`columns_blake3`].
    pub columns_blake3: String,
}

#[cfg(test)]
mod tests;
