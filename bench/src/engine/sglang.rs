//! SGLang's HTTP: `/generate`, aborts, health, model information, and its error bodies.

use rollgate_pipeline::http::Method;
use rollgate_pipeline::id::TokenId;
use rollgate_pipeline::render::ControlText;
use rollgate_pipeline::turn::Finish;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answer::{Answer, Answered};
use super::ledger::add;
use super::script::ScriptedFault;
use super::serve::Request;
use super::stage::{Ask, Sampled, Stage, StoppedBy};
use super::vllm::models;

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

/// Answers one request.
pub(super) async fn answer(stage: &Stage, request: &Request) -> Answer {
    let answered = match (request.head.method, request.path()) {
        (Method::Post, "/generate") => generate(stage, request).await,
        (Method::Post, "/abort_request") => abort(stage, request),
        (Method::Get, "/health" | "/ready") => Ok(Answer::empty(200)),
        (Method::Get, "/model_info") => Ok(model_info(stage)),
        (Method::Get, "/v1/models") => Ok(models(stage)),
        (
            _,
            "/generate" | "/abort_request" | "/health" | "/ready" | "/model_info" | "/v1/models",
        ) => Err(Answer::json(405, &json!({"detail": "Method Not Allowed"}))),
        _ => Err(Answer::json(404, &json!({"detail": "Not Found"}))),
    };
    answered.unwrap_or_else(|refusal| {
        add(&stage.ledger.counters.refused, 1);
        refusal
    })
}

/// An error body of the native routes.
fn refusal(status: u16, message: &str) -> Answer {
    Answer::json(status, &json!({"error": {"message": message}}))
}

/// Reads a body; what does not fit the schema is answered in the flat form.
fn read<T: DeserializeOwned>(request: &Request) -> Result<T, Answer> {
    let mut reader = serde_json::Deserializer::from_slice(&request.body);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let message = error.to_string();
        let body = json!({
            "object": "error", "message": message, "type": "Bad Request", "param": null, "code": 400,
        });
        Answer::json(400, &body)
    })
}

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

async fn generate(stage: &Stage, request: &Request) -> Answered {
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
    let texts = call.return_text_in_logprobs;
    let scores =
        call.return_logprob.then(|| Scores::new(stage, &ask, &sampled, scored_from, texts));
    let body = Generated {
        text: text(stage, &sampled),
        output_ids: &sampled.ids,
        prompt_token_ids: call.return_prompt_token_ids.then_some(&ask.prompt),
        meta_info: Meta {
            id: &ask.request_id,
            finish_reason: finish_reason(stage, &sampled),
            prompt_tokens: ask.prompt.len(),
            completion_tokens: sampled.ids.len(),
            cached_tokens: sampled.cached,
            weight_version: &sampled.version,
            weight_versions: json!([
                {"version": sampled.version, "start": 0, "end": sampled.ids.len()}
            ]),
            e2e_latency: 0.0,
            scores,
        },
    };
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
                "The input ({length} tokens) is longer than the model's context length ({limit} tokens)."
            ),
        ));
    }
    if length + max_new > limit {
        return Err(refusal(
            400,
            &format!(
                "Requested token count exceeds the model's maximum context length of {limit} tokens. \
             You requested a total of {} tokens: {length} from the input and {max_new} for the \
             completion.",
                length + max_new
            ),
        ));
    }
    Ok(())
}

#[derive(Serialize)]
struct Generated<'a> {
    text: String,
    output_ids: &'a [TokenId],
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<&'a Vec<TokenId>>,
    meta_info: Meta<'a>,
}

#[derive(Serialize)]
struct Meta<'a> {
    id: &'a str,
    finish_reason: Value,
    prompt_tokens: usize,
    completion_tokens: usize,
    cached_tokens: u32,
    weight_version: &'a str,
    weight_versions: Value,
    e2e_latency: f64,
    #[serde(flatten)]
    scores: Option<Scores>,
}

/// `[logprob, id, text or null]`.
type Triple = (Option<f64>, TokenId, Option<String>);

#[derive(Serialize)]
struct Scores {
    input_token_logprobs: Vec<Triple>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_token_logprobs: Option<Vec<Triple>>,
}

impl Scores {
    fn new(
        stage: &Stage,
        ask: &Ask,
        sampled: &Sampled,
        scored_from: Option<usize>,
        texts: bool,
    ) -> Self {
        let triple = |logprob: Option<f32>, id: TokenId| {
            (logprob.map(f64::from), id, texts.then(|| stage.text(&[id])))
        };
        let input = scored_from.map(|start| {
            let known =
                std::iter::once(None).chain(stage.score_prompt(&ask.prompt).into_iter().map(Some));
            let all = known.zip(&ask.prompt).skip(start).enumerate();
            // The first entry has no log-probability, wherever it starts.
            all.map(|(n, (logprob, id))| triple(logprob.filter(|_| n > 0), *id)).collect()
        });
        let output = sampled.logprobs.iter().zip(&sampled.ids);
        let missing = sampled.fault == Some(ScriptedFault::MissingLogprobs);
        Self {
            input_token_logprobs: input.unwrap_or_default(),
            output_token_logprobs: (!missing)
                .then(|| output.map(|(logprob, id)| triple(Some(*logprob), *id)).collect()),
        }
    }
}

fn finish_reason(stage: &Stage, sampled: &Sampled) -> Value {
    match (sampled.finish, &sampled.stopped_by) {
        (Finish::Stop, StoppedBy::Text(text)) => json!({"type": "stop", "matched": text}),
        (Finish::Stop, StoppedBy::Id(id)) => json!({"type": "stop", "matched": id}),
        (Finish::Stop, StoppedBy::Nothing) => {
            json!({"type": "stop", "matched": stage.model.markers.close})
        }
        (Finish::Length, _) => json!({"type": "length", "length": sampled.ids.len()}),
        (Finish::Abort, _) => json!({
            "type": "abort", "message": "Abort before prefill", "status_code": null, "err_type": null,
        }),
    }
}

/// The text without what stopped it.
fn text(stage: &Stage, sampled: &Sampled) -> String {
    let close = stage.model.markers.close;
    let shown = sampled.ids.strip_suffix(&[close]).unwrap_or(&sampled.ids);
    let mut text = stage.text(shown);
    if let StoppedBy::Text(stop) = &sampled.stopped_by
        && let Some(at) = text.find(stop.as_str())
    {
        text.truncate(at);
    }
    text
}

#[derive(Deserialize)]
struct Abort {
    rid: Option<String>,
    #[serde(default)]
    abort_all: bool,
}

fn abort(stage: &Stage, request: &Request) -> Answered {
    let abort: Abort = read(request)?;
    match abort.rid {
        _ if abort.abort_all => stage.abort_all(),
        Some(rid) => stage.abort(&rid),
        None => return Err(refusal(400, "give `rid` or `abort_all`")),
    }
    Ok(Answer::empty(200))
}

fn model_info(stage: &Stage) -> Answer {
    let name = &stage.model.name;
    Answer::json(
        200,
        &json!({
            "model_path": name, "served_model_name": name, "tokenizer_path": name,
            "is_generation": true, "preferred_sampling_params": null,
            "weight_version": stage.version_now(), "load_format": "scripted",
            "reasoning_parser": null, "tool_call_parser": null, "has_image_understanding": false,
            "has_audio_understanding": false, "model_type": "scripted", "architectures": [],
        }),
    )
}
