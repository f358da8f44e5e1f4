//! SGLang's answers.

use rollgate_pipeline::id::TokenId;
use rollgate_pipeline::turn::Finish;
use serde::Serialize;
use serde_json::{Value, json};

use crate::engine::script::ScriptedFault;
use crate::engine::stage::{Ask, Sampled, Stage, StoppedBy};

/// The body of a good answer.
#[derive(Serialize)]
pub(super) struct Generated<'a> {
    text: String,
    output_ids: &'a [TokenId],
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<&'a Vec<TokenId>>,
    meta_info: Meta<'a>,
}

/// Which parts of an answer are asked for.
pub(super) struct Wanted {
    /// Log-probabilities.
    pub(super) scores: bool,
    /// Log-probabilities of the prompt from this index on.
    pub(super) scored_from: Option<usize>,
    /// Texts beside log-probabilities.
    pub(super) texts: bool,
    /// The prompt's ids.
    pub(super) prompt: bool,
}

impl<'a> Generated<'a> {
    pub(super) fn new(stage: &Stage, ask: &'a Ask, sampled: &'a Sampled, wanted: &Wanted) -> Self {
        let spans = json!([{"version": sampled.version, "start": 0, "end": sampled.ids.len()}]);
        Self {
            text: text(stage, sampled),
            output_ids: &sampled.ids,
            prompt_token_ids: wanted.prompt.then_some(&ask.prompt),
            meta_info: Meta {
                id: &ask.request_id,
                finish_reason: finish_reason(stage, sampled),
                prompt_tokens: ask.prompt.len(),
                completion_tokens: sampled.ids.len(),
                cached_tokens: sampled.cached,
                weight_version: &sampled.version,
                weight_versions: spans,
                e2e_latency: 0.0,
                scores: wanted.scores.then(|| Scores::new(stage, ask, sampled, wanted)),
            },
        }
    }
}

#[derive(Serialize)]
struct Meta<'a> {
    id: &'a str,
    finish_reason: Value,
    prompt_tokens: usize,
    completion_tokens: usize,
    cached_tokens: u32,
    weight_version: &'a str,
    weight_versions: Value,
    e2e_latency: f64,
    #[serde(flatten)]
    scores: Option<Scores>,
}

/// `[logprob, id, text or null]`.
type Triple = (Option<f64>, TokenId, Option<String>);

#[derive(Serialize)]
struct Scores {
    input_token_logprobs: Vec<Triple>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_token_logprobs: Option<Vec<Triple>>,
}

impl Scores {
    fn new(stage: &Stage, ask: &Ask, sampled: &Sampled, wanted: &Wanted) -> Self {
        let triple = |logprob: Option<f32>, id: TokenId| {
            (logprob.map(f64::from), id, wanted.texts.then(|| stage.text(&[id])))
        };
        let input = wanted.scored_from.map(|start| {
            let known =
                std::iter::once(None).chain(stage.score_prompt(&ask.prompt).into_iter().map(Some));
            let all = known.zip(&ask.prompt).skip(start).enumerate();
            // The first entry has no log-probability, wherever it starts.
            all.map(|(n, (logprob, id))| triple(logprob.filter(|_| n > 0), *id)).collect()
        });
        let output = sampled.logprobs.iter().zip(&sampled.ids);
        let missing = sampled.fault == Some(ScriptedFault::MissingLogprobs);
        Self {
            input_token_logprobs: input.unwrap_or_default(),
            output_token_logprobs: (!missing)
                .then(|| output.map(|(logprob, id)| triple(Some(*logprob), *id)).collect()),
        }
    }
}

fn finish_reason(stage: &Stage, sampled: &Sampled) -> Value {
    match (sampled.finish, &sampled.stopped_by) {
        (Finish::Stop, StoppedBy::Text(text)) => json!({"type": "stop", "matched": text}),
        (Finish::Stop, StoppedBy::Id(id)) => json!({"type": "stop", "matched": id}),
        (Finish::Stop, StoppedBy::Nothing) => {
            json!({"type": "stop", "matched": stage.model.markers.close})
        }
        (Finish::Length, _) => json!({"type": "length", "length": sampled.ids.len()}),
        (Finish::Abort, _) => json!({
            "type": "abort", "message": "aborted by request",
            "status_code": null, "err_type": null,
        }),
    }
}

/// The text without what stopped it.
fn text(stage: &Stage, sampled: &Sampled) -> String {
    let close = stage.model.markers.close;
    let shown = sampled.ids.strip_suffix(&[close]).unwrap_or(&sampled.ids);
    let mut text = stage.text(shown);
    if let StoppedBy::Text(stop) = &sampled.stopped_by
        && let Some(at) = text.find(stop.as_str())
    {
        text.truncate(at);
    }
    text
}
