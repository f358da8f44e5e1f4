//! Sampling parameters of vLLM's routes, and playing a call in its name.

use rollgate_pipeline::id::TokenId;
use serde::Deserialize;

use super::{bad, refusal};
use crate::engine::answer::Answer;
use crate::engine::score::spread;
use crate::engine::script::ScriptedFault;
use crate::engine::serve::Request;
use crate::engine::stage::{Ask, Sampled, Stage};

/// Most alternatives per position, the real engine's default.
const MOST_LOGPROBS: u32 = 20;

/// Sampling parameters that matter here, of the token route and of completions alike. Others are
/// ignored, as the real engine does.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Params {
    n: Option<u32>,
    pub(super) max_tokens: Option<u32>,
    stop: Option<Stop>,
    stop_token_ids: Option<Vec<TokenId>>,
    ignore_eos: bool,
    detokenize: Option<bool>,
    pub(super) logprobs: Option<u32>,
    pub(super) prompt_logprobs: Option<u32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stop {
    One(String),
    Many(Vec<String>),
}

impl Params {
    /// The call, once prompt and parameters passed the checks that both routes share. The caller
    /// has checked that the prompt leaves room for a token.
    pub(super) fn ask(
        self,
        stage: &Stage,
        request_id: String,
        prompt: Vec<TokenId>,
        salt: Option<String>,
    ) -> Result<Ask, Answer> {
        let model = &stage.model;
        if let Some(id) = prompt.iter().find(|id| **id >= model.vocab_size) {
            return Err(bad(&format!("Token id {id} is out of vocabulary")));
        }
        if self.n.is_some_and(|n| n != 1) || self.ignore_eos {
            return Err(bad("the scripted engine has no `n` above 1 and no `ignore_eos`"));
        }
        if self.max_tokens == Some(0) {
            return Err(bad("max_tokens must be at least 1, got 0."));
        }
        if self.logprobs.max(self.prompt_logprobs).is_some_and(|most| most > MOST_LOGPROBS) {
            return Err(bad(&format!("more than {MOST_LOGPROBS} logprobs were requested")));
        }
        let stop = match self.stop {
            None => Vec::new(),
            Some(Stop::One(text)) => vec![text],
            Some(Stop::Many(texts)) => texts,
        };
        if !stop.is_empty() && self.detokenize == Some(false) {
            return Err(bad("stop strings are only supported when detokenize is True."));
        }
        let room = model.max_context as usize - prompt.len();
        Ok(Ask {
            request_id,
            max_tokens: self.max_tokens.map_or(room, |max| room.min(max as usize)),
            stop,
            stop_ids: self.stop_token_ids.unwrap_or_default(),
            salt: salt.unwrap_or_default(),
            scores_prompt: self.prompt_logprobs.is_some(),
            prompt,
        })
    }
}

/// Plays the call and handles what needs no body of its own: a script without a reply, and faults
/// that answer another status.
pub(super) async fn play(stage: &Stage, ask: &Ask) -> Result<Sampled, Answer> {
    let sampled = stage
        .play(ask)
        .await
        .map_err(|message| refusal(500, "InternalServerError", None, &message))?;
    match &sampled.fault {
        Some(ScriptedFault::PausedMs(_)) => {
            let message = "Generation is paused. Please retry after it resumes.";
            Err(refusal(503, "ServiceUnavailableError", None, message))
        }
        Some(ScriptedFault::Status { status, body: None }) => {
            let kind = match status {
                503 => "ServiceUnavailableError",
                500..=599 => "InternalServerError",
                404 => "NotFoundError",
                _ => "BadRequestError",
            };
            Err(refusal(*status, kind, None, "the script asks for this error"))
        }
        Some(ScriptedFault::Status { status, body: Some(body) }) => {
            Err(Answer::text(*status, "application/json", body))
        }
        _ => Ok(sampled),
    }
}

/// 404 unless the model is the served one.
pub(super) fn known_model(stage: &Stage, name: Option<&str>) -> Result<(), Answer> {
    match name {
        Some(name) if name != stage.model.name => {
            let message = format!("The model `{name}` does not exist.");
            Err(refusal(404, "NotFoundError", Some("model"), &message))
        }
        _ => Ok(()),
    }
}

/// The caller's request id: header, then body, then one made from the prompt.
pub(super) fn request_id(request: &Request, body: Option<String>, prompt: &[TokenId]) -> String {
    let header = request.head.header("x-request-id").map(str::to_owned);
    header.or(body).unwrap_or_else(|| {
        let hash = prompt.iter().fold(0, |hash, id| spread(hash ^ u64::from(*id)));
        format!("{hash:016x}")
    })
}
