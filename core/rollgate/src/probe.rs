//! Asking an engine what it is: which HTTP it speaks, under which name it serves its model, and how
//! long its context is.

use std::time::Duration;

use rollgate_pipeline::engine::EngineKind;
use serde_json::Value;

/// What an engine says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFacts {
    /// The HTTP it speaks.
    pub kind: EngineKind,
    /// Names of the models it serves.
    pub models: Vec<String>,
    /// Longest prompt plus answer, where it says so.
    pub max_context: Option<u32>,
}

/// Asks an engine. The error says how it could not be asked.
pub fn ask(url: &str) -> Result<EngineFacts, String> {
    let agent = client(Duration::from_secs(10));
    let models = get(&agent, &format!("{url}/v1/models"))?;
    let listed = models["data"].as_array().cloned().unwrap_or_default();
    let names = listed.iter().filter_map(|model| Some(model["id"].as_str()?.to_owned())).collect();
    let max_context = listed.iter().find_map(|model| model["max_model_len"].as_u64());
    Ok(EngineFacts {
        kind: kind(&agent, url)?,
        models: names,
        max_context: max_context.and_then(|tokens| u32::try_from(tokens).ok()),
    })
}

/// A client that reports statuses as values and waits no longer than this.
pub fn client(timeout: Duration) -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .build()
        .into()
}

/// SGLang describes its model under a path of its own; newer vLLM has the route for ids, and answers
/// an empty request there with a complaint instead of 404, or 403 where the route is switched off.
fn kind(agent: &ureq::Agent, url: &str) -> Result<EngineKind, String> {
    let model_info = agent.get(format!("{url}/model_info")).call();
    if model_info.map_err(|error| format!("{url}: {error}"))?.status() == 200 {
        return Ok(EngineKind::Sglang);
    }
    let generate = agent
        .post(format!("{url}/inference/v1/generate"))
        .content_type("application/json")
        .send("{}")
        .map_err(|error| format!("{url}: {error}"))?;
    Ok(match generate.status().as_u16() {
        401 | 403..=405 => EngineKind::VllmCompletions,
        _ => EngineKind::Vllm,
    })
}

fn get(agent: &ureq::Agent, url: &str) -> Result<Value, String> {
    let mut reply = agent.get(url).call().map_err(|error| format!("{url}: {error}"))?;
    if reply.status() != 200 {
        return Err(format!("{url}: status {}", reply.status()));
    }
    reply.body_mut().read_json().map_err(|error| format!("{url}: {error}"))
}
