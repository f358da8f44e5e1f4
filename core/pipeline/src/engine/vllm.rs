//! vLLM: `/inference/v1/generate`, and `/v1/completions` for servers without it.
//!
//! Both routes answer with the stop token among the ids; text is not asked for, or not looked at.

mod quick;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::check::{self, Matched, Span, Told};
use super::numbers::{self, Column, Named};
use super::{EngineCall, EngineKind, EngineRequest, Names, body, parameters, quoted};
use crate::fault::Fault;
use crate::id::TokenId;
use crate::id_text;
use crate::turn::Finish;

const GENERATE: &str = "/inference/v1/generate";
const ABORT: &str = "/inference/v1/abort_requests";
const COMPLETIONS: &str = "/v1/completions";
const NAMES: Names = Names { max_tokens: "max_tokens", seed: "seed" };

/// The call on the tokens route.
pub fn generate(call: &EngineCall<'_>) -> EngineRequest {
    let mut sampling = parameters(call, &NAMES);
    sampling.insert("logprobs".to_owned(), Value::from(0));
    // Text costs the engine time and nobody reads it, but stop texts are found in it.
    let needs_text = sampling.contains_key("stop") || call.sampling.extra.contains_key("stop");
    if !needs_text {
        sampling.insert("detokenize".to_owned(), Value::from(false));
    }
    sampling.extend(call.sampling.extra.clone());
    let head = format!(
        r#"{{"request_id":{},"model":{},"token_ids":["#,
        quoted(call.request_id),
        quoted(call.model)
    );
    let tail = format!(r#"],"sampling_params":{}}}"#, Value::Object(sampling));
    EngineRequest { path: GENERATE, body: body(head, call.prompt, tail) }
}

/// Gives up on a call of the tokens route, which puts a prefix before the ids of its calls.
pub fn abort(request_id: &str) -> EngineRequest {
    let ids = json!({ "request_ids": [format!("generate-tokens-{request_id}")] });
    EngineRequest { path: ABORT, body: vec![ids.to_string().into()] }
}

/// The call on the completions route, where sampling parameters are members of the body itself.
pub fn complete(call: &EngineCall<'_>) -> EngineRequest {
    let mut members = parameters(call, &NAMES);
    for (name, value) in [
        ("logprobs", Value::from(0)),
        ("return_token_ids", Value::from(true)),
        ("return_tokens_as_token_ids", Value::from(true)),
        ("return_weight_versions", Value::from(true)),
    ] {
        members.insert(name.to_owned(), value);
    }
    members.extend(call.sampling.extra.clone());
    let head = format!(
        r#"{{"request_id":{},"model":{},"prompt":["#,
        quoted(call.request_id),
        quoted(call.model)
    );
    EngineRequest { path: COMPLETIONS, body: body(head, call.prompt, after_ids(members)) }
}

/// The rest of a body after its ids: `],"a":1,"b":2}`.
fn after_ids(members: Map<String, Value>) -> String {
    let object = Value::Object(members).to_string();
    format!("],{}", &object[1..])
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u32>,
    completion_tokens: Option<u32>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u32>,
}

#[derive(Deserialize)]
struct Reply<C> {
    #[serde(default = "Vec::new")]
    choices: Vec<C>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice<L> {
    token_ids: Option<Vec<TokenId>>,
    finish_reason: Option<String>,
    stop_reason: Option<Matched>,
    logprobs: Option<L>,
    weight_versions: Option<Vec<Span>>,
}

/// `logprobs` of the tokens route.
#[derive(Deserialize)]
struct Contents {
    #[serde(default, deserialize_with = "numbers::column::<Named<'_>, _>")]
    content: Option<Column>,
}

/// `logprobs` of the completions route.
#[derive(Deserialize)]
struct Lists<'a> {
    #[serde(borrow, default)]
    tokens: Vec<Cow<'a, str>>,
    #[serde(default)]
    token_logprobs: Vec<Option<f32>>,
}

/// Reads the tokens route's reply.
pub fn read_generate(reply: &[u8]) -> Result<Told, Fault> {
    quick_generate(reply).unwrap_or_else(|| slow_generate(reply))
}

fn quick_generate(reply: &[u8]) -> Option<Result<Told, Fault>> {
    let reply = quick::read(reply, quick::contents)?;
    Some(told(EngineKind::Vllm, reply, Some))
}

fn slow_generate(reply: &[u8]) -> Result<Told, Fault> {
    let reply = check::parsed(EngineKind::Vllm, reply)?;
    told(EngineKind::Vllm, reply, |logprobs: Contents| logprobs.content)
}

/// Reads the completions route's reply.
pub fn read_complete(reply: &[u8]) -> Result<Told, Fault> {
    quick_complete(reply).unwrap_or_else(|| slow_complete(reply))
}

fn quick_complete(reply: &[u8]) -> Option<Result<Told, Fault>> {
    let reply = quick::read(reply, quick::lists)?;
    Some(told(EngineKind::VllmCompletions, reply, Some))
}

fn slow_complete(reply: &[u8]) -> Result<Told, Fault> {
    let reply = check::parsed(EngineKind::VllmCompletions, reply)?;
    told(EngineKind::VllmCompletions, reply, |lists: Lists<'_>| {
        let ids = lists.tokens.iter().map(|token| numbers::spelled_id(token)).collect();
        Some(listed(ids, lists.token_logprobs))
    })
}

/// What both readers say, to compare them.
#[cfg(test)]
pub fn both_generate(reply: &[u8]) -> (Option<Result<Told, Fault>>, Result<Told, Fault>) {
    (quick_generate(reply), slow_generate(reply))
}

/// What both readers say, to compare them.
#[cfg(test)]
pub fn both_complete(reply: &[u8]) -> (Option<Result<Told, Fault>>, Result<Told, Fault>) {
    (quick_complete(reply), slow_complete(reply))
}

fn listed(mut ids: Vec<Option<TokenId>>, logprobs: Vec<Option<f32>>) -> Column {
    ids.resize(logprobs.len(), None);
    Column { ids, logprobs }
}

fn told<L>(
    kind: EngineKind,
    reply: Reply<Choice<L>>,
    column: impl FnOnce(L) -> Option<Column>,
) -> Result<Told, Fault> {
    let choice = check::only(kind, reply.choices)?;
    let finish = match choice.finish_reason.as_deref() {
        // A repetition detector ends an answer as a stop token does.
        Some("stop" | "repetition") => Finish::Stop,
        Some("length") => Finish::Length,
        Some("abort") => Finish::Abort,
        other => return Err(check::unknown_finish(kind, other)),
    };
    let by_text = choice.finish_reason.as_deref() == Some("stop");
    let usage = reply.usage;
    let details = usage.as_ref().and_then(|usage| usage.prompt_tokens_details.as_ref());
    Ok(Told {
        ids: choice.token_ids,
        column: choice.logprobs.and_then(column),
        finish,
        stop_text: choice.stop_reason.filter(|_| by_text).and_then(Matched::text),
        spans: choice.weight_versions.unwrap_or_default(),
        label: None,
        cached_tokens: details.and_then(|details| details.cached_tokens),
        prompt_tokens: usage.as_ref().and_then(|usage| usage.prompt_tokens),
        completion_tokens: usage.as_ref().and_then(|usage| usage.completion_tokens),
    })
}

/// Asks for scores on the tokens route.
pub fn score_generate(model: &str, ids: &[TokenId]) -> EngineRequest {
    let sampling = json!({
        "max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0, "detokenize": false
    });
    let head = format!(r#"{{"model":{},"token_ids":["#, quoted(model));
    let tail = format!(r#"],"sampling_params":{sampling}}}"#);
    EngineRequest { path: GENERATE, body: body(head, &[id_text::of(ids)], tail) }
}

/// Asks for scores on the completions route.
pub fn score_complete(model: &str, ids: &[TokenId]) -> EngineRequest {
    let head = format!(r#"{{"model":{},"prompt":["#, quoted(model));
    let tail = r#"],"max_tokens":1,"temperature":1.0,"prompt_logprobs":0}"#.to_owned();
    EngineRequest { path: COMPLETIONS, body: body(head, &[id_text::of(ids)], tail) }
}

/// Per prompt position the scored candidates; the position's own id is among them.
type Candidates = Vec<Option<std::collections::BTreeMap<String, Score>>>;

#[derive(Deserialize)]
struct Score {
    logprob: f32,
}

#[derive(Deserialize)]
struct Scored {
    prompt_logprobs: Option<Candidates>,
}

/// Reads scores of the tokens route.
pub fn read_generate_scores(reply: &[u8], ids: &[TokenId]) -> Result<Vec<Option<f32>>, Fault> {
    let reply: Scored = check::parsed(EngineKind::Vllm, reply)?;
    own_scores(EngineKind::Vllm, reply.prompt_logprobs, ids)
}

/// Reads scores of the completions route.
pub fn read_complete_scores(reply: &[u8], ids: &[TokenId]) -> Result<Vec<Option<f32>>, Fault> {
    let reply: Reply<Scored> = check::parsed(EngineKind::VllmCompletions, reply)?;
    let choice = check::only(EngineKind::VllmCompletions, reply.choices)?;
    own_scores(EngineKind::VllmCompletions, choice.prompt_logprobs, ids)
}

fn own_scores(
    kind: EngineKind,
    positions: Option<Candidates>,
    ids: &[TokenId],
) -> Result<Vec<Option<f32>>, Fault> {
    let positions = positions.unwrap_or_default();
    let mut column = Column::default();
    for (at, candidates) in positions.iter().enumerate() {
        let id = ids.get(at).copied();
        let own = id.zip(candidates.as_ref()).and_then(|(id, map)| map.get(&id.to_string()));
        column.ids.push(id);
        column.logprobs.push(own.map(|score| score.logprob));
    }
    check::scores(kind, column, ids)
}
