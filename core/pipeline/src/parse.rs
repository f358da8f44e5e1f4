//! From sampled ids to a reply: reasoning, content and tool calls by one machine per model family.
//!
//! Nothing here knows a dialect. Nothing here fails: a value plus remarks. Text is never repaired
//! in silence: what does not fit the family's grammar is passed on as content, markers included,
//! and the reply is flagged `ill_formed` with a remark that says why.

mod call;
mod qwen3;

pub use qwen3::Machine;

use crate::id::TokenId;
use crate::render::{Family, Model};
use crate::turn::{Reply, Tool};

/// A parsed generation.
#[derive(Clone, PartialEq, Debug)]
pub struct Parsed {
    /// The reply in canonical form.
    pub reply: Reply,
    /// Whether reasoning was still open at the end.
    pub reasoning_open: bool,
}

/// Name and version of the parser of the model's family, as samples quote it.
pub fn version(model: &Model) -> &'static str {
    match model.family {
        Family::Qwen3 => "qwen3/1",
    }
}

/// Parses a whole generation. `prompt_tail` are the last ids of the prompt (the generation prompt
/// among them): they say whether reasoning is already open. `stop_text` is the stop string that
/// ended the answer: cut off the text, kept in the ids. `call_seed` makes tool-call ids unique.
///
/// It is [`Machine`] fed at once: parsing while ids arrive gives the same reply.
pub fn parse(
    model: &Model,
    prompt_tail: &[TokenId],
    ids: &[TokenId],
    stop_text: Option<&str>,
    tools: &[Tool],
    call_seed: &str,
) -> Parsed {
    match model.family {
        Family::Qwen3 => {
            let mut machine = Machine::new(model, prompt_tail);
            ids.iter().for_each(|&id| machine.push(id));
            machine.finish(stop_text, tools, call_seed)
        }
    }
}
