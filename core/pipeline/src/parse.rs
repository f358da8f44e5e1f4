//! From sampled ids to a reply: reasoning, content and tool calls by one machine per model family.
//!
//! Nothing here knows a dialect. Nothing here fails: a value plus remarks.

mod qwen3;

use crate::id::TokenId;
use crate::render::Model;
use crate::turn::{Reply, Tool};

/// A parsed generation.
#[derive(Clone, PartialEq, Debug)]
pub struct Parsed {
    pub reply: Reply,
    /// Whether reasoning was still open at the end.
    pub reasoning_open: bool,
}

/// Parses a whole generation. `prompt_tail` are the last ids of the prompt (the generation prompt
/// among them): they say whether reasoning is already open. `stop_text` is the stop string that
/// ended the answer: cut off the text, kept in the ids. `call_seed` makes tool-call ids unique.
pub fn version(_model: &Model) -> &'static str {
    "qwen3/1"
}

pub fn parse(
    _model: &Model,
    _prompt_tail: &[TokenId],
    _ids: &[TokenId],
    _stop_text: Option<&str>,
    _tools: &[Tool],
    _call_seed: &str,
) -> Parsed {
    todo!()
}
