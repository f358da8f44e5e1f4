//! A request body, read into the canonical form.
//!
//! Unknown keys are ignored and explicit nulls are absent. A key that is there twice is refused.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::message::{self, RawMessage, Said};
use super::sampling;
use crate::exact;
use crate::fault::{Fault, FaultKind};
use crate::protocol::media::skip_all;
use crate::protocol::parts::{fault_of, slice};
use crate::protocol::{Parts, Past, Read, Whole, json};
use crate::turn::{Asked, ReplyForm, Role, ToolChoice, Tools};

/// The body, as far as it is looked at. `response_format` binds nothing: which part of the output it
/// is meant for depends on whether reasoning is open, which the engine's token route cannot know, so
/// mapping it would bend the reasoning of models that think. Agents that mean the engine's own switch
/// send it.
#[derive(Deserialize)]
#[serde(expecting = "a JSON object")]
pub(crate) struct RawRequest {
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
pub(crate) struct RawSampling {
    pub(super) extra: Option<Map<String, Value>>,
}

/// Reads a request body.
pub(in crate::protocol) fn read(body: &[u8]) -> Result<Asked, Fault> {
    let mut frame: RawRequest = json::read(body)?;
    let tools = frame.tools.take().map(|list| checked(list).map(Rc::new));
    let (entries, bad) = match frame.messages.take() {
        Some(list) => message::messages(list),
        None => (Vec::new(), None),
    };
    let whole = Whole { frame, tools, standing: None, entries: Some(&entries), bad };
    Chat::asked(whole, &(), None, &mut ()).map(|(asked, ())| asked)
}

/// The parts of a request.
pub(crate) struct Chat;

impl Parts for Chat {
    const LIST: &'static str = "messages";
    const STANDING: Option<&'static str> = None;
    type Frame = RawRequest;
    type Tools = Tools;
    type Standing = ();
    type Entry = Said;
    type Trace = ();
    type Pool = ();

    fn frame(text: &str) -> Option<RawRequest> {
        slice(text)
    }

    fn tools(text: &str) -> Option<Read<Tools>> {
        #[derive(Deserialize)]
        struct List(#[serde(deserialize_with = "exact_values")] Option<Vec<Value>>);
        let List(list) = slice(text)?;
        Some(checked(list?).map(Rc::new))
    }

    fn standing(_text: &str, _tools: Option<&Tools>) -> Option<Read<()>> {
        None
    }

    fn entry(text: &str, index: usize, _tools: Option<&Tools>) -> Option<Read<Said>> {
        slice(text).map(|raw| message::message(index, raw).map(Rc::new))
    }

    fn entry_is_standing(said: &Said) -> bool {
        matches!(said.message.role, Role::System | Role::Developer)
    }

    fn asked(
        whole: Whole<'_, Self>,
        _past: &dyn Past,
        _before: Option<(&(), usize)>,
        _pool: &mut (),
    ) -> Result<(Asked, ()), Fault> {
        let mut raw = whole.frame;
        if raw.n.is_some_and(|n| n != 1) {
            return Err(bad("n", "one choice is made per request; leave `n` out or set it to 1"));
        }
        let sampling = sampling::sampling(&mut raw)?;
        let tool_choice = tool_choice(&raw)?;
        let tools = whole.tools.transpose()?.map(|tools| Tools::clone(&tools)).unwrap_or_default();
        let tools = with_functions(tools, raw.functions.take().unwrap_or_default())?;
        let usage = raw.stream_options.and_then(|options| options.include_usage).unwrap_or(false);
        let model = raw.model.ok_or_else(|| bad("model", "a model name is missing"))?;
        let entries = whole.entries.unwrap_or_default();
        if let Some(fault) = whole.bad {
            return Err(fault);
        }
        if entries.is_empty() {
            return Err(bad("messages", "at least one message is needed"));
        }
        let mut skipped = BTreeMap::new();
        entries.iter().for_each(|said| skip_all(&mut skipped, &said.skipped));
        let messages = entries.iter().map(|said| said.message.clone()).collect();
        let form = match raw.stream {
            Some(true) => ReplyForm::Events { usage },
            _ => ReplyForm::Json,
        };
        let asked = Asked {
            tools: match tool_choice {
                ToolChoice::None => Tools::default(),
                _ => tools,
            },
            tool_choice,
            parallel_tool_calls: raw.parallel_tool_calls,
            format: raw.response_format,
            skipped,
            sampling,
            template_kwargs: raw.chat_template_kwargs.unwrap_or_default(),
            ..Asked::plain(model, messages, form)
        };
        Ok((asked, ()))
    }

    fn form_fault(body: &[u8]) -> Option<Fault> {
        fault_of::<RawRequest>(body)
    }
}

/// A fault of the request at this field.
pub(super) fn bad(param: impl Into<String>, why: &str) -> Fault {
    Fault::new(FaultKind::BadRequest, why).at(param)
}

/// The tools on offer, untouched.
fn checked(tools: Vec<Value>) -> Result<Tools, Fault> {
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
    Ok(tools.into())
}

/// These tools and functions in OpenAI's older form, wrapped into the newer one.
fn with_functions(tools: Tools, functions: Vec<Value>) -> Result<Tools, Fault> {
    if functions.is_empty() {
        return Ok(tools);
    }
    let mut tools = tools.to_vec();
    for (index, function) in functions.into_iter().enumerate() {
        if !named(&function) {
            let why = "a function needs a name, a text that is not empty";
            return Err(bad(format!("functions[{index}].name"), why));
        }
        tools.push(serde_json::json!({"type": "function", "function": function}));
    }
    Ok(tools.into())
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
