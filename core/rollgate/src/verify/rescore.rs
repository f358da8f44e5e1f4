//! Re-scoring: does the engine, shown a sample's tokens as a prompt, give the sampled ones the
//! log-probabilities that the sample has?

use std::time::Duration;

use rollgate_pipeline::engine::EngineKind;
use rollgate_pipeline::fault::FaultKind;
use rollgate_pipeline::sample::{Sample, check};
use serde::Serialize;

use super::Report;
use crate::probe;

const TIMEOUT: Duration = Duration::from_secs(600);

/// Differences over all sampled tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Scores {
    /// Sampled tokens compared.
    pub tokens: usize,
    /// Mean absolute difference.
    pub mean: f64,
    /// Largest absolute difference.
    pub max: f64,
}

/// Re-scores every sample. The error says why the engine could not be asked.
pub fn rescore(url: &str, samples: &[Sample], report: &mut Report) -> Result<Scores, String> {
    let url = crate::config::base_url(url);
    let facts = probe::ask(url)?;
    let agent = probe::client(TIMEOUT);
    let model = |sample: &Sample| match facts.models.contains(&sample.provenance.model) {
        true => sample.provenance.model.clone(),
        false => facts.models.first().cloned().unwrap_or_default(),
    };
    let mut scores = Scores::default();
    let mut sum = 0.0;
    for sample in samples.iter().filter(|sample| check(sample).is_empty()) {
        // Scoring samples one more token; what fills the context is scored but for its last id.
        let room = facts.max_context.map_or(usize::MAX, |tokens| tokens as usize - 1);
        let tokens = &sample.tokens[..sample.tokens.len().min(room)];
        let scored = match score(&agent, url, facts.kind, &model(sample), tokens) {
            Ok(scored) => scored,
            Err(Refused::Engine(message)) => return Err(message),
            Err(Refused::Sample(message)) => {
                report.find("rescore", &sample.sample_id, message);
                continue;
            }
        };
        let spans = sample.turns.iter().flat_map(|span| span.start as usize..span.end as usize);
        for at in spans.filter(|at| *at < tokens.len()) {
            let pair = (sample.logprobs.get(at), scored.get(at).copied().flatten());
            let (Some(&ours), Some(theirs)) = pair else {
                report.find("rescore", &sample.sample_id, format!("no score for token {at}"));
                continue;
            };
            let difference = (f64::from(ours) - f64::from(theirs)).abs();
            // A difference that is not a number must not hide behind comparisons.
            let difference = if difference.is_finite() { difference } else { f64::MAX };
            scores.tokens += 1;
            sum += difference;
            scores.max = scores.max.max(difference);
        }
    }
    if scores.tokens == 0 {
        report.find("rescore", "", "no sampled token was compared");
    } else {
        scores.mean = sum / scores.tokens as f64;
    }
    Ok(scores)
}

enum Refused {
    /// The engine cannot be asked at all.
    Engine(String),
    /// It does not take this sample.
    Sample(String),
}

fn score(
    agent: &ureq::Agent,
    url: &str,
    kind: EngineKind,
    model: &str,
    tokens: &[u32],
) -> Result<Vec<Option<f32>>, Refused> {
    let request = kind.score_request(model, tokens);
    let engine = |error: ureq::Error| Refused::Engine(format!("{url}: {error}"));
    let mut reply = agent
        .post(format!("{url}{}", request.path))
        .content_type("application/json")
        .send(&request.body.concat()[..])
        .map_err(engine)?;
    let status = reply.status().as_u16();
    let limit = rollgate_pipeline::limits::Limits::default().engine_reply_bytes;
    let body = reply.body_mut().with_config().limit(limit).read_to_vec().map_err(engine)?;
    kind.read_scores(status, &body, tokens).map_err(|fault| match fault.kind {
        FaultKind::EngineBusy
        | FaultKind::EngineLimited
        | FaultKind::EngineDown
        | FaultKind::EngineTimeout => Refused::Engine(fault.message),
        _ => Refused::Sample(fault.message),
    })
}
