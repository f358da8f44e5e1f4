//! From sampled ids to a reply: reasoning, content and tool calls by one machine per model family.
//!
//! Nothing here knows a dialect. Nothing here fails: a value plus remarks. Text is never repaired
//! in silence: what does not fit the family's grammar is passed on as content, markers included,
//! and the reply is flagged `ill_formed` with a remark that says why. What is understood though it is
//! not quite in form (a missing closing tag, a call in an open thought) is only remarked on.
//!
//! Most families share one machine (`machine.rs`, which has the rules) over a table of their markers
//! and a reader of calls (`grammar.rs`). What a call is, where reports disagree:
//!
//! - An empty value (F06) is the empty string where the tool's schema allows a string; else the
//!   argument is left out (remark `call_value_empty`). See `schema.rs`.
//! - Text in a raw value that looks like its closing tag (F08) ends it only if the next thing of the
//!   grammar follows: another parameter, or the end of the call. See `elements.rs` and `glm45.rs`.
//! - A call in open reasoning (G04) ends the reasoning if it is an attempt at a call and the thought
//!   is not closed before the call is; talk about markers stays a thought.
//! - Thoughts nobody asked for (G06) are handed on as reasoning all the same; a dialect decides what
//!   it shows.
//! - Markers spelled with ordinary tokens (F11) are text, in every family.
//! - Arguments written in JSON are the model's bytes, repeated keys and all. Arguments written one by
//!   one become JSON in the order in which they were written; the last of equal keys wins (remark
//!   `call_key_repeated`).

mod arguments;
mod bytes;
mod call;
mod deepseek;
mod draft;
mod elements;
#[cfg(test)]
mod fake;
mod glm45;
mod grammar;
mod harmony;
mod kimi;
mod llama31;
mod machine;
mod minimax;
mod mistral;
mod object;
mod qwen3;
mod qwen3_coder;
mod schema;
#[cfg(test)]
mod suite;

use crate::id::TokenId;
use crate::render::{Family, Markers, Model, Tokenizer};
use crate::turn::{Reply, Tool};

/// A parsed generation.
#[derive(Clone, PartialEq, Debug)]
pub struct Parsed {
    /// The reply in canonical form.
    pub reply: Reply,
    /// Whether reasoning was still open at the end.
    pub reasoning_open: bool,
}

/// What a machine is made for.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The model family's marker tokens.
    pub markers: &'a Markers,
    /// Ids to bytes.
    pub tokenizer: &'a dyn Tokenizer,
    /// The last ids of the prompt, the generation prompt among them: they say whether reasoning is
    /// already open.
    pub prompt_tail: &'a [TokenId],
    /// The tools on offer: what their schemas say types the values of calls written as plain text.
    pub tools: &'a [Tool],
}

/// What is known once a generation is over.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// The stop text that ended it: cut off the text, kept in the ids.
    pub stop_text: Option<&'a str>,
    /// Makes ids of tool calls unique.
    pub call_seed: &'a str,
}

/// Parses a generation id by id. There is one kind per model family.
pub trait Machine {
    /// Takes the next sampled id.
    fn push(&mut self, id: TokenId);

    /// The reply to what was pushed.
    fn finish(self: Box<Self>, end: &End<'_>) -> Parsed;
}

/// Name and version of the parser of the model's family, as samples quote it.
pub fn version(model: &Model) -> &'static str {
    match model.family {
        Family::Qwen3 => "qwen3/1",
        Family::Qwen3Coder => "qwen3-coder/1",
        Family::DeepSeekV3 => "deepseek-v3/1",
        Family::DeepSeekV31 => "deepseek-v3.1/1",
        Family::Llama31 => "llama3.1/1",
        Family::Harmony => "harmony/1",
        Family::Glm45 => "glm4.5/1",
        Family::KimiK2 => "kimi-k2/1",
        Family::MiniMaxM2 => "minimax-m2/1",
        Family::Mistral => "mistral/1",
    }
}

/// A machine of this family.
pub fn machine<'a>(family: Family, setting: Setting<'a>) -> Box<dyn Machine + 'a> {
    let grammar = match family {
        Family::Qwen3 => &qwen3::GRAMMAR,
        Family::Qwen3Coder => &qwen3_coder::GRAMMAR,
        Family::DeepSeekV3 => &deepseek::V3,
        Family::DeepSeekV31 => &deepseek::V31,
        Family::Glm45 => &glm45::GRAMMAR,
        Family::KimiK2 => &kimi::GRAMMAR,
        Family::MiniMaxM2 => &minimax::GRAMMAR,
        Family::Llama31 => return Box::new(llama31::Llama31::new(setting)),
        Family::Harmony => return Box::new(harmony::Harmony::new(setting)),
        Family::Mistral => return Box::new(mistral::Mistral::new(setting)),
    };
    Box::new(machine::Walker::new(grammar, setting))
}

/// Parses a whole generation. `prompt_tail` are the last ids of the prompt (the generation prompt
/// among them): they say whether reasoning is already open. `stop_text` is the stop string that
/// ended the answer: cut off the text, kept in the ids. `call_seed` makes tool-call ids unique.
///
/// It is a [`Machine`] fed at once: parsing while ids arrive gives the same reply.
pub fn parse(
    model: &Model,
    prompt_tail: &[TokenId],
    ids: &[TokenId],
    stop_text: Option<&str>,
    tools: &[Tool],
    call_seed: &str,
) -> Parsed {
    let setting =
        Setting { markers: &model.markers, tokenizer: &*model.tokenizer, prompt_tail, tools };
    let mut machine = machine(model.family, setting);
    ids.iter().for_each(|&id| machine.push(id));
    machine.finish(&End { stop_text, call_seed })
}
