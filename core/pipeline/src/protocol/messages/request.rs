//! A request body, read into the canonical form.
//!
//! Unknown keys are ignored and explicit nulls are absent. A key that is there twice is refused. A
//! body without `max_tokens` is one whose tokens are to be counted.
//!
//! Not looked at: `metadata`, `context_management`, `container`, `service_tier`, `mcp_servers`, every
//! `cache_control`; and `thinking` with its effort, for what switches a template has and what they
//! do is the model's: who knows them sends `chat_template_kwargs`.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::blocks::Skipped;
use super::message::{self, RawMessage, Said};
use super::place::Place;
use super::tools::{self, Listed, RawTool};
use crate::fault::Fault;
use crate::protocol::media::skip_all;
use crate::protocol::parts::{fault_of, slice};
use crate::protocol::{Parts, Past, Read, Whole, json};
use crate::turn::{Asked, Message, ReplyForm, Sampling, Tool};

/// The body, as far as it is looked at.
#[derive(Deserialize)]
#[serde(expecting = "a JSON object")]
pub(crate) struct RawRequest {
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
pub(crate) struct OutputConfig {
    format: Option<Value>,
}

/// Reads a request body.
pub(in crate::protocol) fn read(body: &[u8]) -> Result<Asked, Fault> {
    let mut frame: RawRequest = json::read(body)?;
    let tools = frame.tools.take().map(|list| tools::listed(list).map(Rc::new));
    let none = Listed::default();
    let deferred = match &tools {
        Some(Ok(tools)) => &tools.deferred,
        _ => &none.deferred,
    };
    let (mut entries, mut bad) = (Vec::new(), None);
    for (index, raw) in frame.messages.take().unwrap_or_default().iter().enumerate() {
        match message::entry(index, raw, deferred) {
            Ok(said) => entries.push(Rc::new(said)),
            Err(fault) => {
                bad = Some(fault);
                break;
            }
        }
    }
    let whole = Whole { frame, tools, standing: None, entries: Some(&entries), bad };
    Messages::asked(whole, &(), None, &mut ()).map(|(asked, ())| asked)
}

/// The parts of a request.
pub(crate) struct Messages;

impl Parts for Messages {
    const LIST: &'static str = "messages";
    const STANDING: Option<&'static str> = Some("system");
    type Frame = RawRequest;
    type Tools = Listed;
    type Standing = Said;
    type Entry = Said;
    type Trace = ();
    type Pool = ();

    fn frame(text: &str) -> Option<RawRequest> {
        slice(text)
    }

    fn tools(text: &str) -> Option<Read<Listed>> {
        slice(text).map(|list| tools::listed(list).map(Rc::new))
    }

    fn standing(text: &str, tools: Option<&Listed>) -> Option<Read<Said>> {
        let raw: &RawValue = slice(text)?;
        let none = Listed::default();
        Some(message::standing(Some(raw), &tools.unwrap_or(&none).deferred).map(Rc::new))
    }

    fn entry(text: &str, index: usize, tools: Option<&Listed>) -> Option<Read<Said>> {
        let raw = slice(text)?;
        let none = Listed::default();
        Some(message::entry(index, &raw, &tools.unwrap_or(&none).deferred).map(Rc::new))
    }

    fn standing_depends(said: &Said) -> bool {
        said.refers
    }

    fn entry_depends(said: &Said) -> bool {
        said.refers
    }

    fn asked(
        whole: Whole<'_, Self>,
        _past: &dyn Past,
        _before: Option<(&(), usize)>,
        _pool: &mut (),
    ) -> Result<(Asked, ()), Fault> {
        let mut raw = whole.frame;
        let sampling = sampling(&mut raw)?;
        let model = raw.model.ok_or_else(|| Place::top("model").bad("a model name is missing"))?;
        let none = Listed::default();
        let listed = match &whole.tools {
            None => Ok(&none),
            Some(listed) => listed.as_deref().map_err(Fault::clone),
        };
        let offer = tools::offer(listed.clone(), raw.tool_choice)?;
        let listed = listed?;
        let entries = whole.entries.unwrap_or_default();
        let top = Place::top("messages");
        if entries.is_empty() && whole.bad.is_none() {
            return Err(top.bad("at least one message is needed"));
        }
        let standing = match whole.standing {
            Some(standing) => standing?,
            None => Rc::new(message::standing(raw.system.as_deref(), &listed.deferred)?),
        };
        if let Some(fault) = whole.bad {
            return Err(fault);
        }
        let talk = talk(&standing, entries);
        if talk.messages.is_empty() {
            return Err(top.bad("the messages are all empty"));
        }
        let mut skipped = listed.skipped.clone();
        for (kind, count) in talk.skipped {
            *skipped.entry(kind).or_default() += count;
        }
        let form = match raw.stream {
            Some(true) => ReplyForm::Events { usage: true },
            _ => ReplyForm::Json,
        };
        let asked = Asked {
            tools: offer.tools,
            loaded_tools: talk.loaded.into_values().cloned().collect::<Vec<_>>().into(),
            tool_choice: offer.choice,
            parallel_tool_calls: offer.parallel,
            format: raw.output_config.and_then(|config| config.format).or(raw.output_format),
            sampling,
            template_kwargs: raw.chat_template_kwargs.unwrap_or_default(),
            skipped,
            ..Asked::plain(model, talk.messages, form)
        };
        Ok((asked, ()))
    }

    fn form_fault(body: &[u8]) -> Option<Fault> {
        fault_of::<RawRequest>(body)
    }
}

/// The conversation, and what was left out of it.
#[derive(Default)]
struct Talk<'a> {
    messages: Vec<Message>,
    skipped: Skipped,
    /// Deferred tools that results refer to, by name.
    loaded: BTreeMap<&'a str, &'a Tool>,
}

fn talk<'a>(standing: &'a Said, entries: &'a [Rc<Said>]) -> Talk<'a> {
    let mut talk = Talk::default();
    for said in std::iter::once(standing).chain(entries.iter().map(Rc::as_ref)) {
        talk.messages.extend_from_slice(&said.messages);
        skip_all(&mut talk.skipped, &said.skipped);
        talk.loaded.extend(said.loaded.iter().map(|(name, tool)| (name.as_str(), tool)));
    }
    talk
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
