//! The control plane: sandboxes are made, listed, looked at, kept alive and ended.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::faults::{Does, On};
use super::serve::CutOff;
use super::world::{Made, Place, World, lock};
use super::{Versions, control};

type Query2 = Query<HashMap<String, String>>;

/// Routes of the versions that are served.
pub(super) fn routes(versions: Versions) -> Router<Arc<World>> {
    let mut router = Router::new()
        .route("/sandboxes/{id}", delete(kill).get(info))
        .route("/sandboxes/{id}/timeout", post(timeout))
        .route("/sandboxes/{id}/refreshes", post(refresh))
        .route("/sandboxes/{id}/pause", post(pause))
        .route("/sandboxes/{id}/metrics", get(metrics))
        .route("/v2/sandboxes/{id}/logs", get(logs));
    if versions != Versions::New {
        router = router
            .route("/sandboxes", post(create_old).get(list))
            .route("/sandboxes/{id}/connect", post(connect))
            .route("/sandboxes/{id}/resume", post(connect));
    }
    match versions {
        Versions::Both | Versions::New => router
            .route("/v2/sandboxes", post(create_new).get(list))
            .route("/v2/sandboxes/{id}/connect", post(connect)),
        Versions::Old => router,
        Versions::OldNotAllowed => router
            .route("/v2/sandboxes", get(list))
            .route("/v2/sandboxes/{id}/connect", delete(metrics)),
    }
}

/// An error of the control plane.
pub(super) fn error(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"code": status.as_u16(), "message": message}))).into_response()
}

fn absent(id: &str) -> Response {
    error(StatusCode::NOT_FOUND, &format!("sandbox {id} does not exist"))
}

/// Checks the key, then does what was planted, or `right`.
async fn answered(
    world: &World,
    on: On,
    headers: &HeaderMap,
    right: impl FnOnce() -> Response,
) -> Response {
    if headers.get("x-api-key").is_none_or(|key| key.is_empty()) {
        return error(StatusCode::UNAUTHORIZED, "the header X-API-Key is missing");
    }
    match world.faults.meet(on) {
        Some(does) => control::faulty(does, right).await,
        None => right(),
    }
}

/// Does what was planted for a call with one answer.
pub(super) async fn faulty(does: Does, right: impl FnOnce() -> Response) -> Response {
    match does {
        Does::Answer { status, message, headers } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
            let mut response = error(status, &message);
            for (name, value) in headers {
                let name = axum::http::HeaderName::try_from(name).expect("a header's name");
                response.headers_mut().insert(name, value.parse().expect("a header's value"));
            }
            response
        }
        Does::Late { delay_ms } => {
            let response = right();
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            response
        }
        Does::Never => {
            right();
            std::future::pending().await
        }
        Does::Lost => {
            let mut response = right();
            response.extensions_mut().insert(CutOff);
            response
        }
        Does::DoneBut { status } => {
            right();
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
            error(status, "the answer was lost on its way")
        }
        Does::Drip { every_ms } => super::stream::dripping(right(), every_ms).await,
        other => panic!("{other:?} was planted where it means nothing"),
    }
}

/// Body of a create, old or new.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Create {
    #[serde(rename = "templateID")]
    template_id: String,
    timeout: Option<f64>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    env_vars: Option<BTreeMap<String, String>>,
}

async fn create_old(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    Json(body): Json<Create>,
) -> Response {
    create(world, headers, body, Duration::from_secs(15)).await
}

async fn create_new(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    Json(body): Json<Create>,
) -> Response {
    create(world, headers, body, Duration::from_secs(300)).await
}

async fn create(
    world: Arc<World>,
    headers: HeaderMap,
    body: Create,
    default_ttl: Duration,
) -> Response {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let ttl = body.timeout.map_or(default_ttl, Duration::from_secs_f64);
    if ttl > world.options.max_ttl {
        return error(StatusCode::BAD_REQUEST, "Timeout cannot be greater than the plan allows");
    }
    let mut made = Made {
        template: body.template_id,
        metadata: body.metadata.unwrap_or_default(),
        env: body.env_vars.unwrap_or_default(),
        ttl,
        up_after: Duration::ZERO,
    };
    let make = |made: Made| -> Response {
        if let Some(place) = key.and_then(|key| {
            let id = lock(&world.keys).get(key).cloned()?;
            world.find(&id)
        }) {
            return (StatusCode::CREATED, Json(short(&world, &place))).into_response();
        }
        if world.living().len() >= world.options.quota {
            let message = "you have reached the maximum number of concurrent sandboxes";
            let mut response = error(StatusCode::TOO_MANY_REQUESTS, message);
            response.headers_mut().insert("retry-after", "1".parse().expect("a header's value"));
            return response;
        }
        match world.make(made) {
            Ok(place) => {
                if let Some(key) = key {
                    lock(&world.keys).insert(key.to_owned(), place.id.clone());
                }
                (StatusCode::CREATED, Json(short(&world, &place))).into_response()
            }
            Err(failure) => error(StatusCode::INTERNAL_SERVER_ERROR, &failure.to_string()),
        }
    };
    if headers.get("x-api-key").is_none_or(|key| key.is_empty()) {
        return error(StatusCode::UNAUTHORIZED, "the header X-API-Key is missing");
    }
    match world.faults.meet(On::Create) {
        Some(Does::UpLater { after_ms }) => {
            made.up_after = Duration::from_millis(after_ms);
            make(made)
        }
        Some(does) => faulty(does, || make(made)).await,
        None => make(made),
    }
}

async fn kill(
    State(world): State<Arc<World>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let right = || match world.remove(&id) {
        true => StatusCode::NO_CONTENT.into_response(),
        false => absent(&id),
    };
    answered(&world, On::Kill, &headers, right).await
}

async fn info(
    State(world): State<Arc<World>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let right = || match world.find(&id) {
        Some(place) => {
            let mut detail = listed(&world, &place);
            detail["envdAccessToken"] = place.token.clone().into();
            Json(detail).into_response()
        }
        None => absent(&id),
    };
    answered(&world, On::Info, &headers, right).await
}

#[derive(Deserialize)]
struct Time {
    timeout: Option<f64>,
    duration: Option<f64>,
}

impl Time {
    fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.timeout.or(self.duration).unwrap_or(300.0))
    }
}

async fn timeout(
    State(world): State<Arc<World>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(time): Json<Time>,
) -> Response {
    let right = || match world.find(&id) {
        Some(_) if time.duration() > world.options.max_ttl => {
            error(StatusCode::BAD_REQUEST, "Timeout cannot be greater than the plan allows")
        }
        Some(place) => {
            place.set_end(time.duration());
            StatusCode::NO_CONTENT.into_response()
        }
        None => absent(&id),
    };
    answered(&world, On::Timeout, &headers, right).await
}

async fn refresh(
    State(world): State<Arc<World>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(time): Json<Time>,
) -> Response {
    let right = || match world.find(&id) {
        Some(place) => {
            place.extend(time.duration());
            StatusCode::NO_CONTENT.into_response()
        }
        None => absent(&id),
    };
    answered(&world, On::Timeout, &headers, right).await
}

async fn connect(
    State(world): State<Arc<World>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(time): Json<Time>,
) -> Response {
    let right = || match world.find(&id) {
        Some(place) => {
            place.extend(time.duration());
            let resumed = place.paused.swap(false, Ordering::AcqRel);
            let status = if resumed { StatusCode::CREATED } else { StatusCode::OK };
            (status, Json(short(&world, &place))).into_response()
        }
        None => absent(&id),
    };
    answered(&world, On::Resume, &headers, right).await
}

async fn pause(
    State(world): State<Arc<World>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let right = || match world.find(&id) {
        Some(place) if place.paused.swap(true, Ordering::AcqRel) => {
            error(StatusCode::CONFLICT, "the sandbox is paused already")
        }
        Some(_) => StatusCode::NO_CONTENT.into_response(),
        None => absent(&id),
    };
    answered(&world, On::Timeout, &headers, right).await
}

async fn metrics(State(world): State<Arc<World>>, Path(id): Path<String>) -> Response {
    match world.find(&id) {
        Some(_) => Json(json!([])).into_response(),
        None => absent(&id),
    }
}

async fn logs(State(world): State<Arc<World>>, Path(id): Path<String>) -> Response {
    match world.find(&id) {
        Some(_) => Json(json!({"logs": []})).into_response(),
        None => absent(&id),
    }
}

async fn list(
    State(world): State<Arc<World>>,
    Query(query): Query2,
    headers: HeaderMap,
) -> Response {
    answered(&world, On::List, &headers, || page(&world, &query)).await
}

/// One page of the sandboxes that a query asks for, in the order of their making.
fn page(world: &World, query: &HashMap<String, String>) -> Response {
    let wanted: Vec<(String, String)> = query
        .get("metadata")
        .map(|filter| form_urlencoded::parse(filter.as_bytes()).into_owned().collect())
        .unwrap_or_default();
    let states = query.get("state").map_or("running", String::as_str);
    let after = query.get("nextToken").map_or("", String::as_str);
    let limit = query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
    let limit = world.options.page.min(limit).max(1);
    let fits = |place: &Arc<Place>| {
        let state = if place.paused.load(Ordering::Acquire) { "paused" } else { "running" };
        let named = wanted.iter().all(|(key, value)| place.metadata.get(key) == Some(value));
        named && states.split(',').any(|one| one == state) && !place.left().is_zero()
    };
    let mut all: Vec<_> = world.living().into_iter().filter(fits).collect();
    let running = all.len();
    all.retain(|place| place.id.as_str() > after);
    let more = all.len() > limit;
    all.truncate(limit);
    let body: Vec<_> = all.iter().map(|place| listed(world, place)).collect();
    let mut response = Json(body).into_response();
    let head = response.headers_mut();
    head.insert("x-total-running", running.into());
    if let (true, Some(last)) = (more, all.last()) {
        head.insert("x-next-token", last.id.parse().expect("an id can be a header's value"));
    }
    response
}

/// What a create answers.
fn short(world: &World, place: &Place) -> Value {
    json!({
        "templateID": place.template,
        "sandboxID": place.id,
        "clientID": "test",
        "envdVersion": world.options.envd_version,
        "envdAccessToken": place.token,
    })
}

/// What a list says of each.
fn listed(world: &World, place: &Place) -> Value {
    let state = if place.paused.load(Ordering::Acquire) { "paused" } else { "running" };
    json!({
        "templateID": place.template,
        "sandboxID": place.id,
        "clientID": "test",
        "startedAt": stamp(place.started),
        "endAt": stamp(SystemTime::now() + place.left()),
        "cpuCount": 2,
        "memoryMB": 512,
        "diskSizeMB": 1024,
        "state": state,
        "metadata": place.metadata,
        "envdVersion": world.options.envd_version,
    })
}

/// A time as RFC 3339 has it, in UTC.
pub(super) fn stamp(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days are counted from the first of March of the year 0, so that leap days come last.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (month, day) = ((shifted + 2) % 12 + 1, of_year - (153 * shifted + 2) / 5 + 1);
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_calendar_dates() {
        let at = |seconds| stamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_826_123), "2000-02-29T12:08:43.000Z");
        assert_eq!(at(1_798_761_599), "2026-12-31T23:59:59.000Z");
    }
}
