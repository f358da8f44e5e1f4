//! Engines: ids to a request, a reply to tokens.
//!
//! Nothing here retries, judges health or chooses an engine.

mod numbers;
mod sglang;
mod vllm;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

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
    pub sampling: &'a Sampling,
    /// Most tokens to sample; always sent.
    pub max_tokens: u32,
    /// Fixed-length id, unique at the engine.
    pub request_id: &'a str,
}

/// A request for an engine: `POST path` with a JSON body in pieces.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineRequest {
    pub path: &'static str,
    pub body: Vec<Bytes>,
}

impl EngineKind {
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Vllm => "vllm",
            EngineKind::VllmCompletions => "vllm-completions",
            EngineKind::Sglang => "sglang",
        }
    }
    /// The request that makes this call.
    pub fn request(self, _call: &EngineCall<'_>) -> EngineRequest {
        todo!()
    }
    /// Reads the engine's whole reply. Checks that lengths agree, that ids are below `vocab_size`,
    /// and that log-probabilities are of the sampled ids.
    pub fn read(self, _status: u16, _body: &[u8], _vocab_size: u32) -> Result<Generated, Fault> {
        todo!()
    }
}
