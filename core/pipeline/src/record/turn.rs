//! The record of one exchange that sampled tokens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::FrameError;
use crate::id::{TokenId, TurnIndex};
use crate::scene::Verdict;
use crate::trajectory::Digest;
use crate::turn::{Finish, Message, Reply, Sampling, Tool, ToolChoice, Tools, Usage, VersionSpan};

/// Milliseconds of an exchange's stages, and when it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TurnTimes {
    /// Start, in milliseconds since the epoch.
    pub at_ms: u64,
    /// From the request's head to the call of the engine.
    pub prepare_ms: u64,
    /// Waiting for a turn at an engine: how many calls an engine may have at once is bounded.
    #[serde(default, skip_serializing_if = "is_none")]
    pub queue_ms: u64,
    /// The engine's part, tries that came to nothing and waits for a paused engine included.
    pub engine_ms: u64,
}

/// What is kept of an exchange. The prompt that the engine saw is
/// `ids(parent, output included) + stretch`, bit-exact.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TurnRecord {
    /// Its place in the session.
    pub turn: TurnIndex,
    /// The turn whose output the prompt extends; `None` for a prompt rendered from the start.
    pub parent: Option<TurnIndex>,
    /// Digest of what the tree hangs from: model, tools, leading instructions, template switches.
    pub root: Digest,
    /// The request's own chain at the point where it joins `parent`, where it is not the parent's: a
    /// rule, not equality, found that point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<Digest>,
    /// Names of the rules that took part in finding `parent`, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Why the prompt was rendered from an earlier point than where it was found to continue:
    /// `template` (the template leaves out earlier reasoning here) or `rewrites` (it rewrites
    /// history with every turn).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anew: Option<String>,
    /// Digests of the elements between parent and generation, by the session's history mode.
    pub elements: Vec<Digest>,
    /// Loose digest of the answer as the agent will send it back; `None` when it is empty.
    pub answer: Option<Digest>,
    /// How the engine was told to sample.
    pub sampling: Sampling,
    /// As the agent asked, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_sampling: Option<Sampling>,
    /// What the exchange was for.
    pub verdict: Verdict,
    /// The agent's dialect.
    pub dialect: String,
    /// Id of the request at the engine.
    pub request_id: String,
    /// Messages of the stretch in canonical form (leading instructions too where `parent` is none).
    pub messages: Vec<Message>,
    /// The tools of the root; only where `parent` is none.
    #[serde(default, skip_serializing_if = "<[Tool]>::is_empty")]
    pub tools: Tools,
    /// Template switches; only where `parent` is none.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub template_kwargs: Map<String, Value>,
    /// Which tools the agent let the answer call; recorded, not enforced.
    #[serde(default, skip_serializing_if = "is_auto")]
    pub tool_choice: ToolChoice,
    /// Whether the agent wanted more than one call per answer, where it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Parts and items of the request that no model can use, by type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped: BTreeMap<String, u32>,
    /// In how many messages a `strip` rule took something out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stripped: u32,
    /// The answer in canonical form.
    pub reply: Reply,
    /// Why it ended.
    pub finish: Finish,
    /// The stop text that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_text: Option<String>,
    /// Weight versions over the sampled ids.
    pub versions: Vec<VersionSpan>,
    /// Whether the sampled ids leave reasoning open.
    #[serde(default)]
    pub reasoning_open: bool,
    /// Token counts.
    pub usage: Usage,
    /// About how many tokens of the history before the stretch the agent's own copy reads
    /// differently from what the engine saw.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub context_diff_tokens: u32,
    /// About how many ids of the stretch stand for what an `overlay` rule takes out of matching.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overlay_tokens: u32,
    /// Stop tokens before the stretch that are not the marker which the template has there; both are kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub marker_conflicts: u32,
    /// Instructions in the stretch that the template refuses there and that were shown as a user's text.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wrapped_instructions: u32,
    /// Where, within `ids`, the engine gave up and was asked to go on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed_at: Vec<u32>,
    /// Ids of the stretch that are rendered from assistant messages not sampled here.
    #[serde(default)]
    pub foreign_tokens: u32,
    /// Stage times.
    pub times: TurnTimes,
    /// Context ids between parent and generation.
    #[serde(skip)]
    pub stretch: Vec<TokenId>,
    /// Sampled ids.
    #[serde(skip)]
    pub ids: Vec<TokenId>,
    /// Log-probabilities of `ids`.
    #[serde(skip)]
    pub logprobs: Vec<f32>,
    /// Lengths of the columns behind the JSON, in elements.
    #[serde(default)]
    pub(crate) columns: [u32; 3],
}

fn is_auto(choice: &ToolChoice) -> bool {
    *choice == ToolChoice::Auto
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_none(ms: &u64) -> bool {
    *ms == 0
}

impl TurnRecord {
    pub(super) fn take_columns(&mut self) -> Vec<u8> {
        let (stretch, ids, logprobs) = (
            std::mem::take(&mut self.stretch),
            std::mem::take(&mut self.ids),
            std::mem::take(&mut self.logprobs),
        );
        self.columns = [stretch.len() as u32, ids.len() as u32, logprobs.len() as u32];
        let mut bytes = Vec::with_capacity(4 * (stretch.len() + ids.len() + logprobs.len()));
        bytes.extend(stretch.iter().chain(&ids).flat_map(|id| id.to_le_bytes()));
        bytes.extend(logprobs.iter().flat_map(|logprob| logprob.to_le_bytes()));
        bytes
    }

    pub(super) fn put_columns(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        let [stretch, ids, logprobs] = self.columns.map(|n| n as usize);
        let (words, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() || words.len() != stretch + ids + logprobs {
            return Err(FrameError::Columns("their lengths do not add up"));
        }
        let id = |word: &[u8; 4]| TokenId::from_le_bytes(*word);
        self.stretch = words[..stretch].iter().map(id).collect();
        self.ids = words[stretch..stretch + ids].iter().map(id).collect();
        self.logprobs = words[stretch + ids..].iter().map(|w| f32::from_le_bytes(*w)).collect();
        self.columns = [0; 3];
        Ok(())
    }
}
