//! A reply as one `chat.completion`.

use serde::Serialize;
use serde_json::Value;

use crate::protocol::{ReplyMeta, json};
use crate::turn::{Finish, Reply, ToolCall, Usage};

#[derive(Serialize)]
struct Completion<'a> {
    id: String,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    usage: UsageBody,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: Message<'a>,
    logprobs: Value,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// Token counts in OpenAI's shape.
#[derive(Serialize)]
pub(super) struct UsageBody {
    prompt_tokens: u32,
    completion_tokens: u32,
    total_tokens: u32,
    prompt_tokens_details: Details,
}

#[derive(Serialize)]
struct Details {
    cached_tokens: u32,
}

/// The whole body.
pub(in crate::protocol) fn reply(reply: &Reply, meta: &ReplyMeta) -> Vec<u8> {
    let message = Message {
        role: "assistant",
        content: content(reply),
        reasoning_content: reply.reasoning.as_deref(),
        tool_calls: reply.tool_calls.iter().map(call).collect(),
    };
    let choice =
        Choice { index: 0, message, logprobs: Value::Null, finish_reason: finish(reply, meta) };
    let body = Completion {
        id: id(meta),
        object: "chat.completion",
        created: meta.created_s,
        model: &meta.model,
        choices: [choice],
        usage: usage(&meta.usage),
    };
    let mut out = Vec::new();
    json::write(&mut out, &body);
    out
}

fn call(call: &ToolCall) -> Call<'_> {
    let function = Function { name: &call.name, arguments: call.readable_arguments() };
    Call { id: &call.id, r#type: "function", function }
}

/// Id with OpenAI's prefix.
pub(super) fn id(meta: &ReplyMeta) -> String {
    format!("chatcmpl-{}", meta.id)
}

/// The text; null where a message has calls and no text.
pub(super) fn content(reply: &Reply) -> Option<&str> {
    let silent = reply.content.is_empty() && !reply.tool_calls.is_empty();
    (!silent).then_some(reply.content.as_str())
}

/// Why it ended, in OpenAI's words. An aborted generation has no word of its own there; `length` is
/// the one that tells agents that text is missing at the end.
pub(super) fn finish(reply: &Reply, meta: &ReplyMeta) -> &'static str {
    match meta.finish {
        Finish::Stop if reply.tool_calls.is_empty() => "stop",
        Finish::Stop => "tool_calls",
        Finish::Length | Finish::Abort => "length",
    }
}

/// Counts in OpenAI's shape. An engine that does not tell of its cache counts as without one.
pub(super) fn usage(usage: &Usage) -> UsageBody {
    UsageBody {
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        total_tokens: usage.prompt_tokens.saturating_add(usage.completion_tokens),
        prompt_tokens_details: Details { cached_tokens: usage.cached_tokens.unwrap_or(0) },
    }
}
