//! A request body, read into the canonical form.
//!
//! Unknown keys are ignored and explicit nulls are absent. A key that is there twice is refused. A
//! body without `max_tokens` is one whose tokens are to be counted.
//!
//! Not looked at: `metadata`, `context_management`, `container`, `service_tier`, `mcp_servers`, every
//! `cache_control`; and `thinking` with its effort, for what switches a template has and what they
//! do is the model's: who knows them sends `chat_template_kwargs`.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::message::{self, RawMessage};
use super::place::Place;
use super::tools::{self, RawTool};
use crate::fault::Fault;
use crate::protocol::json;
use crate::turn::{Asked, ReplyForm, Sampling};

/// The body, as far as it is looked at.
#[derive(Deserialize)]
#[serde(expecting = "a JSON object")]
struct RawRequest {
    model: Option<String>,
    system: Option<Box<RawValue>>,
    messages: Option<Vec<RawMessage>>,
    tools: Option<Vec<RawTool>>,
    tool_choice: Option<Value>,
    output_config: Option<OutputConfig>,
    /// The older name of `output_config.format`.
    output_format: Option<Value>,
    stream: Option<bool>,
    chat_template_kwargs: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "whole")]
    max_tokens: Option<u64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<i64>,
    stop_sequences: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct OutputConfig {
    format: Option<Value>,
}

/// Reads a request body.
pub(in crate::protocol) fn read(body: &[u8]) -> Result<Asked, Fault> {
    let mut raw: RawRequest = json::read(body)?;
    let sampling = sampling(&mut raw)?;
    let model = raw.model.ok_or_else(|| Place::top("model").bad("a model name is missing"))?;
    let offer = tools::offer(raw.tools.unwrap_or_default(), raw.tool_choice)?;
    let talk = message::talk(raw.system.as_deref(), &raw.messages.unwrap_or_default(), &offer)?;
    let mut skipped = offer.skipped;
    for (kind, count) in talk.skipped {
        *skipped.entry(kind).or_default() += count;
    }
    let form = match raw.stream {
        Some(true) => ReplyForm::Events { usage: true },
        _ => ReplyForm::Json,
    };
    Ok(Asked {
        tools: offer.tools.into(),
        loaded_tools: talk.loaded.into(),
        tool_choice: offer.choice,
        parallel_tool_calls: offer.parallel,
        format: raw.output_config.and_then(|config| config.format).or(raw.output_format),
        sampling,
        template_kwargs: raw.chat_template_kwargs.unwrap_or_default(),
        skipped,
        ..Asked::plain(model, talk.messages, form)
    })
}

/// The parameters, within the ranges that engines take: what they would refuse is better refused
/// here, with the field's name.
fn sampling(raw: &mut RawRequest) -> Result<Sampling, Fault> {
    let refuse = |name: &str, why: &str| Err(Place::top(name).bad(why));
    if raw.max_tokens == Some(0) {
        return refuse("max_tokens", "at least 1 is needed");
    }
    if raw.temperature.is_some_and(|value| value < 0.0) {
        return refuse("temperature", "0 or more is needed");
    }
    if raw.top_p.is_some_and(|value| value <= 0.0 || value > 1.0) {
        return refuse("top_p", "more than 0 and at most 1 is needed");
    }
    if raw.top_k.is_some_and(|value| value < -1) {
        return refuse("top_k", "a number of candidates is needed; -1 or 0 is off");
    }
    let stop = raw.stop_sequences.take().unwrap_or_default();
    Ok(Sampling {
        temperature: raw.temperature,
        top_p: raw.top_p,
        top_k: raw.top_k,
        // More than any context holds is the same as no bound.
        max_tokens: raw.max_tokens.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        // Empty ones stop nothing, and engines refuse them.
        stop: stop.into_iter().filter(|text| !text.is_empty()).collect(),
        ..Sampling::default()
    })
}

/// A count. Agents that compute it write `4096.0`.
fn whole<'de, D: Deserializer<'de>>(json: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(json)? else { return Ok(None) };
    let rounded = || number.as_f64().filter(|value| value.fract() == 0.0 && *value >= 0.0);
    let count = number.as_u64().or_else(|| rounded().map(|value| value as u64));
    count.map(Some).ok_or_else(|| serde::de::Error::custom("expected a whole number, 0 or more"))
}
