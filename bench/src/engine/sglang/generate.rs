//! SGLang's `/generate`: what is asked, and what is refused.

use rollgate_pipeline::id::TokenId;
use rollgate_pipeline::render::ControlText;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::body::{Generated, Wanted};
use super::{read, refusal};
use crate::engine::answer::{Answer, Answered};
use crate::engine::script::ScriptedFault;
use crate::engine::serve::Request;
use crate::engine::stage::{Ask, Stage};

/// Tokens sampled where the call names no number.
const DEFAULT_TOKENS: usize = 128;
/// The sampling parameters that the real engine knows; it refuses any other.
const SAMPLING: [&str; 24] = [
    "max_new_tokens",
    "stop",
    "stop_token_ids",
    "stop_regex",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "min_new_tokens",
    "n",
    "json_schema",
    "regex",
    "ebnf",
    "structural_tag",
    "ignore_eos",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "no_stop_trim",
    "logit_bias",
    "sampling_seed",
    "custom_params",
];

#[derive(Deserialize)]
struct Generate {
    rid: Option<String>,
    text: Option<String>,
    input_ids: Option<Vec<i64>>,
    sampling_params: Option<Map<String, Value>>,
    #[serde(default)]
    return_logprob: bool,
    logprob_start_len: Option<i64>,
    #[serde(default)]
    return_text_in_logprobs: bool,
    #[serde(default)]
    return_prompt_token_ids: bool,
    #[serde(default)]
    stream: bool,
    #[serde(alias = "cache_salt")]
    extra_key: Option<String>,
}

/// The sampling parameters that matter here.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Params {
    max_new_tokens: Option<usize>,
    stop: Option<Value>,
    stop_token_ids: Option<Vec<TokenId>>,
    n: Option<u32>,
    ignore_eos: bool,
}

pub(super) async fn generate(stage: &Stage, request: &Request) -> Answered {
    let call: Generate = read(request)?;
    if call.stream {
        return Err(refusal(400, "the scripted engine has no `stream`"));
    }
    let prompt = prompt(stage, &call)?;
    let params = params(call.sampling_params.unwrap_or_default())?;
    let max_new = params.max_new_tokens.unwrap_or(DEFAULT_TOKENS);
    fits(stage, prompt.len(), max_new)?;
    // -1 is: the output only.
    let scored_from = call.logprob_start_len.and_then(|start| usize::try_from(start).ok());
    let scored_from = scored_from.filter(|_| call.return_logprob);
    let ask = Ask {
        request_id: call.rid.unwrap_or_default(),
        max_tokens: max_new,
        stop: stops(params.stop)?,
        stop_ids: params.stop_token_ids.unwrap_or_default(),
        salt: call.extra_key.unwrap_or_default(),
        scores_prompt: scored_from.is_some(),
        prompt,
    };
    let sampled = stage.play(&ask).await.map_err(|message| refusal(500, &message))?;
    match &sampled.fault {
        Some(ScriptedFault::Status { status, body: None }) => {
            return Err(refusal(*status, "the script asks for this error"));
        }
        Some(ScriptedFault::Status { status, body: Some(body) }) => {
            return Err(Answer::text(*status, "application/json", body));
        }
        _ => {}
    }
    let wanted = Wanted {
        scores: call.return_logprob,
        scored_from,
        texts: call.return_text_in_logprobs,
        prompt: call.return_prompt_token_ids,
    };
    let body = Generated::new(stage, &ask, &sampled, &wanted);
    Ok(Answer::json(200, &body).faulty(sampled.fault.as_ref()))
}

/// The prompt's ids. One outside the vocabulary kills the real engine, and this one unless it is
/// forgiving.
fn prompt(stage: &Stage, call: &Generate) -> Result<Vec<TokenId>, Answer> {
    let mut ids = Vec::new();
    match (&call.input_ids, &call.text) {
        (Some(given), None) => {
            for id in given {
                let known = u32::try_from(*id).ok().filter(|id| *id < stage.model.vocab_size);
                ids.push(known.ok_or_else(|| match stage.script.forgiving {
                    true => refusal(400, &format!("id {id} is outside the vocabulary")),
                    false => Answer::die(),
                })?);
            }
        }
        (None, Some(text)) => {
            let tokenizer = &stage.model.tokenizer;
            let encoded = tokenizer.encode(text, ControlText::Match, &mut ids);
            encoded.map_err(|why| refusal(400, &why))?;
        }
        _ => {
            return Err(refusal(400, "Either text, input_ids or input_embeds should be provided."));
        }
    }
    if ids.is_empty() { Err(refusal(400, "the prompt is empty")) } else { Ok(ids) }
}

fn params(given: Map<String, Value>) -> Result<Params, Answer> {
    if let Some(unknown) = given.keys().find(|key| !SAMPLING.contains(&key.as_str())) {
        // Here the real engine's `error` is a text.
        return Err(Answer::json(400, &json!({"error": format!("unknown field {unknown}")})));
    }
    let params: Params = serde_json::from_value(Value::Object(given))
        .map_err(|error| refusal(400, &format!("sampling_params: {error}")))?;
    if params.n.is_some_and(|n| n != 1) || params.ignore_eos {
        return Err(refusal(400, "the scripted engine has no `n` above 1 and no `ignore_eos`"));
    }
    Ok(params)
}

fn stops(given: Option<Value>) -> Result<Vec<String>, Answer> {
    match given {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text]),
        Some(list) => serde_json::from_value(list)
            .map_err(|error| refusal(400, &format!("sampling_params.stop: {error}"))),
    }
}

/// The overflow errors: a long prompt, and a prompt that leaves no room for what is asked.
fn fits(stage: &Stage, length: usize, max_new: usize) -> Result<(), Answer> {
    let limit = stage.model.max_context as usize;
    if length >= limit {
        return Err(refusal(
            400,
            &format!(
                "The input ({length} tokens) is longer than the model's context length ({limit} \
                 tokens)."
            ),
        ));
    }
    if length + max_new > limit {
        return Err(refusal(
            400,
            &format!(
                "Requested token count exceeds the model's maximum context length of {limit} \
             tokens. \
             You requested a total of {} tokens: {length} from the input and {max_new} for the \
             completion.",
                length + max_new
            ),
        ));
    }
    Ok(())
}
