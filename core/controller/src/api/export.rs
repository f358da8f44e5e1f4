//! What a session left: samples and turns, built from its journal off the executor's threads.

use std::collections::BTreeSet;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use rollgate_pipeline::id::SessionId;
use rollgate_pipeline::record::{Record, TurnRecord};
use rollgate_pipeline::sample::{self, Health, Sample};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;

use super::Shared;
use super::error::{ApiError, ErrorBody};
use super::sessions::Id;
use crate::journal;
use crate::sink::{Format, to_jsonl, to_parquet, to_safetensors};

/// Which samples, and how.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SamplesQuery {
    /// `jsonl` (default), `safetensors` or `parquet`.
    format: Option<String>,
    /// Only this segment.
    segment: Option<u32>,
}

/// The session's samples as of now.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/samples", tag = "sessions", security(("token" = [])),
    params(("id" = String, Path, description = "Session id"), SamplesQuery),
    responses(
        (status = 200, content(
            (String = "application/x-ndjson"),
            (Vec<u8> = "application/octet-stream"),
            (Vec<u8> = "application/vnd.apache.parquet"),
        )),
        (status = 400, body = ErrorBody, description = "safetensors holds one sample: add `segment`"),
        (status = 404, body = ErrorBody),
    )
)]
pub(super) async fn samples(
    State(shared): State<Shared>,
    Id(id): Id,
    query: Result<Query<SamplesQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(query) = query.map_err(|e| ApiError::bad_request(e.body_text()))?;
    let format = query.format.as_deref().map_or(Ok(Format::Jsonl), Format::parse);
    let format = format.map_err(ApiError::bad_request)?;
    from_journal(&shared, &id, move |records| {
        let samples = chosen(built(&records), query.segment)?;
        match format {
            Format::Jsonl => {
                let lines = to_jsonl(&samples).map_err(ApiError::internal)?;
                Ok(([(CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
            }
            Format::Safetensors => {
                let bytes = to_safetensors(only(samples)?).map_err(ApiError::internal)?;
                Ok(([(CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
            }
            Format::Parquet => {
                let bytes = to_parquet(samples).map_err(ApiError::internal)?;
                Ok(([(CONTENT_TYPE, "application/vnd.apache.parquet")], bytes).into_response())
            }
        }
    })
    .await
}

/// The session's exchanges as of now, one a line.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/turns", tag = "sessions", security(("token" = [])),
    params(("id" = String, Path, description = "Session id")),
    responses(
        (status = 200, content_type = "application/x-ndjson", body = String),
        (status = 404, body = ErrorBody),
    )
)]
pub(super) async fn turns(State(shared): State<Shared>, Id(id): Id) -> Result<Response, ApiError> {
    from_journal(&shared, &id, |records| {
        let mut undelivered = BTreeSet::new();
        for record in &records {
            if let Record::Delivery(delivery) = record {
                match delivery.whole {
                    true => undelivered.remove(&delivery.turn),
                    false => undelivered.insert(delivery.turn),
                };
            }
        }
        let mut lines = String::new();
        for record in &records {
            if let Record::Turn(turn) = record {
                let delivered = !undelivered.contains(&turn.turn);
                lines.push_str(&turn_line(turn, delivered).to_string());
                lines.push('\n');
            }
        }
        Ok(([(CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
    })
    .await
}

/// Health over all samples of a session: `"clean"` or reason codes.
pub(super) async fn health(shared: &Shared, id: &SessionId) -> Result<Value, ApiError> {
    from_journal(shared, id, |records| {
        let samples = built(&records);
        let reasons = samples.iter().flat_map(|sample| sample.health.reasons()).cloned();
        let reasons: BTreeSet<String> = reasons.collect();
        let health = Health::from_reasons(reasons.into_iter().collect());
        serde_json::to_value(health).map_err(ApiError::internal)
    })
    .await
}

/// Asks the data plane whether the session is there, then works on its records.
async fn from_journal<T: Send + 'static>(
    shared: &Shared,
    id: &SessionId,
    work: impl FnOnce(Vec<Record>) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    shared.gate.describe(id).await?;
    let path = shared.gate.journal_path(id);
    let _turn = shared.collects.acquire().await;
    let worked = tokio::task::spawn_blocking(move || {
        let journal = journal::read_blocking(&path).map_err(ApiError::internal)?;
        work(journal.records)
    });
    worked.await.map_err(ApiError::internal)?
}

/// Samples of a session that belongs to no task: it is a group of its own.
fn built(records: &[Record]) -> Vec<Sample> {
    let Some(Record::Opened(opened)) = records.first() else { return Vec::new() };
    let about = sample::Attempt {
        task_id: String::new(),
        group_id: opened.session_id.to_string(),
        attempt: 0,
        siblings: 1,
        agent: opened.options.agent.clone().unwrap_or_default(),
        outcome: None,
    };
    sample::build(records, &about)
}

fn chosen(samples: Vec<Sample>, segment: Option<u32>) -> Result<Vec<Sample>, ApiError> {
    let Some(segment) = segment else { return Ok(samples) };
    let all = samples.len();
    let chosen: Vec<Sample> = samples.into_iter().filter(|s| s.segment == segment).collect();
    if chosen.is_empty() {
        let what = format!("there is no segment {segment}; the session has {all}, from 0");
        return Err(ApiError::new(StatusCode::NOT_FOUND, "no_segment", what));
    }
    Ok(chosen)
}

fn only(mut samples: Vec<Sample>) -> Result<Sample, ApiError> {
    let count = samples.len();
    match samples.pop() {
        Some(sample) if count == 1 => Ok(sample),
        None => {
            Err(ApiError::new(StatusCode::NOT_FOUND, "no_sample", "the session has no sample yet"))
        }
        Some(_) => Err(ApiError::bad_request(format!(
            "a safetensors file holds one sample and the session has {count}; add `&segment=N`"
        ))),
    }
}

/// An exchange without its text and ids.
fn turn_line(turn: &TurnRecord, delivered: bool) -> Value {
    json!({
        "turn": turn.turn,
        "parent": turn.parent,
        "scene": turn.verdict.scene,
        "rule": turn.verdict.rule,
        "dialect": turn.dialect,
        "request_id": turn.request_id,
        "digests": {
            "root": turn.root,
            "joined": turn.joined,
            "elements": turn.elements,
            "answer": turn.answer,
        },
        "match_rules": turn.rules,
        "stretch_tokens": turn.stretch.len(),
        "finish_reason": turn.finish,
        "usage": turn.usage,
        "weight_versions": turn.versions,
        "sampling": turn.sampling,
        "asked_sampling": turn.asked_sampling,
        "tool_choice": turn.tool_choice,
        "parallel_tool_calls": turn.parallel_tool_calls,
        "times": turn.times,
        "flags": {
            "ill_formed": turn.reply.ill_formed,
            "remarks": turn.reply.remarks,
            "reasoning_open": turn.reasoning_open,
            "stop_text": turn.stop_text,
            "delivered": delivered,
            "skipped": turn.skipped,
            "stripped": turn.stripped,
            "media_dropped": turn.messages.iter().map(|m| m.media_dropped).sum::<u32>(),
            "rendered_anew": turn.anew,
            "resumed_at": turn.resumed_at,
            "foreign_tokens": turn.foreign_tokens,
            "context_diff_tokens": turn.context_diff_tokens,
            "overlay_tokens": turn.overlay_tokens,
            "marker_conflicts": turn.marker_conflicts,
            "wrapped_instructions": turn.wrapped_instructions,
        },
    })
}
