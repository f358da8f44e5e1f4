//! vLLM's `/v1/completions`, for prompts given as ids or as text.

use rollgate_pipeline::id::TokenId;
use rollgate_pipeline::render::ControlText;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::{Usage, prompt_logprobs, stop_reason, weight_versions};
use super::params::{Params, known_model, play, request_id};
use super::{bad, read, refusal};
use crate::engine::answer::{Answer, Answered};
use crate::engine::script::ScriptedFault;
use crate::engine::serve::Request;
use crate::engine::stage::{Sampled, Stage};

/// Tokens sampled where the call names no number.
const DEFAULT_TOKENS: u32 = 16;

#[derive(Deserialize)]
struct Complete {
    model: Option<String>,
    prompt: Prompt,
    request_id: Option<String>,
    cache_salt: Option<String>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    echo: bool,
    #[serde(default)]
    return_token_ids: bool,
    #[serde(default)]
    return_tokens_as_token_ids: bool,
    #[serde(default)]
    return_weight_versions: bool,
    #[serde(flatten)]
    params: Params,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a prompt is text, a list of ids, or a list with one list of ids")]
enum Prompt {
    Text(String),
    Ids(Vec<TokenId>),
    Lists(Vec<Vec<TokenId>>),
}

impl Prompt {
    fn ids(self, stage: &Stage) -> Result<Vec<TokenId>, Answer> {
        let mut ids = Vec::new();
        match self {
            Prompt::Ids(given) => ids = given,
            Prompt::Text(text) => {
                let tokenizer = &stage.model.tokenizer;
                tokenizer.encode(&text, ControlText::Match, &mut ids).map_err(|why| bad(&why))?;
            }
            Prompt::Lists(mut lists) => match (lists.pop(), lists.is_empty()) {
                (Some(given), true) => ids = given,
                _ => return Err(bad("the scripted engine takes one prompt at a time")),
            },
        }
        if ids.is_empty() { Err(bad("the prompt is empty")) } else { Ok(ids) }
    }
}

pub(super) async fn complete(stage: &Stage, request: &Request) -> Answered {
    let call: Complete = read(request)?;
    known_model(stage, call.model.as_deref())?;
    if call.stream || call.echo {
        return Err(bad("the scripted engine has neither `stream` nor `echo`"));
    }
    let prompt = call.prompt.ids(stage)?;
    let (length, limit) = (prompt.len(), stage.model.max_context as usize);
    if length >= limit {
        let message = format!(
            "This model's maximum context length is {limit} tokens. However, your request has \
             {length} input tokens. Please reduce the length of the input messages."
        );
        return Err(refusal(400, "BadRequestError", Some("input_tokens"), &message));
    }
    let mut params = call.params;
    params.max_tokens.get_or_insert(DEFAULT_TOKENS);
    let (wanted, of_prompt) = (params.logprobs, params.prompt_logprobs);
    let id = format!("cmpl-{}", request_id(request, call.request_id, &prompt));
    let ask = params.ask(stage, id, prompt, call.cache_salt)?;
    let sampled = play(stage, &ask).await?;
    let missing = sampled.fault == Some(ScriptedFault::MissingLogprobs);
    let logprobs = wanted
        .filter(|_| !missing)
        .map(|_| logprobs(stage, &sampled, call.return_tokens_as_token_ids));
    let choice = json!({
        "index": 0,
        "text": text(stage, &sampled),
        "logprobs": logprobs,
        "finish_reason": sampled.finish.name(),
        "stop_reason": stop_reason(&sampled),
        "token_ids": call.return_token_ids.then_some(&sampled.ids),
        "prompt_token_ids": call.return_token_ids.then_some(&ask.prompt),
        "prompt_logprobs": of_prompt.map(|_| prompt_logprobs(stage, &ask.prompt)),
        "weight_versions": call.return_weight_versions.then(|| weight_versions(&sampled)),
    });
    let body = json!({
        "id": ask.request_id, "object": "text_completion", "created": 0,
        "model": stage.model.name, "choices": [choice], "usage": Usage::new(&ask, &sampled),
    });
    Ok(Answer::json(200, &body).faulty(sampled.fault.as_ref()))
}

/// The text without the token that ended the turn.
fn text(stage: &Stage, sampled: &Sampled) -> String {
    let close = stage.model.markers.close;
    let shown = sampled.ids.strip_suffix(&[close]).unwrap_or(&sampled.ids);
    stage.text(shown)
}

fn logprobs(stage: &Stage, sampled: &Sampled, as_ids: bool) -> Value {
    let tokens: Vec<String> = sampled
        .ids
        .iter()
        .map(|id| if as_ids { format!("token_id:{id}") } else { stage.text(&[*id]) })
        .collect();
    let values: Vec<f64> = sampled.logprobs.iter().copied().map(f64::from).collect();
    let mut offset = 0;
    let offsets: Vec<usize> = sampled
        .ids
        .iter()
        .map(|id| {
            let start = offset;
            offset += stage.text(&[*id]).chars().count();
            start
        })
        .collect();
    let tops = tokens.iter().zip(&values).map(|(token, value)| json!({ token.as_str(): value }));
    json!({
        "text_offset": offsets, "token_logprobs": values,
        "top_logprobs": tops.collect::<Value>(), "tokens": tokens,
    })
}
