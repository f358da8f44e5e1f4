//! What an engine told, checked against itself.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::EngineKind;
use super::numbers::Column;
use super::pull::{Pull, Slot};
use super::refusal::clipped;
use crate::fault::{Fault, FaultKind};
use crate::id::TokenId;
use crate::turn::{Finish, Generated, VersionSpan};

/// What a reply says, engine spelling removed, nothing checked.
pub struct Told {
    /// Sampled ids.
    pub ids: Option<Vec<TokenId>>,
    /// Their log-probabilities.
    pub column: Option<Column>,
    /// Why it ended.
    pub finish: Finish,
    /// Which stop text ended it.
    pub stop_text: Option<String>,
    /// Weight versions by span.
    pub spans: Vec<Span>,
    /// The weight version of all of it, where there are no spans.
    pub label: Option<String>,
    /// Prompt tokens taken from the prefix cache.
    pub cached_tokens: Option<u32>,
    /// Prompt tokens as the engine counted them.
    pub prompt_tokens: Option<u32>,
    /// Sampled tokens as the engine counted them.
    pub completion_tokens: Option<u32>,
}

/// A half-open span of sampled tokens under one weight version.
#[derive(Deserialize)]
pub struct Span {
    version: String,
    start: u32,
    end: u32,
}

/// What ended an answer: a text, an id, or ids.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Matched {
    /// A stop text.
    Text(String),
    /// A stop id; it is among the sampled ids.
    Other(IgnoredAny),
}

impl Span {
    /// Reads one.
    pub fn pull(pull: &mut Pull<'_>) -> Option<Self> {
        let (mut version, mut start, mut end) = (Slot::default(), Slot::default(), Slot::default());
        pull.object(|pull, key| match key {
            b"version" => version.put(pull.text()?.into_owned()),
            b"start" => start.put(pull.integer()?),
            b"end" => end.put(pull.integer()?),
            _ => pull.skip(),
        })?;
        Some(Self { version: version.0?, start: start.0?, end: end.0? })
    }

    /// Reads a list of them.
    pub fn pull_all(pull: &mut Pull<'_>) -> Option<Vec<Self>> {
        let mut spans = Vec::new();
        pull.array(|pull| {
            spans.push(Self::pull(pull)?);
            Some(())
        })?;
        Some(spans)
    }
}

impl Matched {
    /// Reads one that is a text or an id.
    pub fn pull(pull: &mut Pull<'_>) -> Option<Self> {
        match pull.begins_text() {
            true => pull.text().map(|text| Matched::Text(text.into_owned())),
            false => pull.integer().map(|_| Matched::Other(IgnoredAny)),
        }
    }

    /// The stop text, if it was one.
    pub fn text(self) -> Option<String> {
        match self {
            Matched::Text(text) => Some(text),
            Matched::Other(_) => None,
        }
    }
}

/// Reads a reply's JSON.
pub fn parsed<'a, T: Deserialize<'a>>(kind: EngineKind, reply: &'a [u8]) -> Result<T, Fault> {
    serde_json::from_slice(reply).map_err(|error| {
        // What follows a quote is out of the reply, and no text of it may get into a message.
        let text = error.to_string();
        let what = text.split('"').next().unwrap_or_default().trim_end();
        let at = format!("line {}, column {}", error.line(), error.column());
        bad(kind, format_args!("its JSON is not what the route answers ({what}; {at})"))
    })
}

/// The only choice.
pub fn only<C>(kind: EngineKind, mut choices: Vec<C>) -> Result<C, Fault> {
    match (choices.pop(), choices.len()) {
        (Some(choice), 0) => Ok(choice),
        (None, _) => Err(bad(kind, "it has no `choices`")),
        (Some(_), more) => Err(bad(
            kind,
            format_args!("it has {} choices; take `n` out of `sampling.extra`", more + 1),
        )),
    }
}

/// The fault of an unknown or missing finish reason.
pub fn unknown_finish(kind: EngineKind, reason: Option<&str>) -> Fault {
    match reason {
        Some(reason) => bad(kind, format_args!("finish reason {:?} is unknown", clipped(reason))),
        None => bad(kind, "it has no finish reason, so the answer is not finished"),
    }
}

/// The generation, if all that was told agrees.
pub fn generated(kind: EngineKind, told: Told, vocab_size: u32) -> Result<Generated, Fault> {
    let sampled_nothing = told.completion_tokens.unwrap_or(0) == 0;
    let ids = match told.ids {
        Some(ids) => ids,
        // An abort in the queue leaves the lists out.
        None if told.finish == Finish::Abort && sampled_nothing => Vec::new(),
        None => return Err(bad(kind, missing_ids(kind))),
    };
    let column = match told.column {
        Some(column) => column,
        None if ids.is_empty() => Column::default(),
        None => return Err(bad(kind, missing_logprobs(kind))),
    };
    if ids.len() != column.logprobs.len() {
        let (ids, logprobs) = (ids.len(), column.logprobs.len());
        return Err(bad(kind, format_args!("{ids} token ids, but {logprobs} log-probabilities")));
    }
    if let Some(counted) = told.completion_tokens.filter(|&n| n as usize != ids.len()) {
        let ids = ids.len();
        return Err(bad(kind, format_args!("{ids} token ids, but it counts {counted}")));
    }
    if let Some(at) = ids.iter().position(|&id| id >= vocab_size) {
        let id = ids[at];
        return Err(bad(
            kind,
            format_args!(
                "sampled id {id} at {at} is outside the vocabulary of {vocab_size}; \
                 engine and gateway serve different models"
            ),
        ));
    }
    let logprobs = known(kind, column, &ids, 0)?.into_iter().flatten().collect();
    let versions = versions(kind, told.spans, told.label, ids.len())?;
    Ok(Generated {
        ids,
        logprobs,
        finish: told.finish,
        stop_text: told.stop_text,
        versions,
        cached_tokens: told.cached_tokens,
        prompt_tokens: told.prompt_tokens,
    })
}

/// One score per id, `None` for the first.
pub fn scores(
    kind: EngineKind,
    column: Column,
    ids: &[TokenId],
) -> Result<Vec<Option<f32>>, Fault> {
    if column.logprobs.len() != ids.len() {
        let (scores, ids) = (column.logprobs.len(), ids.len());
        return Err(bad(kind, format_args!("{scores} prompt scores for {ids} ids")));
    }
    let mut scores = known(kind, column, ids, 1)?;
    if let Some(first) = scores.first_mut() {
        *first = None;
    }
    Ok(scores)
}

/// The column's log-probabilities, if they are those of `ids` and all from `first` on are there.
fn known(
    kind: EngineKind,
    column: Column,
    ids: &[TokenId],
    first: usize,
) -> Result<Vec<Option<f32>>, Fault> {
    for (at, (named, &id)) in column.ids.iter().zip(ids).enumerate() {
        if let Some(named) = named.filter(|&named| named != id) {
            return Err(bad(
                kind,
                format_args!("log-probability {at} is of id {named}, but the id there is {id}"),
            ));
        }
    }
    let missing = |&(at, logprob): &(usize, &Option<f32>)| at >= first && logprob.is_none();
    match column.logprobs.iter().enumerate().find(missing) {
        Some((at, _)) => Err(bad(kind, format_args!("there is no log-probability for id {at}"))),
        None => Ok(column.logprobs),
    }
}

/// Version spans over `[0, len)`. Spans without a token are left out, equal neighbours joined.
fn versions(
    kind: EngineKind,
    spans: Vec<Span>,
    label: Option<String>,
    len: usize,
) -> Result<Vec<VersionSpan>, Fault> {
    if spans.is_empty() {
        let whole = label.filter(|_| len > 0).map(|version| VersionSpan { start: 0, version });
        return Ok(whole.into_iter().collect());
    }
    let mut versions: Vec<VersionSpan> = Vec::with_capacity(spans.len());
    let mut covered = 0;
    for Span { version, start, end } in spans {
        if start != covered || end < start {
            return Err(bad(
                kind,
                format_args!("weight version span [{start}, {end}) follows token {covered}"),
            ));
        }
        covered = end;
        let goes_on = versions.last().is_some_and(|last| last.version == version);
        if start < end && !goes_on {
            versions.push(VersionSpan { start, version });
        }
    }
    if covered as usize != len {
        return Err(bad(
            kind,
            format_args!("weight version spans cover {covered} of {len} sampled tokens"),
        ));
    }
    Ok(versions)
}

fn missing_ids(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Vllm => {
            "it has no `token_ids`; the server must answer /inference/v1/generate in output mode \
             `tokens`, else use kind `vllm-completions`"
        }
        EngineKind::VllmCompletions => {
            "it has no `token_ids`; the server is too old for `return_token_ids`, or something in \
             between drops them: use a newer vLLM, or kind `vllm` for its tokens route"
        }
        EngineKind::Sglang => {
            "it has no `output_ids`; the native /generate route must be reached, not an OpenAI \
             route or a router that rewrites replies"
        }
    }
}

fn missing_logprobs(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Vllm | EngineKind::VllmCompletions => {
            "it has no log-probabilities, though `logprobs: 0` was sent; take `logprobs` out of \
             `sampling.extra`, and see whether something in between drops them"
        }
        EngineKind::Sglang => "it has no `output_token_logprobs`, though `return_logprob` was sent",
    }
}

/// A reply that cannot be believed.
fn bad(kind: EngineKind, what: impl std::fmt::Display) -> Fault {
    let name = kind.name();
    Fault::new(FaultKind::EngineBadReply, format_args!("the {name} engine's reply is bad: {what}"))
}
