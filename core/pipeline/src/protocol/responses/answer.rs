//! A reply as one `response`, or as a `response.compaction`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{compaction, ids};
use crate::protocol::{ReplyMeta, StreamMeta, json};
use crate::turn::{Finish, Purpose, Reply, ToolCall, Usage, WireForm, WireTools};

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

/// An output item on the wire.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item<'a> {
    Reasoning {
        id: &'a str,
        summary: [(); 0],
        content: Vec<Part<'a>>,
        encrypted_content: &'a str,
        status: &'static str,
    },
    Message {
        id: &'a str,
        status: &'static str,
        role: &'static str,
        content: Vec<Part<'a>>,
    },
    FunctionCall {
        id: &'a str,
        call_id: &'a str,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        arguments: &'a str,
        status: &'static str,
    },
    CustomToolCall {
        id: &'a str,
        call_id: &'a str,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        input: &'a str,
        status: &'static str,
    },
    ToolSearchCall {
        id: &'a str,
        call_id: &'a str,
        execution: &'static str,
        arguments: &'a RawValue,
        status: &'static str,
    },
    LocalShellCall {
        id: &'a str,
        call_id: &'a str,
        action: &'a Value,
        status: &'static str,
    },
    Compaction {
        id: &'a str,
        encrypted_content: &'a str,
    },
}

/// A content part of an item.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    ReasoningText { text: &'a str },
    OutputText { text: &'a str, annotations: [(); 0], logprobs: [(); 0] },
}

/// An output item with all that is said of it.
pub(super) struct Output<'a> {
    pub id: String,
    pub status: &'static str,
    pub said: Said<'a>,
}

/// What an item says.
pub(super) enum Said<'a> {
    Reasoning { text: &'a str, blob: String },
    Message { text: &'a str },
    Call { call_id: &'a str, name: &'a str, namespace: Option<&'a str>, arguments: &'a str },
    Custom { call_id: &'a str, name: &'a str, namespace: Option<&'a str>, input: Cow<'a, str> },
    Search { call_id: &'a str, arguments: &'a RawValue },
    Shell { call_id: &'a str, action: Value },
    Compaction { blob: String },
}

impl Output<'_> {
    /// The item as it is in the end.
    pub(super) fn item(&self) -> Item<'_> {
        self.shown(true)
    }

    /// The item before any of its text was given.
    pub(super) fn begun(&self) -> Item<'_> {
        self.shown(false)
    }

    /// The content part that holds its text, if it has parts; with nothing in it if not `whole`.
    pub(super) fn part(&self, whole: bool) -> Option<Part<'_>> {
        let text = |text| if whole { text } else { "" };
        match self.said {
            Said::Reasoning { text: said, .. } => Some(Part::ReasoningText { text: text(said) }),
            Said::Message { text: said } => {
                Some(Part::OutputText { text: text(said), annotations: [], logprobs: [] })
            }
            _ => None,
        }
    }

    fn shown(&self, whole: bool) -> Item<'_> {
        let id = &self.id;
        let status = if whole { self.status } else { "in_progress" };
        let content = || self.part(true).into_iter().filter(|_| whole).collect();
        match &self.said {
            Said::Reasoning { blob, .. } => {
                let encrypted_content = blob;
                Item::Reasoning { id, summary: [], content: content(), encrypted_content, status }
            }
            Said::Message { .. } => {
                Item::Message { id, status, role: "assistant", content: content() }
            }
            Said::Call { call_id, name, namespace, arguments } => {
                let arguments = if whole { arguments } else { "" };
                Item::FunctionCall { id, call_id, name, namespace: *namespace, arguments, status }
            }
            Said::Custom { call_id, name, namespace, input } => {
                let input = if whole { input } else { "" };
                Item::CustomToolCall { id, call_id, name, namespace: *namespace, input, status }
            }
            Said::Search { call_id, arguments } => {
                Item::ToolSearchCall { id, call_id, execution: "client", arguments, status }
            }
            Said::Shell { call_id, action } => Item::LocalShellCall { id, call_id, action, status },
            Said::Compaction { blob } => Item::Compaction { id, encrypted_content: blob },
        }
    }
}

/// The output items of a reply.
pub(super) fn output<'a>(reply: &'a Reply, meta: &'a ReplyMeta) -> Vec<Output<'a>> {
    let done = |id: String, said| Output { id, status: "completed", said };
    if meta.purpose == Purpose::Compaction {
        let blob = compaction::encode(&reply.content);
        let item = done(format!("cmp_{}", meta.id), Said::Compaction { blob });
        return if reply.content.trim().is_empty() { Vec::new() } else { vec![item] };
    }
    let mut output = Vec::new();
    if let Some(text) = reply.reasoning.as_deref().filter(|text| !text.is_empty()) {
        let said = Said::Reasoning { text, blob: ids::blob(&meta.id) };
        output.push(done(format!("rs_{}", meta.id), said));
    }
    // White space beside reasoning or calls is no message. An answer of nothing is an empty one.
    let nothing = output.is_empty() && reply.tool_calls.is_empty();
    if nothing || !reply.content.trim().is_empty() {
        let said = Said::Message { text: &reply.content };
        output.push(done(format!("msg_{}", meta.id), said));
    }
    for (place, call) in reply.tool_calls.iter().enumerate() {
        let said = said_of_call(call, &meta.wire_tools);
        let prefix = match said {
            Said::Custom { .. } => "ctc",
            Said::Search { .. } => "tsc",
            Said::Shell { .. } => "lsh",
            _ => "fc",
        };
        output.push(done(format!("{prefix}_{}_{place}", meta.id), said));
    }
    if is_cut(meta)
        && reply.tool_calls.is_empty()
        && let Some(last) = output.last_mut()
    {
        last.status = "incomplete";
    }
    output
}

/// The call in the form in which its tool was declared.
fn said_of_call<'a>(call: &'a ToolCall, wire_tools: &'a WireTools) -> Said<'a> {
    let ToolCall { id: call_id, name, arguments } = call;
    let plain = Said::Call { call_id, name, namespace: None, arguments };
    let Some(wire) = wire_tools.get(name) else { return plain };
    let (name, namespace) = (&wire.name, wire.namespace.as_deref());
    match wire.form {
        WireForm::Function => Said::Call { call_id, name, namespace, arguments },
        WireForm::Custom => {
            Said::Custom { call_id, name, namespace, input: custom_input(arguments) }
        }
        WireForm::ToolSearch => match serde_json::from_str(arguments) {
            Ok(arguments) => Said::Search { call_id, arguments },
            Err(_) => plain,
        },
        WireForm::LocalShell => match serde_json::from_str::<Map<String, Value>>(arguments) {
            Ok(arguments) if arguments.get("command").is_some_and(Value::is_array) => {
                let mut action = json!({"type": "exec", "env": {}});
                if let Some(action) = action.as_object_mut() {
                    action.extend(arguments);
                }
                Said::Shell { call_id, action }
            }
            _ => plain,
        },
    }
}

/// The free text that a call of a custom tool carries. Arguments that do not have it as `input` are
/// the text themselves: the tool will say what is wrong with them.
pub(super) fn custom_input(arguments: &str) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow)]
        input: Cow<'a, str>,
    }
    match serde_json::from_str(arguments) {
        Ok(Arguments { input }) => input,
        Err(_) => Cow::Borrowed(arguments),
    }
}

/// Whether the generation ended before the model did.
fn is_cut(meta: &ReplyMeta) -> bool {
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
    } else if meta.purpose == Purpose::Compaction && reply.content.trim().is_empty() {
        response.status = "failed";
        let message = "the model wrote no summary; ask again";
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
