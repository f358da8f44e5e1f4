//! Answers other than 200, and whose fault they are.

use std::fmt::Display;

use serde_json::Value;

use super::EngineKind;
use crate::fault::{Fault, FaultKind};

/// Most bytes of an engine's message that are quoted.
const QUOTE_BYTES: usize = 500;

/// The fault of an answer that is not 200:
///
/// | status | fault |
/// | --- | --- |
/// | 400 that says that the prompt does not fit | `ContextOverflow` |
/// | 401, 403, 407 | `EngineDenied`: the node lacks credentials, not the agent |
/// | 429 | `EngineLimited`, to be tried again in a second |
/// | any other 4xx, 501 | `EngineRefused`: the same request will be refused again |
/// | 503 | `EngineBusy`, to be tried again in a second |
/// | 502 | `EngineDown`: a proxy could not reach the engine |
/// | 504 | `EngineTimeout`: a proxy gave up on it |
/// | other 5xx | `EngineBadReply`: the engine broke down over the request |
/// | anything else | `EngineBadReply` |
pub fn fault(kind: EngineKind, status: u16, body: &[u8]) -> Fault {
    let told = message(body);
    let told = clipped(&told);
    let name = kind.name();
    let say = |fault: FaultKind, what: &dyn Display| {
        Fault::new(fault, format_args!("the {name} engine {what} (HTTP {status}): {told}"))
    };
    match status {
        400 if speaks_of_overflow(told) => {
            say(FaultKind::ContextOverflow, &"says that the prompt does not fit its context")
        }
        401 | 403 | 407 => {
            let what = "wants credentials that the node does not send: let the node pass";
            say(FaultKind::EngineDenied, &what)
        }
        429 => say(FaultKind::EngineLimited, &"takes no more requests for now"),
        503 => say(FaultKind::EngineBusy, &"is busy"),
        404 => say(FaultKind::EngineRefused, &format_args!("refused the request; {}", route(kind))),
        400..=499 | 501 => say(FaultKind::EngineRefused, &"refused the request"),
        502 => say(FaultKind::EngineDown, &"cannot be reached by what stands before it"),
        504 => say(FaultKind::EngineTimeout, &"did not answer what stands before it"),
        500..=599 => say(FaultKind::EngineBadReply, &"failed on the request"),
        _ => say(FaultKind::EngineBadReply, &"answered with an unexpected status"),
    }
}

fn route(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Vllm => {
            "check its model name, and whether it has /inference/v1/generate (older servers need \
             kind `vllm-completions`)"
        }
        EngineKind::VllmCompletions => "check its model name and that it serves /v1/completions",
        EngineKind::Sglang => "check that it is an SGLang server with the native /generate route",
    }
}

/// Whether the answer says that generation is paused. Engines have no code for this either.
pub fn paused(status: u16, body: &[u8]) -> bool {
    if status != 503 {
        return false;
    }
    let text = message(body).to_lowercase();
    ["paused", "pausing", "weight update", "updating weights", "update weights"]
        .iter()
        .any(|part| text.contains(part))
}

/// Engines have no code for this, only wordings.
fn speaks_of_overflow(message: &str) -> bool {
    let text = message.to_lowercase();
    let any = [
        "maximum context length",
        "maximum model length",
        "model's context length",
        "plus the number of requested output tokens",
        "max_model_len",
    ];
    any.iter().any(|part| text.contains(part))
        || (text.contains("input length") && text.contains("exceeds"))
}

/// How many tokens an engine's context holds, where a refusal says so.
pub fn told_context(body: &[u8]) -> Option<u32> {
    /// Words between the phrase and its number: `is`, `of`, `(`.
    const BETWEEN_BYTES: usize = 8;
    let text = message(body).to_lowercase();
    let phrases = ["context length", "model length", "max_model_len"];
    phrases.iter().find_map(|phrase| {
        let (_, rest) = text.split_once(phrase)?;
        let begin = rest.find(|c: char| c.is_ascii_digit()).filter(|at| *at <= BETWEEN_BYTES)?;
        let digits = rest[begin..].split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    })
}

/// The message of an error body, in any of the shapes that engines use; else its first bytes.
fn message(body: &[u8]) -> String {
    let told = serde_json::from_slice::<Value>(body).ok().and_then(|value| {
        ["error", "message", "detail"].iter().find_map(|name| value.get(*name).and_then(words))
    });
    told.unwrap_or_else(|| {
        let head = &body[..body.len().min(QUOTE_BYTES)];
        let text = String::from_utf8_lossy(head);
        if text.trim().is_empty() { "no message".to_owned() } else { text.trim().to_owned() }
    })
}

/// The words in an error value: a text, `{"message": …}`, or a validator's list. A validator
/// repeats what it was sent, prompts too, so only its `loc` and `msg` are taken.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(members) => {
            members.get("message").or_else(|| members.get("detail")).and_then(words)
        }
        Value::Array(entries) => {
            let said: Vec<String> = entries.iter().filter_map(complaint).collect();
            (!said.is_empty()).then(|| said.join("; "))
        }
        _ => None,
    }
}

fn complaint(entry: &Value) -> Option<String> {
    let said = entry.get("msg")?.as_str()?;
    let place: Vec<String> = entry
        .get("loc")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
        .collect();
    Some(if place.is_empty() { said.to_owned() } else { format!("{}: {said}", place.join(".")) })
}

/// At most [`QUOTE_BYTES`] of a text, cut between characters.
pub fn clipped(text: &str) -> &str {
    let mut end = text.len().min(QUOTE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
