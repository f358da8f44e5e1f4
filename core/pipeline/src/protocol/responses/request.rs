//! A request body, read into the canonical form.
//!
//! Unknown keys are ignored and explicit nulls are absent. Nothing is stored between requests: what
//! a request would have to be completed from is refused.

use std::rc::Rc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::compaction;
use super::conversation::{Conversation, Fold};
use super::items::{self, Entry, Input};
use super::pool::Pool;
use super::tools::{ToolList, Tools};
use crate::fault::{Fault, FaultKind};
use crate::protocol::chat::{exact_values, whole, within};
use crate::protocol::parts::{fault_of, slice};
use crate::protocol::{Parts, Past, Read, Whole, json};
use crate::turn::{Asked, Message, Purpose, ReplyForm, Role, Sampling, ToolChoice};

/// The body, as far as it is looked at. `reasoning` (effort, summary) and `text` (verbosity, format)
/// bind nothing: how much a model thinks is up to the session's template switches.
#[derive(Deserialize)]
#[serde(expecting = "a JSON object")]
pub(crate) struct RawRequest {
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
pub(crate) struct RawSampling {
    extra: Option<Map<String, Value>>,
}

/// Reads a request body.
pub(in crate::protocol) fn read(body: &[u8], past: &dyn Past) -> Result<Asked, Fault> {
    let mut frame: RawRequest = json::read(body)?;
    let tools = frame.tools.take().map(|list| Ok(Rc::new(Listed::new(list))));
    let input = frame.input.take().map(|Input(items)| items);
    let entries: Option<Vec<_>> =
        input.map(|items| items.into_iter().map(|item| Rc::new(Entry::of(item))).collect());
    let whole = Whole { frame, tools, standing: None, entries: entries.as_deref(), bad: None };
    Responses::asked(whole, past, None, &mut Pool::default()).map(|(asked, _)| asked)
}

/// Reads the body of a compaction request: the answer is the compaction, as a body of its own kind.
pub fn read_compact(body: &[u8], past: &dyn Past) -> Result<Asked, Fault> {
    read(body, past).map(compacted)
}

/// The request whose answer is a body of its own kind.
pub(crate) fn compacted(mut asked: Asked) -> Asked {
    asked.form = ReplyForm::Json;
    if asked.purpose == Purpose::Turn {
        compact(&mut asked);
    }
    let asked_of_us = asked.messages.len() - 1;
    let kept = compaction::kept(&asked.messages[..asked_of_us]);
    asked.echo = Map::from_iter([(compaction::KEPT.to_owned(), kept)]);
    asked
}

fn compact(asked: &mut Asked) {
    asked.purpose = Purpose::Compaction;
    asked.messages.push(Message::text(Role::User, compaction::INSTRUCTION));
}

/// The parts of a request.
pub(crate) struct Responses;

/// A list of tools: what it means depends on the tools that items declare.
pub(crate) struct Listed {
    values: Vec<Value>,
    /// Where no item declares any.
    alone: Result<Rc<Tools>, Fault>,
}

impl Listed {
    fn new(values: Vec<Value>) -> Self {
        let alone = Tools::read(vec![own(values.clone())]).map(Rc::new);
        Self { values, alone }
    }
}

fn own(tools: Vec<Value>) -> ToolList {
    ToolList { place: "tools".to_owned(), tools, found_by: None }
}

/// What a request leaves for the next one.
#[derive(Default)]
pub(crate) struct Trace {
    /// Its conversation, when this many items were added.
    fold: Fold,
    items: usize,
    /// Its instructions.
    standing: Option<Message>,
    listed: Option<Rc<Listed>>,
    /// Whether an item declared tools.
    declared: bool,
    tools: Option<Rc<Tools>>,
}

impl Trace {
    fn listed_as(&self, listed: Option<&Rc<Listed>>) -> bool {
        match (&self.listed, listed) {
            (None, None) => true,
            (Some(one), Some(other)) => Rc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Parts for Responses {
    const LIST: &'static str = "input";
    const STANDING: Option<&'static str> = Some("instructions");
    // What Codex says of itself.
    const UNORDERED: Option<&'static str> = Some("client_metadata");
    type Frame = RawRequest;
    type Tools = Listed;
    type Standing = Message;
    type Entry = Entry;
    type Trace = Trace;
    type Pool = Pool;

    fn frame(text: &str) -> Option<RawRequest> {
        slice(text)
    }

    fn tools(text: &str) -> Option<Read<Listed>> {
        #[derive(Deserialize)]
        struct List(#[serde(deserialize_with = "exact_values")] Option<Vec<Value>>);
        let List(list) = slice(text)?;
        Some(Ok(Rc::new(Listed::new(list?))))
    }

    fn standing(text: &str, _tools: Option<&Listed>) -> Option<Read<Message>> {
        let text: String = slice(text)?;
        Some(Ok(Rc::new(Message::text(Role::System, text))))
    }

    fn entry(text: &str, _index: usize, _tools: Option<&Listed>) -> Option<Read<Entry>> {
        slice(text).map(|item| Ok(Rc::new(Entry::of(item))))
    }

    fn entry_is_standing(entry: &Entry) -> bool {
        entry.is_standing()
    }

    fn asked(
        whole: Whole<'_, Self>,
        past: &dyn Past,
        before: Option<(&Trace, usize)>,
        pool: &mut Pool,
    ) -> Result<(Asked, Trace), Fault> {
        let mut raw = whole.frame;
        refuse_stored(&raw)?;
        let echo = echo(&mut raw);
        let sampling = sampling(&mut raw)?;
        let text = text_item(raw.input.take());
        let entries = whole.entries.unwrap_or(&text);
        let (entries, triggered) = match entries.split_last() {
            Some((last, entries)) if last.triggers() => (entries, true),
            _ => (entries, false),
        };
        let listed = whole.tools.transpose()?;
        let standing = match whole.standing {
            Some(standing) => Some(Message::clone(&*standing?)),
            None => raw.instructions.take().map(|text| Message::text(Role::System, text)),
        };
        let now = Now { past, entries, listed, standing };
        let trace =
            now.told(before, pool, |tools| tools.choice(raw.tool_choice.as_ref()).map(|_| ()))?;
        let tools = trace.tools.clone().unwrap_or_default();
        let tool_choice = tools.choice(raw.tool_choice.as_ref())?;
        let mut talk = Conversation::new(past, trace.fold.clone());
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
                _ => tools.shown.clone(),
            },
            loaded_tools: tools.loaded.clone(),
            wire_tools: tools.wire.clone(),
            tool_choice,
            parallel_tool_calls: raw.parallel_tool_calls,
            format: raw.text.and_then(format),
            sampling,
            template_kwargs: raw.chat_template_kwargs.unwrap_or_default(),
            skipped,
            echo,
            ..Asked::plain(model, messages, form)
        };
        if triggered {
            compact(&mut asked);
        }
        Ok((asked, trace))
    }

    fn form_fault(body: &[u8]) -> Option<Fault> {
        fault_of::<RawRequest>(body)
    }
}

/// An input that is a text, as an item.
fn text_item(input: Option<Input>) -> Vec<Rc<Entry>> {
    let items = input.map(|Input(items)| items).unwrap_or_default();
    items.into_iter().map(|item| Rc::new(Entry::of(item))).collect()
}

/// What the conversation of a request is made of.
struct Now<'a> {
    past: &'a dyn Past,
    entries: &'a [Rc<Entry>],
    listed: Option<Rc<Listed>>,
    standing: Option<Message>,
}

impl Now<'_> {
    /// The conversation with its tools. It goes on from `before` where that is a part of it: of
    /// `shared` items, of which each means the same as then.
    fn told(
        self,
        before: Option<(&Trace, usize)>,
        pool: &mut Pool,
        check: impl FnOnce(&Tools) -> Result<(), Fault>,
    ) -> Result<Trace, Fault> {
        let part = before.filter(|(trace, shared)| trace.items <= *shared);
        let declares = |entries: &[Rc<Entry>]| entries.iter().any(|entry| entry.declares());
        let same_tools = part.filter(|(trace, _)| {
            trace.listed_as(self.listed.as_ref()) && !declares(&self.entries[trace.items..])
        });
        let (tools, declared) = match same_tools {
            Some((Trace { tools: Some(tools), declared, .. }, _)) => (tools.clone(), *declared),
            _ => self.tools(declares(self.entries))?,
        };
        check(&tools)?;
        let same = same_tools.filter(|(trace, _)| {
            let standing = match (&trace.standing, &self.standing) {
                (None, None) => true,
                (Some(one), Some(other)) => one.is_copy_of(other),
                _ => false,
            };
            standing && !trace.fold.stale(self.past)
        });
        let (fold, items) = match same {
            Some((trace, _)) => (trace.fold.clone(), trace.items),
            None => (Fold::default(), 0),
        };
        let mut talk = Conversation::new(self.past, fold);
        if items == 0
            && let Some(standing) = self.standing.as_ref().filter(|said| !said.content.is_empty())
            && same.is_none()
        {
            talk.say(standing.clone(), &[]);
        }
        for (index, entry) in self.entries.iter().enumerate().skip(items) {
            items::add(&mut talk, &tools, index, entry)?;
        }
        talk.share(pool, same.map(|(trace, _)| &trace.fold));
        let (fold, tools) = (talk.into_fold(), Some(tools));
        let Self { entries, listed, standing, .. } = self;
        Ok(Trace { fold, items: entries.len(), standing, listed, declared, tools })
    }

    fn tools(&self, declared: bool) -> Result<(Rc<Tools>, bool), Fault> {
        if !declared {
            let tools = match &self.listed {
                Some(listed) => listed.alone.clone()?,
                None => Rc::default(),
            };
            return Ok((tools, false));
        }
        let values = self.listed.as_ref().map(|listed| listed.values.clone());
        let mut lists = vec![own(values.unwrap_or_default())];
        lists.extend(self.entries.iter().enumerate().filter_map(|(at, entry)| entry.tools(at)));
        let mut tools = Tools::read(lists)?;
        if let Some(Listed { alone: Ok(alone), .. }) = self.listed.as_deref()
            && alone.shown == tools.shown
        {
            tools.shown = alone.shown.clone();
        }
        Ok((Rc::new(tools), true))
    }
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
