//! What can go wrong with a scripted answer.

use serde::Deserialize;

/// What goes wrong with an answer.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub enum ScriptedFault {
    /// Another status; without a body the engine's own error body.
    Status {
        /// HTTP status.
        status: u16,
        /// The body to send as it is.
        body: Option<String>,
    },
    /// The connection is closed after so many bytes of the answer, head included.
    CloseAfterBytes(usize),
    /// Half of the answer is sent, then nothing for so many milliseconds, then the rest.
    StallMs(u64),
    /// The body ends in the middle of its JSON.
    BadJson,
    /// One log-probability is missing.
    WrongLengths,
    /// One id is outside the vocabulary.
    BadId,
    /// There are no log-probabilities although they were asked for.
    MissingLogprobs,
    /// The engine gives up after so many ids, as it does for new weights.
    AbortAfterTokens(usize),
    /// For so many milliseconds from the first such call the engine is paused: vLLM refuses calls
    /// meanwhile, SGLang lets them wait.
    PausedMs(u64),
}

impl ScriptedFault {
    /// The key that names it.
    pub fn name(&self) -> &'static str {
        match self {
            ScriptedFault::Status { .. } => "status",
            ScriptedFault::CloseAfterBytes(_) => "close_after_bytes",
            ScriptedFault::StallMs(_) => "stall_ms",
            ScriptedFault::BadJson => "bad_json",
            ScriptedFault::WrongLengths => "wrong_lengths",
            ScriptedFault::BadId => "bad_id",
            ScriptedFault::MissingLogprobs => "missing_logprobs",
            ScriptedFault::AbortAfterTokens(_) => "abort_after_tokens",
            ScriptedFault::PausedMs(_) => "paused_ms",
        }
    }

    /// Whether what was sampled reaches the caller as it is, sooner or later.
    pub fn answers(&self) -> bool {
        matches!(self, ScriptedFault::StallMs(_) | ScriptedFault::AbortAfterTokens(_))
    }
}

/// The written form: one key says which fault.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    status: Option<u16>,
    body: Option<String>,
    close_after_bytes: Option<usize>,
    stall_ms: Option<u64>,
    #[serde(default)]
    bad_json: bool,
    #[serde(default)]
    wrong_lengths: bool,
    #[serde(default)]
    bad_id: bool,
    #[serde(default)]
    missing_logprobs: bool,
    abort_after_tokens: Option<usize>,
    paused_ms: Option<u64>,
}

impl TryFrom<Written> for ScriptedFault {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { status, body, .. } = written;
        if body.is_some() && status.is_none() {
            return Err("a fault's `body` needs a `status`".to_owned());
        }
        if status.is_some_and(|status| !(200..600).contains(&status)) {
            return Err("a fault's `status` is from 200 to 599".to_owned());
        }
        let mut named: Vec<ScriptedFault> = [
            status.map(|status| ScriptedFault::Status { status, body }),
            written.close_after_bytes.map(ScriptedFault::CloseAfterBytes),
            written.stall_ms.map(ScriptedFault::StallMs),
            written.bad_json.then_some(ScriptedFault::BadJson),
            written.wrong_lengths.then_some(ScriptedFault::WrongLengths),
            written.bad_id.then_some(ScriptedFault::BadId),
            written.missing_logprobs.then_some(ScriptedFault::MissingLogprobs),
            written.abort_after_tokens.map(ScriptedFault::AbortAfterTokens),
            written.paused_ms.map(ScriptedFault::PausedMs),
        ]
        .into_iter()
        .flatten()
        .collect();
        match (named.pop(), named.is_empty()) {
            (Some(fault), true) => Ok(fault),
            _ => {
                Err("a fault names exactly one of status, close_after_bytes, stall_ms, bad_json, \
                      wrong_lengths, bad_id, missing_logprobs, abort_after_tokens, paused_ms"
                    .to_owned())
            }
        }
    }
}
