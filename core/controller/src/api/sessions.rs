//! Sessions: list, show, reward, close, forget.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use rollgate_pipeline::exchange::SessionState;
use rollgate_pipeline::id::SessionId;
use rollgate_pipeline::record;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::Shared;
use super::error::{ApiError, ErrorBody};
use super::export;
use crate::near::unknown_key;

/// A session.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionView {
    session_id: String,
    /// `open` or `closed`.
    state: &'static str,
    agent: Option<String>,
    model: String,
    /// Milliseconds since the epoch.
    opened_at_ms: u64,
    turns: u32,
    /// Ids sampled so far.
    sampled_tokens: u64,
    /// Turns by scene.
    scenes: BTreeMap<String, u32>,
    /// Segments as of now.
    segments: u32,
    reward: Option<f64>,
    /// Of its samples as of now: `"clean"` or reason codes. Only where one session is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    health: Option<Value>,
}

impl From<SessionState> for SessionView {
    fn from(state: SessionState) -> Self {
        Self {
            session_id: state.session_id.to_string(),
            state: state.state,
            agent: state.agent,
            model: state.model,
            opened_at_ms: state.opened_at_ms,
            turns: state.turns,
            sampled_tokens: state.sampled_tokens,
            scenes: state.scenes,
            segments: state.segments,
            reward: state.reward,
            health: None,
        }
    }
}

/// Sessions.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionList {
    sessions: Vec<SessionView>,
}

/// A reward.
#[derive(Serialize, Deserialize, ToSchema)]
pub(super) struct RewardBody {
    /// The scalar; `null` withdraws an earlier one.
    reward: Option<f64>,
    /// Named parts.
    #[serde(default)]
    parts: BTreeMap<String, f64>,
}

/// The session that a path names.
pub(super) struct Id(pub(super) SessionId);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::no_session())?;
        SessionId::parse(&text).map(Self).ok_or_else(ApiError::no_session)
    }
}

/// The JSON object of a body; an empty body is an empty object.
pub(super) fn object(body: Result<Bytes, BytesRejection>) -> Result<Map<String, Value>, ApiError> {
    let body = body.map_err(|rejection| {
        let status = rejection.status();
        let large = status == StatusCode::PAYLOAD_TOO_LARGE;
        let code = if large { "body_too_large" } else { "bad_request" };
        ApiError::new(status, code, rejection.body_text())
    })?;
    if body.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(&body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(ApiError::bad_request("the body must be a JSON object")),
        Err(error) => Err(ApiError::bad_request(format!("the body is not JSON: {error}"))),
    }
}

/// Sessions in memory.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions", security(("token" = [])),
    responses((status = 200, body = SessionList), (status = 401, body = ErrorBody))
)]
pub(super) async fn list(State(shared): State<Shared>) -> Result<Json<SessionList>, ApiError> {
    let sessions = shared.gate.list().await?;
    Ok(Json(SessionList { sessions: sessions.into_iter().map(SessionView::from).collect() }))
}

/// One session, with the health of its samples.
#[utoipa::path(
    get, path = "/v1/sessions/{id}", tag = "sessions", security(("token" = [])),
    params(("id" = String, Path, description = "Session id")),
    responses((status = 200, body = SessionView), (status = 404, body = ErrorBody))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    Id(id): Id,
) -> Result<Json<SessionView>, ApiError> {
    let state = shared.gate.describe(&id).await?;
    let mut view = SessionView::from(state);
    view.health = Some(export::health(&shared, &id).await?);
    Ok(Json(view))
}

/// Sets the session's reward; the last one counts.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/reward", tag = "sessions", security(("token" = [])),
    params(("id" = String, Path, description = "Session id")),
    request_body = RewardBody,
    responses(
        (status = 200, body = RewardBody),
        (status = 400, body = ErrorBody),
        (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "The session is closed"),
    )
)]
pub(super) async fn reward(
    State(shared): State<Shared>,
    Id(id): Id,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<RewardBody>, ApiError> {
    let body = object(body)?;
    unknown_key(&body, &["reward", "parts"]).map_or(Ok(()), |e| Err(ApiError::bad_request(e)))?;
    if !body.contains_key("reward") {
        return Err(ApiError::bad_request(
            "`reward` is missing: a number, or null to withdraw one",
        ));
    }
    let body: RewardBody =
        serde_json::from_value(Value::Object(body)).map_err(ApiError::bad_request)?;
    let reward = record::Reward { reward: body.reward, parts: body.parts.clone() };
    shared.gate.reward(&id, reward).await?;
    Ok(Json(body))
}

/// Seals the session: no turn is recorded after it. Idempotent.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/close", tag = "sessions", security(("token" = [])),
    params(("id" = String, Path, description = "Session id")),
    responses((status = 200, body = SessionView), (status = 404, body = ErrorBody))
)]
pub(super) async fn close(
    State(shared): State<Shared>,
    Id(id): Id,
) -> Result<Json<SessionView>, ApiError> {
    Ok(Json(shared.gate.close(&id).await?.into()))
}

/// Forgets the session and its records.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", tag = "sessions", security(("token" = [])),
    params(("id" = String, Path, description = "Session id")),
    responses((status = 204), (status = 404, body = ErrorBody))
)]
pub(super) async fn forget(
    State(shared): State<Shared>,
    Id(id): Id,
) -> Result<StatusCode, ApiError> {
    shared.gate.delete(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}
