//! A reply as one `response`, or as a `response.compaction`.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::compaction;
use super::output::{Item, Output, output};
use crate::protocol::{ReplyMeta, StreamMeta, json};
use crate::turn::{Finish, Purpose, Reply, Usage};

/// What of a response is made known when.
#[derive(Serialize)]
pub(super) struct Response<'a> {
    id: String,
    object: &'static str,
    created_at: u64,
    pub status: &'static str,
    background: bool,
    pub error: Option<ErrorBody<'a>>,
    pub incomplete_details: Option<Incomplete>,
    instructions: (),
    model: &'a str,
    pub output: Vec<Item<'a>>,
    previous_response_id: (),
    store: bool,
    tools: [(); 0],
    pub usage: Option<UsageBody>,
    #[serde(flatten)]
    echo: &'a Map<String, Value>,
}

/// Why a response failed.
#[derive(Serialize)]
pub(super) struct ErrorBody<'a> {
    pub code: &'a str,
    pub message: &'a str,
}

/// Why a response is not whole.
#[derive(Serialize)]
pub(super) struct Incomplete {
    reason: &'static str,
}

/// Token counts in the shape of Responses. How many of the sampled tokens are reasoning is not
/// counted, nor what engines write to their caches: 0.
#[derive(Serialize)]
pub(super) struct UsageBody {
    input_tokens: u32,
    input_tokens_details: InputDetails,
    output_tokens: u32,
    output_tokens_details: OutputDetails,
    total_tokens: u32,
}

#[derive(Serialize)]
struct InputDetails {
    cached_tokens: u32,
    cache_write_tokens: u32,
}

#[derive(Serialize)]
struct OutputDetails {
    reasoning_tokens: u32,
}

/// Whether the generation ended before the model did.
pub(super) fn is_cut(meta: &ReplyMeta) -> bool {
    meta.finish != Finish::Stop
}

/// The response in its end state, without its output.
pub(super) fn ended<'a>(
    reply: &Reply,
    meta: &'a ReplyMeta,
    stream: &'a StreamMeta,
    echo: &'a Map<String, Value>,
) -> Response<'a> {
    let mut response = begun(stream, echo);
    response.usage = Some(usage(&meta.usage));
    if is_cut(meta) {
        response.status = "incomplete";
        response.incomplete_details = Some(Incomplete { reason: "max_output_tokens" });
    } else if meta.purpose == Purpose::Compaction
        && let Some(message) = compaction::unsummed(reply, meta)
    {
        response.status = "failed";
        response.error = Some(ErrorBody { code: "empty_summary", message });
    } else {
        response.status = "completed";
    }
    response
}

/// The response of which nothing is there yet.
pub(super) fn begun<'a>(meta: &'a StreamMeta, echo: &'a Map<String, Value>) -> Response<'a> {
    Response {
        id: format!("resp_{}", meta.id),
        object: "response",
        created_at: meta.created_s,
        status: "in_progress",
        background: false,
        error: None,
        incomplete_details: None,
        instructions: (),
        model: &meta.model,
        output: Vec::new(),
        previous_response_id: (),
        store: false,
        tools: [],
        usage: None,
        echo,
    }
}

/// What clients expect to find repeated, where the request did not say it.
pub(super) fn settled(echo: &Map<String, Value>) -> Map<String, Value> {
    let mut settled = echo.clone();
    let defaults = [
        ("max_output_tokens", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", true.into()),
        ("reasoning", json!({"effort": null, "summary": null})),
        ("temperature", Value::Null),
        ("text", json!({"format": {"type": "text"}})),
        ("tool_choice", "auto".into()),
        ("top_p", Value::Null),
        ("truncation", "disabled".into()),
    ];
    for (name, value) in defaults {
        settled.entry(name).or_insert(value);
    }
    settled
}

/// What a stream of this answer is labelled with.
pub(super) fn stream_meta(meta: &ReplyMeta) -> StreamMeta {
    let (id, model) = (meta.id.clone(), meta.model.clone());
    StreamMeta { id, created_s: meta.created_s, model }
}

/// The whole body.
pub(in crate::protocol) fn reply(reply: &Reply, meta: &ReplyMeta) -> Vec<u8> {
    let output = output(reply, meta);
    let items = output.iter().map(Output::item);
    let mut out = Vec::new();
    if let Some(kept) = meta.echo.get(compaction::KEPT) {
        compaction::write(&mut out, kept, items, meta);
        return out;
    }
    let (stream, echo) = (stream_meta(meta), settled(&meta.echo));
    let response = Response { output: items.collect(), ..ended(reply, meta, &stream, &echo) };
    json::write(&mut out, &response);
    out
}

/// Token counts.
pub(super) fn usage(usage: &Usage) -> UsageBody {
    UsageBody {
        input_tokens: usage.prompt_tokens,
        input_tokens_details: InputDetails {
            cached_tokens: usage.cached_tokens.unwrap_or_default(),
            cache_write_tokens: 0,
        },
        output_tokens: usage.completion_tokens,
        output_tokens_details: OutputDetails { reasoning_tokens: 0 },
        total_tokens: usage.prompt_tokens.saturating_add(usage.completion_tokens),
    }
}
