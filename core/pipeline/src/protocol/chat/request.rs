//! A request body, read into the canonical form.
//!
//! Unknown keys are ignored and explicit nulls are absent. A key that is there twice is refused.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::message::{self, RawMessage};
use super::sampling;
use crate::exact;
use crate::fault::{Fault, FaultKind};
use crate::protocol::json;
use crate::turn::{Asked, ReplyForm, Tool, ToolChoice};

/// The body, as far as it is looked at. `response_format` binds nothing: which part of the output it
/// is meant for depends on whether reasoning is open, which the engine's token route cannot know, so
/// mapping it would bend the reasoning of models that think. Agents that mean the engine's own switch
/// send it.
#[derive(Deserialize)]
#[serde(expecting = "a JSON object")]
pub(super) struct RawRequest {
    model: Option<String>,
    messages: Option<Vec<RawMessage>>,
    #[serde(default, deserialize_with = "exact_values")]
    tools: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "exact_values")]
    functions: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    response_format: Option<Value>,
    function_call: Option<Value>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    chat_template_kwargs: Option<Map<String, Value>>,
    n: Option<u64>,

    #[serde(default, deserialize_with = "whole")]
    pub(super) max_completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    pub(super) max_tokens: Option<u64>,
    pub(super) temperature: Option<f64>,
    pub(super) top_p: Option<f64>,
    pub(super) top_k: Option<i64>,
    pub(super) min_p: Option<f64>,
    pub(super) presence_penalty: Option<f64>,
    pub(super) frequency_penalty: Option<f64>,
    pub(super) seed: Option<i64>,
    pub(super) stop: Option<Value>,

    pub(super) sampling: Option<RawSampling>,
    pub(super) structured_outputs: Option<Value>,
    pub(super) guided_json: Option<Value>,
    pub(super) guided_regex: Option<Value>,
    pub(super) guided_choice: Option<Value>,
    pub(super) guided_grammar: Option<Value>,
    pub(super) logit_bias: Option<Value>,
    pub(super) stop_token_ids: Option<Value>,
    pub(super) repetition_penalty: Option<Value>,
    pub(super) min_tokens: Option<Value>,
    pub(super) ignore_eos: Option<Value>,
    pub(super) bad_words: Option<Value>,
    pub(super) allowed_token_ids: Option<Value>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

/// Rollgate's own extension.
#[derive(Deserialize)]
pub(super) struct RawSampling {
    pub(super) extra: Option<Map<String, Value>>,
}

/// Reads a request body.
pub(in crate::protocol) fn read(body: &[u8]) -> Result<Asked, Fault> {
    let mut raw: RawRequest = json::read(body)?;
    if raw.n.is_some_and(|n| n != 1) {
        return Err(bad("n", "one choice is made per request; leave `n` out or set it to 1"));
    }
    let sampling = sampling::sampling(&mut raw)?;
    let tool_choice = tool_choice(&raw)?;
    let mut tools = tools(&mut raw)?;
    if tool_choice == ToolChoice::None {
        tools.clear();
    }
    let usage = raw.stream_options.and_then(|options| options.include_usage).unwrap_or(false);
    let model = raw.model.ok_or_else(|| bad("model", "a model name is missing"))?;
    let (messages, skipped) = message::messages(raw.messages.unwrap_or_default())?;
    let form = match raw.stream {
        Some(true) => ReplyForm::Events { usage },
        _ => ReplyForm::Json,
    };
    Ok(Asked {
        tools: tools.into(),
        tool_choice,
        parallel_tool_calls: raw.parallel_tool_calls,
        format: raw.response_format,
        skipped,
        sampling,
        template_kwargs: raw.chat_template_kwargs.unwrap_or_default(),
        ..Asked::plain(model, messages, form)
    })
}

/// A fault of the request at this field.
pub(super) fn bad(param: impl Into<String>, why: &str) -> Fault {
    Fault::new(FaultKind::BadRequest, why).at(param)
}

/// The tools on offer, untouched. Functions in OpenAI's older form are wrapped into the newer one.
fn tools(raw: &mut RawRequest) -> Result<Vec<Tool>, Fault> {
    let mut tools = raw.tools.take().unwrap_or_default();
    for (index, tool) in tools.iter().enumerate() {
        let kind = tool.get("type").unwrap_or(&Value::Null);
        if kind != "function" {
            return Err(bad(format!("tools[{index}].type"), "only tools of type `function` exist"));
        }
        if !named(&tool["function"]) {
            let why = "a tool needs a name, a text that is not empty";
            return Err(bad(format!("tools[{index}].function.name"), why));
        }
    }
    for (index, function) in raw.functions.take().unwrap_or_default().into_iter().enumerate() {
        if !named(&function) {
            let why = "a function needs a name, a text that is not empty";
            return Err(bad(format!("functions[{index}].name"), why));
        }
        tools.push(serde_json::json!({"type": "function", "function": function}));
    }
    Ok(tools)
}

/// Which tools may be called, in OpenAI's newer form or its older one.
fn tool_choice(raw: &RawRequest) -> Result<ToolChoice, Fault> {
    let named = |name: &Value| match name.as_str() {
        Some(name) if !name.is_empty() => Ok(ToolChoice::Named(name.to_owned())),
        _ => Err(bad("tool_choice", "the tool to call has no name")),
    };
    let (choice, older) = match (&raw.tool_choice, &raw.function_call) {
        (Some(choice), _) => (choice, false),
        (None, Some(choice)) => (choice, true),
        (None, None) => return Ok(ToolChoice::Auto),
    };
    let word = match choice["type"].as_str() {
        Some("function") => return named(&choice["function"]["name"]),
        Some("custom") => return named(&choice["custom"]["name"]),
        Some("allowed_tools") => &choice["allowed_tools"]["mode"],
        _ if older && choice.is_object() => return named(&choice["name"]),
        _ => choice,
    };
    match word.as_str() {
        Some("auto") => Ok(ToolChoice::Auto),
        Some("none") => Ok(ToolChoice::None),
        Some("required") => Ok(ToolChoice::Required),
        _ => Err(bad("tool_choice", "it is none of `auto`, `none`, `required` and a named tool")),
    }
}

fn named(function: &Value) -> bool {
    function.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty())
}

/// Values that become prompt text: their integers are exact.
pub(in crate::protocol) fn exact_values<'de, D: Deserializer<'de>>(
    json: D,
) -> Result<Option<Vec<Value>>, D::Error> {
    let Some(raw) = Option::<Vec<Box<RawValue>>>::deserialize(json)? else { return Ok(None) };
    let read = |raw: &RawValue| {
        exact::read(raw.get()).ok_or_else(|| serde::de::Error::custom("a value nested too deep"))
    };
    raw.iter().map(|raw| read(raw)).collect::<Result<Vec<_>, _>>().map(Some)
}

/// A count. Agents that compute it write `4096.0`.
pub(in crate::protocol) fn whole<'de, D: Deserializer<'de>>(
    json: D,
) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(json)? else { return Ok(None) };
    let rounded = || number.as_f64().filter(|value| value.fract() == 0.0 && *value >= 0.0);
    let count = number.as_u64().or_else(|| rounded().map(|value| value as u64));
    count.map(Some).ok_or_else(|| serde::de::Error::custom("expected a whole number, 0 or more"))
}
