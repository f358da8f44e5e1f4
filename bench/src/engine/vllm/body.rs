//! Parts of vLLM's answers: choices, log-probabilities, usage.

use rollgate_pipeline::id::TokenId;
use serde::Serialize;
use serde_json::{Value, json};

use crate::engine::script::ScriptedFault;
use crate::engine::stage::{Ask, Sampled, Stage, StoppedBy};

/// The one choice of the token route.
#[derive(Serialize)]
pub(super) struct Choice<'a> {
    index: u32,
    finish_reason: &'static str,
    stop_reason: Value,
    token_ids: &'a [TokenId],
    logprobs: Option<Logprobs>,
    routed_experts: (),
    sampling_mask: (),
    weight_versions: Value,
}

#[derive(Serialize)]
struct Logprobs {
    content: Vec<Position>,
}

#[derive(Serialize)]
struct Position {
    token_id: TokenId,
    logprob: f64,
    rank: u32,
    top_logprobs: Vec<Top>,
}

#[derive(Clone, Serialize)]
struct Top {
    token_id: TokenId,
    logprob: f64,
    rank: u32,
}

impl<'a> Choice<'a> {
    pub(super) fn new(stage: &Stage, ask: &Ask, sampled: &'a Sampled, wanted: Option<u32>) -> Self {
        let missing = sampled.fault == Some(ScriptedFault::MissingLogprobs);
        let tops = wanted.filter(|_| !missing).map(|top| Logprobs {
            content: sampled
                .ids
                .iter()
                .zip(&sampled.logprobs)
                .enumerate()
                .map(|(at, (id, logprob))| {
                    let first = Top { token_id: *id, logprob: f64::from(*logprob), rank: 1 };
                    let others = alternatives(stage, ask.prompt.len() + at, &first, top);
                    Position {
                        token_id: *id,
                        logprob: first.logprob,
                        rank: 1,
                        top_logprobs: std::iter::once(first).chain(others).collect(),
                    }
                })
                .collect(),
        });
        Self {
            index: 0,
            finish_reason: sampled.finish.name(),
            stop_reason: stop_reason(sampled),
            token_ids: &sampled.ids,
            logprobs: tops,
            routed_experts: (),
            sampling_mask: (),
            weight_versions: weight_versions(sampled),
        }
    }
}

/// Other ids for a position, each less likely than the one before.
fn alternatives(stage: &Stage, at: usize, first: &Top, count: u32) -> Vec<Top> {
    let others = (1..=count).map(|n| Top {
        token_id: (first.token_id.wrapping_add(n + at as u32 % 7)) % stage.model.vocab_size,
        logprob: first.logprob - f64::from(n),
        rank: n + 1,
    });
    others.filter(|top| top.token_id != first.token_id).collect()
}

/// `stop_reason`: null for the primary end token, for length and for abort.
pub(super) fn stop_reason(sampled: &Sampled) -> Value {
    match &sampled.stopped_by {
        StoppedBy::Nothing => Value::Null,
        StoppedBy::Id(id) => Value::from(*id),
        StoppedBy::Text(text) => Value::from(text.as_str()),
    }
}

/// Spans of weight versions over the output.
pub(super) fn weight_versions(sampled: &Sampled) -> Value {
    json!([{"version": sampled.version, "start": 0, "end": sampled.ids.len()}])
}

/// Token counts.
#[derive(Serialize)]
pub(super) struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
    prompt_tokens_details: Value,
}

impl Usage {
    pub(super) fn new(ask: &Ask, sampled: &Sampled) -> Self {
        Self {
            prompt_tokens: ask.prompt.len(),
            completion_tokens: sampled.ids.len(),
            total_tokens: ask.prompt.len() + sampled.ids.len(),
            prompt_tokens_details: json!({"cached_tokens": sampled.cached}),
        }
    }
}

/// Log-probabilities of the prompt: null, then one map per position, keyed by the id as text.
pub(super) fn prompt_logprobs(stage: &Stage, prompt: &[TokenId]) -> Value {
    let scored = prompt.iter().skip(1).zip(stage.score_prompt(prompt)).map(|(id, logprob)| {
        let entry = json!({
            "logprob": f64::from(logprob), "rank": 1, "decoded_token": stage.text(&[*id]),
        });
        json!({ id.to_string(): entry })
    });
    std::iter::once(Value::Null).chain(scored).collect()
}
