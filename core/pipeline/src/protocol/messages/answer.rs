//! A reply as one `message`.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::protocol::{ReplyMeta, json};
use crate::turn::{Finish, Reply, ToolCall, Usage};

#[derive(Serialize)]
pub(super) struct Message<'a> {
    id: String,
    r#type: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<Block<'a>>,
    stop_reason: Option<&'static str>,
    stop_sequence: Option<&'a str>,
    usage: UsageBody,
}

/// A content block.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    /// Thoughts.
    Thinking { thinking: &'a str, signature: &'a str },
    /// Text for the reader.
    Text { text: &'a str },
    /// A call.
    ToolUse { id: &'a str, name: &'a str, input: &'a RawValue },
}

/// Token counts in Anthropic's shape: the prompt is the sum of the three input counts. Nothing is
/// ever billed for being written to a cache.
#[derive(Serialize, Clone, Copy)]
pub(super) struct UsageBody {
    input_tokens: u32,
    cache_creation_input_tokens: u32,
    cache_read_input_tokens: u32,
    output_tokens: u32,
}

/// The whole body.
pub(in crate::protocol) fn reply(reply: &Reply, meta: &ReplyMeta) -> Vec<u8> {
    let signature = signature(meta);
    let stop = stop(reply, meta);
    let body = Message {
        content: blocks(reply, &signature),
        stop_reason: Some(stop.reason),
        stop_sequence: stop.sequence,
        ..opening(meta, usage(&meta.usage))
    };
    let mut out = Vec::new();
    json::write(&mut out, &body);
    out
}

/// A message of which nothing was said yet.
pub(super) fn opening(meta: &ReplyMeta, usage: UsageBody) -> Message<'_> {
    Message {
        id: format!("msg_{}", meta.id),
        r#type: "message",
        role: "assistant",
        model: &meta.model,
        content: Vec::new(),
        stop_reason: None,
        stop_sequence: None,
        usage,
    }
}

/// The blocks: thinking first, then text, then calls. None of them is empty.
pub(super) fn blocks<'a>(reply: &'a Reply, signature: &'a str) -> Vec<Block<'a>> {
    let thinking = reply.reasoning.as_deref().filter(|thinking| !thinking.is_empty());
    let text = (!reply.content.is_empty()).then_some(reply.content.as_str());
    thinking
        .map(|thinking| Block::Thinking { thinking, signature })
        .into_iter()
        .chain(text.map(|text| Block::Text { text }))
        .chain(reply.tool_calls.iter().filter_map(|call| {
            Some(Block::ToolUse { id: &call.id, name: &call.name, input: input(call)? })
        }))
        .collect()
}

/// The arguments as the object that clients expect, to the letter. Parsers give nothing but objects
/// and, for a tool without parameters, an empty text; anything else is no call that could be made.
fn input(call: &ToolCall) -> Option<&RawValue> {
    let text = call.arguments.trim();
    let text = if text.is_empty() { "{}" } else { text };
    let object: &RawValue = serde_json::from_str(text).ok()?;
    text.starts_with('{').then_some(object)
}

/// What clients send back with thoughts. It names the exchange; nothing is checked by it.
pub(super) fn signature(meta: &ReplyMeta) -> String {
    format!("rg1_{}", meta.id)
}

/// Why it ended, in Anthropic's words.
pub(super) struct Stop<'a> {
    pub(super) reason: &'static str,
    pub(super) sequence: Option<&'a str>,
}

/// An aborted generation has no word of its own; `max_tokens` is the one that tells agents that
/// text is missing at the end.
pub(super) fn stop<'a>(reply: &Reply, meta: &'a ReplyMeta) -> Stop<'a> {
    let called = reply.tool_calls.iter().any(|call| input(call).is_some());
    let (reason, sequence) = match (meta.finish, meta.stop_text.as_deref()) {
        (Finish::Length | Finish::Abort, _) => ("max_tokens", None),
        (Finish::Stop, _) if called => ("tool_use", None),
        (Finish::Stop, Some(text)) => ("stop_sequence", Some(text)),
        (Finish::Stop, None) => ("end_turn", None),
    };
    Stop { reason, sequence }
}

/// Counts in Anthropic's shape. An engine that does not tell of its cache counts as without one.
pub(super) fn usage(usage: &Usage) -> UsageBody {
    let cached = usage.cached_tokens.unwrap_or(0).min(usage.prompt_tokens);
    UsageBody {
        input_tokens: usage.prompt_tokens - cached,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: cached,
        output_tokens: usage.completion_tokens,
    }
}

impl UsageBody {
    /// The same before the first token was sampled.
    pub(super) fn at_start(self) -> Self {
        Self { output_tokens: 0, ..self }
    }
}
