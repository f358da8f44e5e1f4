//! What an engine says of itself besides generations: whether it takes calls, and what it serves.

use serde::Deserialize;

use super::EngineKind;

/// Where an engine lists its models; `GET`.
pub const MODELS_PATH: &str = "/v1/models";

/// What an answer of the health route means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wellbeing {
    /// It takes calls.
    Well,
    /// It lives, and takes no calls for now (503).
    Unavailable,
    /// It is broken.
    Ill,
}

impl Wellbeing {
    /// By the status. An engine that lacks the route, or wants credentials for it, is alive.
    pub fn of(status: u16) -> Self {
        match status {
            503 => Wellbeing::Unavailable,
            500.. => Wellbeing::Ill,
            _ => Wellbeing::Well,
        }
    }
}

/// A model that an engine lists.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct ServedModel {
    /// Its name.
    #[serde(rename = "id")]
    pub name: String,
    /// Longest prompt plus answer, in tokens, where it is told.
    #[serde(default, rename = "max_model_len")]
    pub max_context: Option<u32>,
}

/// The models in a body of [`MODELS_PATH`]; none where it is not understood.
pub fn served_models(body: &[u8]) -> Vec<ServedModel> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<ServedModel>,
    }
    serde_json::from_slice::<List>(body).map(|list| list.data).unwrap_or_default()
}

/// SGLang's `/health` samples a token and takes a second; `/ready` does not.
pub(super) fn path(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Vllm | EngineKind::VllmCompletions => "/health",
        EngineKind::Sglang => "/ready",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_how_an_engine_is() {
        for (status, well) in [
            (200, Wellbeing::Well),
            (404, Wellbeing::Well),
            (401, Wellbeing::Well),
            (503, Wellbeing::Unavailable),
            (500, Wellbeing::Ill),
            (502, Wellbeing::Ill),
        ] {
            assert_eq!(Wellbeing::of(status), well, "{status}");
        }
    }

    #[test]
    fn listed_models_are_read_and_nonsense_is_none() {
        let body = br#"{"object":"list","data":[{"id":"m","max_model_len":7,"x":1},{"id":"n"}]}"#;
        let model = |name: &str, max_context| ServedModel { name: name.to_owned(), max_context };
        assert_eq!(served_models(body), [model("m", Some(7)), model("n", None)]);
        assert!(served_models(b"<html>").is_empty() && served_models(b"{}").is_empty());
    }
}
