//! `POST /v1/sessions`.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use rollgate_pipeline::record::SessionOptions;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::Shared;
use super::error::{ApiError, ErrorBody};
use super::sessions::object;
use crate::near::{nearest, unknown_key};
use crate::task::{LIMIT_KEYS, SAMPLING_KEYS, keys_within};

const KEYS: [&str; 9] =
    ["agent", "model", "history", "retention", "sampling", "limits", "scenes", "rules", "metadata"];

/// What a new session is opened with. Every field may be left out.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body, which is read key by key for better messages")]
pub(super) struct NewSession {
    /// Name of the agent, for people and rules.
    agent: Option<String>,
    /// Must be the served model's name.
    model: Option<String>,
    /// What the engine is shown of rewritten history: `sticky` or `faithful`.
    #[schema(example = "sticky")]
    history: Option<String>,
    /// What becomes of earlier reasoning where the template leaves it out: `keep` or `template`.
    #[schema(example = "keep")]
    retention: Option<String>,
    /// What the agent may change in its history: `[{name, action, …}]`, before the node's rules.
    #[schema(value_type = Vec<Object>)]
    rules: Option<Value>,
    /// What its exchanges are for: `[{name, scene, when}]`, before the node's rules.
    #[schema(value_type = Vec<Object>)]
    scenes: Option<Value>,
    /// Sampling parameters that win over the agent's.
    #[schema(value_type = Object)]
    sampling: Option<Value>,
    /// `{turns?, tokens?}`: what the session may use up.
    #[schema(value_type = Object)]
    limits: Option<Value>,
    /// Free data, echoed in samples.
    #[schema(value_type = Object)]
    metadata: Option<Value>,
}

/// A session that was opened.
#[derive(Serialize, ToSchema)]
pub(super) struct Opened {
    session_id: String,
    /// Goes where the agent's API key goes. It is shown only here.
    key: String,
    base_url: Urls,
    /// Sessions do not expire: `null`.
    expires_at: Option<u64>,
    /// What should be looked at, though the session is open.
    warnings: Vec<String>,
}

/// Base URLs for agents.
#[derive(Serialize, ToSchema)]
pub(super) struct Urls {
    /// For clients of OpenAI's APIs.
    openai: String,
    /// For clients of Anthropic's API.
    anthropic: String,
}

/// Opens a session.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions", security(("token" = [])),
    request_body(content = Option<NewSession>, description = "May be empty"),
    responses(
        (status = 201, body = Opened),
        (status = 400, body = ErrorBody),
        (status = 401, body = ErrorBody),
        (status = 503, body = ErrorBody),
    )
)]
pub(super) async fn create(
    State(shared): State<Shared>,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Opened>), ApiError> {
    let options = options(object(body)?, &shared.model).map_err(ApiError::bad_request)?;
    let warnings = agent_warning(options.agent.as_deref()).into_iter().collect();
    let created = shared.gate.create(options).await?;
    let opened = Opened {
        session_id: created.session_id.to_string(),
        key: created.key.expose().to_owned(),
        base_url: Urls {
            openai: shared.urls.openai.clone(),
            anthropic: shared.urls.anthropic.clone(),
        },
        expires_at: None,
        warnings,
    };
    Ok((StatusCode::CREATED, Json(opened)))
}

/// An agent of a name of one's own is fine; one that is nearly a known name gets none of its rules.
fn agent_warning(agent: Option<&str>) -> Option<String> {
    let agent = agent?;
    let known: Vec<&str> = rollgate_pipeline::scene::shipped_agents().collect();
    if known.iter().any(|name| name.eq_ignore_ascii_case(agent)) {
        return None;
    }
    let near = nearest(agent, &known)?;
    Some(format!(
        "no scenes come with an agent called `{agent}`, so all its calls are `main` unless rules of \
         yours say otherwise; did you mean `{near}`?"
    ))
}

fn options(mut body: Map<String, Value>, model: &str) -> Result<SessionOptions, String> {
    body.retain(|_, value| !value.is_null());
    unknown_key(&body, &KEYS).map_or(Ok(()), Err)?;
    keys_within(&body, "sampling", &SAMPLING_KEYS)?;
    keys_within(&body, "limits", &LIMIT_KEYS)?;
    match body.shift_remove("model") {
        Some(Value::String(asked)) if asked == model => {}
        Some(asked) => return Err(format!("`model`: {asked} is not served here; `{model}` is")),
        None => {}
    }
    // One at a time first, so that a message says which option it is about.
    for (key, value) in &body {
        let one = Value::Object(Map::from_iter([(key.clone(), value.clone())]));
        serde_json::from_value::<SessionOptions>(one).map_err(|e| format!("`{key}`: {e}"))?;
    }
    // Whether rules can be used is decided where they meet the node's.
    serde_json::from_value(Value::Object(body)).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: Result<&str, &str>) {
        let found = options(serde_json::from_str(body).unwrap(), "m");
        let found = found.map(|options| serde_json::to_string(&options).unwrap());
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            _ => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn defaults_may_be_spelled_out() {
        let empty = r#"{"sampling":{},"limits":{}}"#;
        check("{}", Ok(empty));
        let spelled = r#"{"scenes":[],"rules":[],"model":"m","agent":null}"#;
        check(spelled, Ok(empty));
        check(
            r#"{"history":"faithful","retention":"template","rules":[{"name":"r","action":"same"}]}"#,
            Ok(
                r#"{"history":"faithful","retention":"template","rules":[{"name":"r","action":"same"}],"sampling":{},"limits":{}}"#,
            ),
        );
        check(
            r#"{"agent":"a","limits":{"turns":3},"sampling":{"top_k":5},"metadata":{"x":[1]}}"#,
            Ok(r#"{"agent":"a","sampling":{"top_k":5},"limits":{"turns":3},"metadata":{"x":[1]}}"#),
        );
    }

    #[test]
    fn an_agent_that_is_nearly_a_known_one_is_told() {
        assert!(
            agent_warning(Some("claud-code")).unwrap().ends_with("did you mean `claude-code`?")
        );
        for fine in [None, Some("Claude-Code"), Some("codex"), Some("zzz")] {
            assert_eq!(agent_warning(fine), None);
        }
    }

    #[test]
    fn what_cannot_be_is_told_with_the_key() {
        check(r#"{"agnet":"a"}"#, Err("did you mean `agent`?"));
        check(r#"{"sampling":{"temprature":1}}"#, Err("did you mean `temperature`?"));
        check(r#"{"limits":{"turn":1}}"#, Err("did you mean `turns`?"));
        check(r#"{"history":"faithfull"}"#, Err("`history`: unknown variant `faithfull`"));
        check(r#"{"retention":"none"}"#, Err("`retention`: unknown variant `none`"));
        check(r#"{"rules":["x"]}"#, Err("`rules`: invalid type"));
        check(r#"{"rules":[{"name":"r","actoin":"same"}]}"#, Err("unknown field `actoin`"));
        check(r#"{"scenes":{"x":1}}"#, Err("`scenes`: invalid type"));
        check(r#"{"model":"other"}"#, Err("\"other\" is not served here; `m` is"));
        check(r#"{"limits":{"turns":-1}}"#, Err("invalid value"));
    }
}
