//! `/readyz`: whether the node should be given work.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use rollgate_pipeline::id::{SessionHash, SessionId};
use rollgate_shards::CommandError;
use serde::Serialize;
use utoipa::ToSchema;

use super::Shared;
use super::error::ApiError;

/// Body of a 503 of `/readyz`.
#[derive(Serialize, ToSchema)]
pub(super) struct NotReadyBody {
    error: NotReadyError,
}

/// Why the node is not ready.
#[derive(Serialize, ToSchema)]
struct NotReadyError {
    /// `not_ready`.
    code: &'static str,
    /// All reasons in one sentence.
    message: String,
    /// Each reason.
    reasons: Vec<Reason>,
}

/// One reason.
#[derive(Serialize, ToSchema)]
struct Reason {
    /// `draining`, `shards`, `engines` or `disk`.
    code: &'static str,
    /// What it is and where.
    message: String,
}

/// Whether the node should be given work: every shard runs and answers, at least one engine is up,
/// the state directory can be written, and the node does not drain.
#[utoipa::path(
    get, path = "/readyz", tag = "node",
    responses((status = 200, body = String), (status = 503, body = NotReadyBody))
)]
pub(super) async fn readyz(State(shared): State<Shared>) -> Result<Response, ApiError> {
    let gate = shared.gate.clone();
    // It writes a file, and a disk may hang.
    let unready = tokio::task::spawn_blocking(move || gate.unready()).await;
    let unready = unready.map_err(|_| ApiError::internal("a look at the node panicked"))?;
    if !unready.is_empty() {
        let reasons = unready.iter();
        let reasons = reasons.map(|why| Reason { code: why.code(), message: why.to_string() });
        let reasons: Vec<_> = reasons.collect();
        let messages: Vec<_> = reasons.iter().map(|reason| reason.message.as_str()).collect();
        let message = messages.join("; ");
        let body = NotReadyBody { error: NotReadyError { code: "not_ready", message, reasons } };
        let answer = (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], Json(body));
        return Ok(answer.into_response());
    }
    // A question about a session that cannot exist: only a shard that works answers it.
    let nobody = SessionId::new(&shared.node, SessionHash(0));
    match shared.gate.describe(&nobody).await {
        Ok(_) | Err(CommandError::NoSession) => Ok("ready\n".into_response()),
        Err(error) => Err(error.into()),
    }
}
