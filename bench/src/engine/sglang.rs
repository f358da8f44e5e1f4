//! SGLang's HTTP: `/generate`, aborts, health, model information, and its error bodies.

mod body;
mod generate;

use rollgate_pipeline::http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::answer::{Answer, Answered};
use super::ledger::add;
use super::serve::Request;
use super::stage::Stage;
use super::vllm::models;

/// Answers one request.
pub(super) async fn answer(stage: &Stage, request: &Request) -> Answer {
    let answered = match (request.head.method, request.path()) {
        (Method::Post, "/generate") => generate::generate(stage, request).await,
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
            "object": "error", "message": message, "type": "Bad Request",
            "param": null, "code": 400,
        });
        Answer::json(400, &body)
    })
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
