//! A request body, read into the canonical form.
//!
//! Unknown keys are ignored and explicit nulls are absent. Nothing is stored between requests: what
//! a request would have to be completed from is refused.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::compaction;
use super::conversation::Conversation;
use super::items::{self, Input};
use super::tools::{ToolList, Tools};
use crate::fault::{Fault, FaultKind};
use crate::protocol::chat::{exact_values, whole, within};
use crate::protocol::{Past, json};
use crate::turn::{Asked, Message, Purpose, ReplyForm, Role, Sampling, ToolChoice};

/// The body, as far as it is looked at. `reasoning` (effort, summary) and `text` (verbosity, format)
/// bind nothing: how much a model thinks is up to the session's template switches.
#[derive(Deserialize)]
#[serde(expecting = "a JSON object")]
struct RawRequest {
    model: Option<String>,
    input: Option<Input>,
    instructions: Option<String>,
    #[serde(default, deserialize_with = "exact_values")]
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    stream: Option<bool>,
    #[serde(default, deserialize_with = "whole")]
    max_output_tokens: Option<u64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    text: Option<Value>,
    chat_template_kwargs: Option<Map<String, Value>>,
    sampling: Option<RawSampling>,

    previous_response_id: Option<Value>,
    conversation: Option<Value>,
    prompt: Option<Value>,
    background: Option<bool>,

    reasoning: Option<Value>,
    metadata: Option<Value>,
    truncation: Option<Value>,
    service_tier: Option<Value>,
    prompt_cache_key: Option<Value>,
    safety_identifier: Option<Value>,
    user: Option<Value>,
}

/// Rollgate's own extension.
#[derive(Deserialize)]
struct RawSampling {
    extra: Option<Map<String, Value>>,
}

/// Reads a request body.
pub(in crate::protocol) fn read(body: &[u8], past: &dyn Past) -> Result<Asked, Fault> {
    asked(json::read(body)?, past)
}

/// Reads the body of a compaction request: the answer is the compaction, as a body of its own kind.
pub fn read_compact(body: &[u8], past: &dyn Past) -> Result<Asked, Fault> {
    let mut raw: RawRequest = json::read(body)?;
    raw.stream = None;
    let mut asked = asked(raw, past)?;
    if asked.purpose == Purpose::Turn {
        compact(&mut asked);
    }
    let asked_of_us = asked.messages.len() - 1;
    let kept = compaction::kept(&asked.messages[..asked_of_us]);
    asked.echo = Map::from_iter([(compaction::KEPT.to_owned(), kept)]);
    Ok(asked)
}

fn compact(asked: &mut Asked) {
    asked.purpose = Purpose::Compaction;
    asked.messages.push(Message::text(Role::User, compaction::INSTRUCTION));
}

fn asked(mut raw: RawRequest, past: &dyn Past) -> Result<Asked, Fault> {
    refuse_stored(&raw)?;
    let echo = echo(&mut raw);
    let sampling = sampling(&mut raw)?;
    let Input(mut input) = raw.input.unwrap_or_default();
    let triggered = input.pop_if(|item| item.r#type.as_deref() == Some("compaction_trigger"));
    let mut lists = vec![ToolList {
        place: "tools".to_owned(),
        tools: raw.tools.unwrap_or_default(),
        found_by: None,
    }];
    lists.extend(input.iter_mut().enumerate().filter_map(|(at, item)| item.take_tools(at)));
    let tools = Tools::read(lists)?;
    let tool_choice = tools.choice(raw.tool_choice.as_ref())?;

    let mut talk = Conversation::new(past);
    if let Some(instructions) = raw.instructions.filter(|text| !text.is_empty()) {
        talk.say(Role::System, instructions.into());
    }
    for (index, item) in input.into_iter().enumerate() {
        items::add(&mut talk, &tools, index, item)?;
    }
    tools.hosted.iter().for_each(|kind| talk.skip(kind));
    let (messages, skipped) = talk.finish();
    if messages.is_empty() {
        return Err(bad("input", "at least one message is needed"));
    }
    let model = raw.model.ok_or_else(|| bad("model", "a model name is missing"))?;
    let form = match raw.stream {
        Some(true) => ReplyForm::Events { usage: true },
        _ => ReplyForm::Json,
    };
    let mut asked = Asked {
        tools: match tool_choice {
            ToolChoice::None => Default::default(),
            _ => tools.offered.into(),
        },
        loaded_tools: tools.found.into_values().flatten().collect::<Vec<_>>().into(),
        wire_tools: tools.wire,
        tool_choice,
        parallel_tool_calls: raw.parallel_tool_calls,
        format: raw.text.and_then(format),
        sampling,
        template_kwargs: raw.chat_template_kwargs.unwrap_or_default(),
        skipped,
        echo,
        ..Asked::plain(model, messages, form)
    };
    if triggered.is_some() {
        compact(&mut asked);
    }
    Ok(asked)
}

/// The form that the text was asked to have, where it was.
fn format(mut text: Value) -> Option<Value> {
    let format = text.get_mut("format").map(Value::take)?;
    (format.is_object() && format["type"] != "text").then_some(format)
}

/// A fault of the request at this field.
pub(super) fn bad(param: impl Into<String>, why: &str) -> Fault {
    Fault::new(FaultKind::BadRequest, why).at(param)
}

/// Refuses what would need earlier requests, or templates, that nobody kept.
fn refuse_stored(raw: &RawRequest) -> Result<(), Fault> {
    if raw.previous_response_id.is_some() {
        let why = "responses are not stored here; leave `previous_response_id` out, set `store` to \
                   false and send the whole conversation as `input`";
        return Err(bad("previous_response_id", why));
    }
    if raw.conversation.is_some() {
        let why = "conversations are not stored here; send the whole conversation as `input`";
        return Err(bad("conversation", why));
    }
    if raw.prompt.is_some() {
        let why = "prompt templates are not stored here; send `instructions` and `input`";
        return Err(bad("prompt", why));
    }
    if raw.background == Some(true) {
        let why = "nothing runs in the background here; leave `background` out";
        return Err(bad("background", why));
    }
    Ok(())
}

/// What the answer repeats. Instructions, input and tools are long and known to who sent them: they
/// are not repeated.
fn echo(raw: &mut RawRequest) -> Map<String, Value> {
    let mut echo = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            echo.insert(name.to_owned(), value);
        }
    };
    put("max_output_tokens", raw.max_output_tokens.map(Value::from));
    put("metadata", raw.metadata.take());
    put("parallel_tool_calls", raw.parallel_tool_calls.map(Value::from));
    put("prompt_cache_key", raw.prompt_cache_key.take());
    put("reasoning", raw.reasoning.take());
    put("safety_identifier", raw.safety_identifier.take());
    put("service_tier", raw.service_tier.take());
    put("temperature", raw.temperature.map(Value::from));
    put("text", raw.text.clone());
    put("tool_choice", raw.tool_choice.clone());
    put("top_p", raw.top_p.map(Value::from));
    put("truncation", raw.truncation.take());
    put("user", raw.user.take());
    echo
}

fn sampling(raw: &mut RawRequest) -> Result<Sampling, Fault> {
    if raw.max_output_tokens == Some(0) {
        return Err(bad("max_output_tokens", "at least 1 is needed"));
    }
    within("temperature", raw.temperature, 0.0, f64::MAX)?;
    within("top_p", raw.top_p, f64::MIN_POSITIVE, 1.0)?;
    Ok(Sampling {
        temperature: raw.temperature,
        top_p: raw.top_p,
        // More than any context holds is the same as no bound.
        max_tokens: raw.max_output_tokens.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        extra: raw.sampling.take().and_then(|own| own.extra).unwrap_or_default(),
        ..Sampling::default()
    })
}
