//! Files over plain HTTP: read, written, put together from parts.
#![expect(clippy::result_large_err, reason = "what is answered instead is an answer too")]

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest as _, Multipart, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::control::{error, faulty};
use super::envd::{enter, meet};
use super::faults::On;
use super::paths;
use super::world::{Place, World};

/// Longest body of one request.
const BODY_BYTES: usize = 256 << 20;

type Parameters = Query<HashMap<String, String>>;

pub(super) async fn read(
    State(world): State<Arc<World>>,
    Query(query): Parameters,
    headers: HeaderMap,
) -> Response {
    let place = match enter(&world, &headers, true) {
        Ok(place) => place,
        Err(response) => return response,
    };
    let path = query.get("path").map_or("", String::as_str);
    let right = || content(&world, &place, path).unwrap_or_else(|response| response);
    match meet(&world, On::Read, &place) {
        Err(response) => response,
        Ok(Some(does)) => faulty(does, right).await,
        Ok(None) => right(),
    }
}

fn content(world: &World, place: &Place, path: &str) -> Result<Response, Response> {
    let path = resolved(world, place, path)?;
    if path.is_dir() {
        let message = format!("path '{}' is a directory", path.display());
        return Err(error(StatusCode::BAD_REQUEST, &message));
    }
    match std::fs::read(&path) {
        Ok(bytes) => Ok(bytes.into_response()),
        Err(failure) if failure.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("path '{}' does not exist", path.display());
            Err(error(StatusCode::NOT_FOUND, &message))
        }
        Err(failure) => Err(error(StatusCode::INTERNAL_SERVER_ERROR, &failure.to_string())),
    }
}

fn resolved(world: &World, place: &Place, path: &str) -> Result<std::path::PathBuf, Response> {
    paths::resolve(world, place, path).map_err(|message| error(StatusCode::FORBIDDEN, &message))
}

pub(super) async fn write(
    State(world): State<Arc<World>>,
    Query(query): Parameters,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let place = match enter(&world, &headers, true) {
        Ok(place) => place,
        Err(response) => return response,
    };
    let does = match meet(&world, On::Write, &place) {
        Err(response) => return response,
        Ok(does) => does,
    };
    let path = query.get("path").map(String::as_str);
    let parts = match parts(request, path).await {
        Ok(parts) => parts,
        Err(message) => return error(StatusCode::BAD_REQUEST, &message),
    };
    let right = || store(&world, &place, parts).unwrap_or_else(|response| response);
    match does {
        Some(does) => faulty(does, right).await,
        None => right(),
    }
}

/// Paths and contents of an upload: a form of files, or one raw body.
async fn parts(request: Request, path: Option<&str>) -> Result<Vec<(String, Vec<u8>)>, String> {
    let (kind, packed) = {
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        let kind = header(header::CONTENT_TYPE).unwrap_or_default().to_owned();
        (kind, header(header::CONTENT_ENCODING) == Some("gzip"))
    };
    if !kind.starts_with("multipart/form-data") {
        let path = path.ok_or("a raw upload needs the parameter path")?;
        let body = axum::body::to_bytes(request.into_body(), BODY_BYTES).await;
        let body = body.map_err(|error| error.to_string())?;
        let mut contents = Vec::new();
        if packed {
            let mut unpacked = flate2::read::GzDecoder::new(body.as_ref());
            unpacked.read_to_end(&mut contents).map_err(|error| error.to_string())?;
        } else {
            contents.extend_from_slice(&body);
        }
        return Ok(vec![(path.to_owned(), contents)]);
    }
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|error| error.to_string())?;
    let mut parts = Vec::new();
    while let Some(field) = form.next_field().await.map_err(|error| error.to_string())? {
        let named = path.or(field.file_name()).map(str::to_owned);
        let named = named.ok_or("a part has no file name, and there is no parameter path")?;
        let bytes = field.bytes().await.map_err(|error| error.to_string())?;
        parts.push((named, bytes.to_vec()));
    }
    Ok(parts)
}

fn store(
    world: &World,
    place: &Place,
    parts: Vec<(String, Vec<u8>)>,
) -> Result<Response, Response> {
    let mut written: Vec<Value> = Vec::new();
    for (path, contents) in parts {
        let path = resolved(world, place, &path)?;
        put(&path, &contents)
            .map_err(|failure| error(StatusCode::INTERNAL_SERVER_ERROR, &failure.to_string()))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        written.push(json!({"name": name, "path": path, "type": "file"}));
    }
    Ok(Json(written).into_response())
}

fn put(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(path))?;
    std::fs::write(path, contents)
}

#[derive(Deserialize)]
pub(super) struct Compose {
    source_paths: Vec<String>,
    destination: String,
}

pub(super) async fn compose(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    Json(body): Json<Compose>,
) -> Response {
    let composed = || -> Result<Response, Response> {
        let place = enter(&world, &headers, true)?;
        let mut contents = Vec::new();
        for source in &body.source_paths {
            let path = resolved(&world, &place, source)?;
            let part = std::fs::read(&path)
                .map_err(|failure| error(StatusCode::NOT_FOUND, &failure.to_string()))?;
            contents.extend(part);
            // Parts are used up by being put together.
            let _ = std::fs::remove_file(&path);
        }
        store(&world, &place, vec![(body.destination.clone(), contents)])
    };
    composed().unwrap_or_else(|response| response)
}
