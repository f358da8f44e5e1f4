//! vLLM's HTTP: the token route, completions, health, models, tokenize, aborts, metrics, and its
//! error bodies.

mod body;
mod completions;
mod generate;
mod params;

use rollgate_pipeline::http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::answer::{Answer, Answered};
use super::ledger::add;
use super::serve::Request;
use super::stage::Stage;
use super::tokenize::Tokenize;

/// Answers one request.
pub(super) async fn answer(stage: &Stage, request: &Request) -> Answer {
    let answered = match (request.head.method, request.path()) {
        (Method::Post, "/inference/v1/generate") => generate::generate(stage, request).await,
        (Method::Post, "/v1/completions") => completions::complete(stage, request).await,
        (Method::Post, "/inference/v1/abort_requests") => abort(stage, request),
        (Method::Post, "/tokenize") => tokenize(stage, request),
        (Method::Get, "/health") => Ok(Answer::empty(200)),
        (Method::Get, "/v1/models") => Ok(models(stage)),
        (Method::Get, "/version") => {
            Ok(Answer::json(200, &json!({"version": env!("CARGO_PKG_VERSION")})))
        }
        (Method::Get, "/metrics") => Ok(metrics(stage)),
        (
            _,
            "/inference/v1/generate"
            | "/v1/completions"
            | "/inference/v1/abort_requests"
            | "/tokenize"
            | "/health"
            | "/v1/models"
            | "/version"
            | "/metrics",
        ) => Err(Answer::json(405, &json!({"detail": "Method Not Allowed"}))),
        _ => Err(Answer::json(404, &json!({"detail": "Not Found"}))),
    };
    answered.unwrap_or_else(|refusal| {
        add(&stage.ledger.counters.refused, 1);
        refusal
    })
}

/// An error body of the engine.
fn refusal(status: u16, kind: &str, param: Option<&str>, message: &str) -> Answer {
    let error = json!({"message": message, "type": kind, "param": param, "code": status});
    Answer::json(status, &json!({"error": error}))
}

/// 400 of the engine itself.
fn bad(message: &str) -> Answer {
    refusal(400, "BadRequestError", None, message)
}

/// Reads a body; what does not fit the schema is named by its field.
fn read<T: DeserializeOwned>(request: &Request) -> Result<T, Answer> {
    let mut reader = serde_json::Deserializer::from_slice(&request.body);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let param = format!("body.{}", error.path());
        refusal(400, "Bad Request", Some(&param), &error.into_inner().to_string())
    })
}

#[derive(Deserialize)]
struct Abort {
    request_ids: Vec<String>,
}

fn abort(stage: &Stage, request: &Request) -> Answered {
    let abort: Abort = read(request)?;
    abort.request_ids.iter().for_each(|id| stage.abort(id));
    Ok(Answer::empty(200))
}

fn tokenize(stage: &Stage, request: &Request) -> Answered {
    let ids = read::<Tokenize>(request)?.ids(&stage.model).map_err(|message| bad(&message))?;
    Ok(Answer::json(
        200,
        &json!({
            "count": ids.len(), "max_model_len": stage.model.max_context, "tokens": ids,
            "token_strs": null,
        }),
    ))
}

/// `GET /v1/models`, the same in both shapes.
pub(super) fn models(stage: &Stage) -> Answer {
    let model = json!({
        "id": stage.model.name, "object": "model", "created": 0, "owned_by": "scripted",
        "root": stage.model.name, "parent": null, "max_model_len": stage.model.max_context,
    });
    Answer::json(200, &json!({"object": "list", "data": [model]}))
}

fn metrics(stage: &Stage) -> Answer {
    let stats = stage.ledger.stats();
    let mut text = String::new();
    for (name, kind, value) in [
        ("num_requests_running", "gauge", stats.running),
        ("num_requests_waiting", "gauge", 0),
        ("prompt_tokens_total", "counter", stats.prompt_tokens),
        ("generation_tokens_total", "counter", stats.sampled_tokens),
        ("prefix_cache_queries_total", "counter", stats.prompt_tokens),
        ("prefix_cache_hits_total", "counter", stats.cached_tokens),
        ("request_success_total", "counter", stats.calls - stats.forced_faults),
    ] {
        text += &format!("# TYPE vllm:{name} {kind}\nvllm:{name} {value}\n");
    }
    Answer::text(200, "text/plain; version=0.0.4", &text)
}
