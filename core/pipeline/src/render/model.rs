//! A served model's text side: tokenizer, template, markers.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{PriorTail, Tokenizer};
use crate::fault::Fault;
use crate::id::TokenId;
use crate::turn::{Message, Tool};

/// Contents of a model directory's files.
#[derive(Clone, Debug, Default)]
pub struct ModelFiles {
    /// Name to serve it under.
    pub name: String,
    /// `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// `tokenizer_config.json`.
    pub tokenizer_config: Vec<u8>,
    /// `chat_template.jinja`, which wins over the config's `chat_template`.
    pub template: Option<String>,
    /// `config.json` (vocabulary size, context length).
    pub config: Option<Vec<u8>>,
    /// Context length set by the user; wins over the files.
    pub max_context: Option<u32>,
    /// Treat control text in messages as control tokens, as engines do (`inject = "engine"`).
    pub inject_engine: bool,
}

/// Why a model cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("{0}")]
    Unusable(String),
}

/// Which grammar the model's output follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    Qwen3,
}

/// Ids of the marker tokens, where the vocabulary has them as added tokens.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Markers {
    /// Ends a turn (`<|im_end|>`).
    pub close: TokenId,
    pub think_open: Option<TokenId>,
    pub think_close: Option<TokenId>,
    pub call_open: Option<TokenId>,
    pub call_close: Option<TokenId>,
}

/// A model ready to serve.
pub struct Model {
    pub name: String,
    pub family: Family,
    pub markers: Markers,
    /// Longest prompt plus answer, in tokens.
    pub max_context: u32,
    /// Ids are below this.
    pub vocab_size: u32,
    /// blake3 of `tokenizer.json` in hex.
    pub tokenizer_digest: String,
    /// blake3 of the template in hex.
    pub template_digest: String,
    pub tokenizer: Arc<dyn Tokenizer>,
}

impl Model {
    /// Loads and probes a model. Costs up to seconds.
    pub fn load(_files: ModelFiles) -> Result<Model, ModelError> {
        todo!()
    }
    /// Ids of a whole conversation, generation prompt included.
    pub fn first(
        &self,
        _messages: &[Message],
        _tools: &[Tool],
        _kwargs: &Map<String, Value>,
    ) -> Result<Vec<TokenId>, Fault> {
        todo!()
    }
    /// Ids between a generation and the next: boundary repair, `new`, generation prompt.
    pub fn stretch(
        &self,
        _tail: PriorTail,
        _new: &[Message],
        _tools: &[Tool],
        _kwargs: &Map<String, Value>,
    ) -> Result<Vec<TokenId>, Fault> {
        todo!()
    }
    /// Appends the text bytes of ids, markers included.
    pub fn detokenize(&self, _ids: &[TokenId], _out: &mut Vec<u8>) {
        todo!()
    }
}
