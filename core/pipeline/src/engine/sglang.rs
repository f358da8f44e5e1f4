//! SGLang: `/generate`.
//!
//! An id outside the vocabulary in a prompt ends the server: whoever builds a call checks them.

mod quick;

use serde::Deserialize;
use serde_json::Value;

use super::check::{self, Matched, Span, Told};
use super::numbers::{self, Column, Triple};
use super::{EngineCall, EngineKind, EngineRequest, Names, body, parameters, quoted};
use crate::fault::Fault;
use crate::id::TokenId;
use crate::id_text;
use crate::turn::Finish;

const PATH: &str = "/generate";
const ABORT: &str = "/abort_request";
const NAMES: Names = Names { max_tokens: "max_new_tokens", seed: "sampling_seed" };

/// The call. The route serves one model, so the model's name is not sent.
pub fn generate(call: &EngineCall<'_>) -> EngineRequest {
    let mut sampling = parameters(call, &NAMES);
    if call.sampling.top_k == Some(0) {
        // Off is -1 here; 0 is refused.
        sampling.insert("top_k".to_owned(), Value::from(-1));
    }
    sampling.extend(call.sampling.extra.clone());
    let head = format!(r#"{{"rid":{},"input_ids":["#, quoted(call.request_id));
    let tail = format!(
        r#"],"sampling_params":{},"return_logprob":true,"logprob_start_len":-1,"stream":false}}"#,
        Value::Object(sampling)
    );
    EngineRequest { path: PATH, body: body(head, call.prompt, tail) }
}

/// Gives up on a call. Ids are matched by prefix, which is why all have one length.
pub fn abort(request_id: &str) -> EngineRequest {
    let body = format!(r#"{{"rid":{}}}"#, quoted(request_id));
    EngineRequest { path: ABORT, body: vec![body.into()] }
}

/// Asks for the scores of a prompt. The prefix cache is of no help to it.
pub fn score(ids: &[TokenId]) -> EngineRequest {
    let tail = concat!(
        r#"],"sampling_params":{"max_new_tokens":1,"temperature":1.0},"#,
        r#""return_logprob":true,"logprob_start_len":0,"stream":false}"#
    );
    EngineRequest {
        path: PATH,
        body: body(r#"{"input_ids":["#.to_owned(), &[id_text::of(ids)], tail.to_owned()),
    }
}

#[derive(Deserialize)]
struct Reply {
    output_ids: Option<Vec<TokenId>>,
    meta_info: Meta,
}

#[derive(Deserialize)]
struct Meta {
    finish_reason: Option<Reason>,
    prompt_tokens: Option<u32>,
    completion_tokens: Option<u32>,
    cached_tokens: Option<u32>,
    weight_version: Option<String>,
    weight_versions: Option<Vec<Span>>,
    #[serde(default, deserialize_with = "numbers::column::<Triple, _>")]
    output_token_logprobs: Option<Column>,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(rename = "type")]
    kind: String,
    matched: Option<Matched>,
}

/// Reads the reply.
pub fn read(reply: &[u8]) -> Result<Told, Fault> {
    match quick::read(reply) {
        Some(reply) => told(reply),
        None => slow(reply),
    }
}

fn slow(reply: &[u8]) -> Result<Told, Fault> {
    told(check::parsed(EngineKind::Sglang, reply)?)
}

/// What both readers say, to compare them.
#[cfg(test)]
pub fn both(reply: &[u8]) -> (Option<Result<Told, Fault>>, Result<Told, Fault>) {
    (quick::read(reply).map(told), slow(reply))
}

fn told(reply: Reply) -> Result<Told, Fault> {
    let Reply { output_ids, meta_info: meta } = reply;
    let finish = match meta.finish_reason.as_ref().map(|reason| reason.kind.as_str()) {
        Some("stop") => Finish::Stop,
        Some("length") => Finish::Length,
        Some("abort") => Finish::Abort,
        other => return Err(check::unknown_finish(EngineKind::Sglang, other)),
    };
    Ok(Told {
        ids: output_ids,
        column: meta.output_token_logprobs,
        finish,
        stop_text: meta.finish_reason.and_then(|reason| reason.matched).and_then(Matched::text),
        spans: meta.weight_versions.unwrap_or_default(),
        label: meta.weight_version,
        cached_tokens: meta.cached_tokens,
        prompt_tokens: meta.prompt_tokens,
        completion_tokens: meta.completion_tokens,
    })
}

#[derive(Deserialize)]
struct Scored {
    meta_info: ScoredMeta,
}

#[derive(Deserialize)]
struct ScoredMeta {
    #[serde(default, deserialize_with = "numbers::column::<Triple, _>")]
    input_token_logprobs: Option<Column>,
}

/// Reads the scores of a prompt.
pub fn read_scores(reply: &[u8], ids: &[TokenId]) -> Result<Vec<Option<f32>>, Fault> {
    let reply: Scored = check::parsed(EngineKind::Sglang, reply)?;
    let column = reply.meta_info.input_token_logprobs.unwrap_or_default();
    check::scores(EngineKind::Sglang, column, ids)
}
