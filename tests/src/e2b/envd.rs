//! envd's door: which sandbox, is it there, is it up, and may the caller in.
#![expect(clippy::result_large_err, reason = "what is answered instead is an answer too")]

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use serde_json::json;

use super::connect::Refusal;
use super::faults::{Does, On};
use super::world::{Place, TOKEN, World};
use super::{control, files, filesystem, process, stream};

const PORT: u16 = 49_983;

pub(super) fn routes() -> Router<Arc<World>> {
    Router::new()
        .route("/health", get(health))
        .route("/envs", get(envs))
        .route("/files", get(files::read).post(files::write))
        .route("/files/compose", post(files::compose))
        .route("/process.Process/{method}", post(process))
        .route("/filesystem.Filesystem/{method}", post(file_system))
}

/// What the edge says of a sandbox that is not there.
fn gone(id: &str) -> Response {
    let body = json!({"sandboxId": id, "message": "The sandbox was not found", "code": 502});
    (StatusCode::BAD_GATEWAY, Json(body)).into_response()
}

/// What the edge says of a sandbox in which nothing listens.
fn closed(id: &str) -> Response {
    let message = "The sandbox is running but port is not open";
    let body = json!({"sandboxId": id, "message": message, "port": PORT, "code": 502});
    (StatusCode::BAD_GATEWAY, Json(body)).into_response()
}

/// The sandbox that a call is for, or what the edge answers in its place.
pub(super) fn enter(
    world: &World,
    headers: &HeaderMap,
    with_token: bool,
) -> Result<Arc<Place>, Response> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // E2B's older SDK names the sandbox only in the URL when it connects to one, and here the URL
    // is the same for all; but each has a token of its own.
    let by_token = || text("x-access-token").and_then(|token| token.strip_prefix(TOKEN));
    let Some(id) = text("e2b-sandbox-id").or_else(by_token) else {
        return Err(control::error(StatusCode::BAD_REQUEST, "no sandbox is named"));
    };
    let place = world.find(id).ok_or_else(|| gone(id))?;
    if !place.up() {
        return Err(closed(id));
    }
    if with_token && text("x-access-token") != Some(place.token.as_str()) {
        let refusal = Refusal::new("unauthenticated", "the access token is missing or wrong");
        return Err(refusal.into_response());
    }
    Ok(place)
}

/// Counts a call; what the edge answers instead, if that was planted; else what was planted.
pub(super) fn meet(world: &World, on: On, place: &Arc<Place>) -> Result<Option<Does>, Response> {
    match world.faults.meet(on) {
        Some(Does::EdgeWithoutSandbox) => Err(gone(&place.id)),
        Some(Does::EdgeWithoutPort) => Err(closed(&place.id)),
        does => Ok(does),
    }
}

async fn health(State(world): State<Arc<World>>, headers: HeaderMap) -> Response {
    let place = match enter(&world, &headers, false) {
        Ok(place) => place,
        Err(response) => return response,
    };
    let right = || StatusCode::NO_CONTENT.into_response();
    match meet(&world, On::Health, &place) {
        Err(response) => response,
        Ok(Some(does)) => control::faulty(does, right).await,
        Ok(None) => right(),
    }
}

async fn envs(State(world): State<Arc<World>>, headers: HeaderMap) -> Response {
    match enter(&world, &headers, true) {
        Ok(place) => Json(&place.env).into_response(),
        Err(response) => response,
    }
}

async fn process(
    State(world): State<Arc<World>>,
    Path(method): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let place = match enter(&world, &headers, true) {
        Ok(place) => place,
        Err(response) => return response,
    };
    match method.as_str() {
        "Start" => stream::start(world, place, headers, body).await,
        "Connect" => stream::attach(world, place, headers, body).await,
        _ => unary(&world, &place, || process::call(&place, &method, &body)).await,
    }
}

async fn file_system(
    State(world): State<Arc<World>>,
    Path(method): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let place = match enter(&world, &headers, true) {
        Ok(place) => place,
        Err(response) => return response,
    };
    unary(&world, &place, || filesystem::call(&world, &place, &method, &body)).await
}

async fn unary(
    world: &World,
    place: &Arc<Place>,
    call: impl FnOnce() -> Result<serde_json::Value, Refusal>,
) -> Response {
    let right = || match call() {
        Ok(message) => Json(message).into_response(),
        Err(refusal) => refusal.into_response(),
    };
    match meet(world, On::Rpc, place) {
        Err(response) => response,
        Ok(Some(does)) => control::faulty(does, right).await,
        Ok(None) => right(),
    }
}
