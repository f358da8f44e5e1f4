//! Engines: ids to a request, a reply to tokens.
//!
//! Nothing here retries, judges health or chooses an engine. What an engine answers is believed
//! only where it agrees with itself: a reply with missing ids, lengths that differ or ids outside
//! the vocabulary is a fault, never a shorter answer.

mod check;
mod health;
mod numbers;
mod refusal;
mod sglang;
mod vllm;

#[cfg(test)]
mod tests;

pub use health::{MODELS_PATH, ServedModel, Wellbeing, served_models};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::id::TokenId;
use crate::turn::{Generated, Sampling};

/// Which HTTP an engine speaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// vLLM's `/inference/v1/generate`.
    Vllm,
    /// vLLM's `/v1/completions` with `return_token_ids`, for servers without the route above.
    VllmCompletions,
    /// SGLang's `/generate`.
    Sglang,
}

/// One generation to ask for.
#[derive(Clone, Copy, Debug)]
pub struct EngineCall<'a> {
    /// The engine's name of the model.
    pub model: &'a str,
    /// The prompt, in pieces that follow each other.
    pub prompt: &'a [&'a [TokenId]],
    /// How to sample. Only what is set is sent; `extra` comes last and wins.
    pub sampling: &'a Sampling,
    /// Most tokens to sample; always sent, in place of the one in `sampling`.
    pub max_tokens: u32,
    /// Fixed-length id, unique at the engine.
    pub request_id: &'a str,
}

/// A request for an engine: `POST path` with a JSON body in pieces.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineRequest {
    /// Path at the engine.
    pub path: &'static str,
    /// The body, in pieces that follow each other.
    pub body: Vec<Bytes>,
}

impl EngineKind {
    /// The name used in configuration, records and messages.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Vllm => "vllm",
            EngineKind::VllmCompletions => "vllm-completions",
            EngineKind::Sglang => "sglang",
        }
    }

    /// The request that makes this call.
    pub fn request(self, call: &EngineCall<'_>) -> EngineRequest {
        match self {
            EngineKind::Vllm => vllm::generate(call),
            EngineKind::VllmCompletions => vllm::complete(call),
            EngineKind::Sglang => sglang::generate(call),
        }
    }

    /// Reads the engine's whole reply. Checks that lengths agree, that ids are below `vocab_size`,
    /// and that log-probabilities are of the sampled ids.
    ///
    /// Any status but 200 is a fault; which one says the table in [`refusal::fault`].
    pub fn read(self, status: u16, body: &[u8], vocab_size: u32) -> Result<Generated, Fault> {
        if status != 200 {
            return Err(refusal::fault(self, status, body));
        }
        let told = match self {
            EngineKind::Vllm => vllm::read_generate(body)?,
            EngineKind::VllmCompletions => vllm::read_complete(body)?,
            EngineKind::Sglang => sglang::read(body)?,
        };
        check::generated(self, told, vocab_size)
    }

    /// The request that makes the engine give up on the call with this id; the call then answers
    /// with what it sampled. `None` where there is none: there a closed connection is the only way,
    /// and what was sampled is lost.
    pub fn abort_request(self, request_id: &str) -> Option<EngineRequest> {
        match self {
            EngineKind::Vllm => Some(vllm::abort(request_id)),
            EngineKind::VllmCompletions => None,
            EngineKind::Sglang => Some(sglang::abort(request_id)),
        }
    }

    /// Path of the route that says whether the engine takes calls; `GET`, and cheap for the engine.
    pub fn health_path(self) -> &'static str {
        health::path(self)
    }

    /// Whether a reply says that the engine is paused, not that it is busy or broken: a 503 whose
    /// message speaks of a pause, or of weights that are being changed.
    pub fn paused(self, status: u16, body: &[u8]) -> bool {
        refusal::paused(status, body)
    }

    /// How many tokens the engine's context holds, where a reply that refuses a prompt says so.
    pub fn told_context(self, body: &[u8]) -> Option<u32> {
        refusal::told_context(body)
    }

    /// The request that asks for the log-probability of each of `ids` after the ones before it, at
    /// temperature 1. It samples one token, which is of no use.
    pub fn score_request(self, model: &str, ids: &[TokenId]) -> EngineRequest {
        match self {
            EngineKind::Vllm => vllm::score_generate(model, ids),
            EngineKind::VllmCompletions => vllm::score_complete(model, ids),
            EngineKind::Sglang => sglang::score(ids),
        }
    }

    /// Reads the reply to [`EngineKind::score_request`]: one entry per id, `None` for the first.
    pub fn read_scores(
        self,
        status: u16,
        body: &[u8],
        ids: &[TokenId],
    ) -> Result<Vec<Option<f32>>, Fault> {
        if status != 200 {
            return Err(refusal::fault(self, status, body));
        }
        match self {
            EngineKind::Vllm => vllm::read_generate_scores(body, ids),
            EngineKind::VllmCompletions => vllm::read_complete_scores(body, ids),
            EngineKind::Sglang => sglang::read_scores(body, ids),
        }
    }
}

/// What two engines call the same sampling parameter.
struct Names {
    max_tokens: &'static str,
    seed: &'static str,
}

/// The sampling parameters that are set, under the engine's names, without `extra`.
fn parameters(call: &EngineCall<'_>, names: &Names) -> Map<String, Value> {
    let s = call.sampling;
    let mut map = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            map.insert(name.to_owned(), value);
        }
    };
    set("temperature", s.temperature.map(Value::from));
    set("top_p", s.top_p.map(Value::from));
    set("top_k", s.top_k.map(Value::from));
    set("min_p", s.min_p.map(Value::from));
    set("presence_penalty", s.presence_penalty.map(Value::from));
    set("frequency_penalty", s.frequency_penalty.map(Value::from));
    set(names.max_tokens, Some(Value::from(call.max_tokens)));
    set(names.seed, s.seed.map(Value::from));
    set("stop", (!s.stop.is_empty()).then(|| Value::from(s.stop.clone())));
    map
}

/// A body `HEAD[ids]TAIL`.
fn body(head: String, prompt: &[&[TokenId]], tail: String) -> Vec<Bytes> {
    vec![Bytes::from(head), Bytes::from(numbers::write_ids(prompt)), Bytes::from(tail)]
}

/// Text as a JSON string.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
