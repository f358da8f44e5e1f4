//! Whether a session's samples are what the engine sampled.

use rollgate_bench::load::{Load, Told};
use serde::Deserialize;
use serde_json::Value;

/// What is compared of a sample.
#[derive(Deserialize)]
struct Sample {
    tokens: Vec<u32>,
    loss_mask: Vec<u8>,
    logprobs: Vec<f32>,
    turns: Vec<Span>,
    health: Value,
}

#[derive(Deserialize)]
struct Span {
    start: usize,
    end: usize,
}

/// Compares the samples of one session with its conversations. Returns what is wrong, in words.
pub fn compare(load: &Load, told: &[Told], samples: &str) -> anyhow::Result<Option<String>> {
    let samples: Vec<Sample> =
        samples.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let known: Vec<&Told> = told.iter().filter(|told| told.chain.is_some()).collect();
    if samples.len() != known.len() {
        return Ok(Some(format!("{} segments of {} conversations", samples.len(), known.len())));
    }
    for told in known {
        let Some(chain) = told.chain else { continue };
        let Some(sample) = samples.iter().find(|sample| chain.is_of(&sample.tokens)) else {
            return Ok(Some(format!("no sample has the ids of run {}", told.conversation)));
        };
        let sampled = load.sampled(told.conversation, chain.turns)?;
        if let Some(wrong) = differs(sample, &sampled) {
            return Ok(Some(format!("the sample of run {}: {wrong}", told.conversation)));
        }
    }
    Ok(None)
}

fn differs(sample: &Sample, sampled: &[rollgate_bench::load::Sampled]) -> Option<String> {
    if sample.health != "clean" {
        return Some(format!("its health is {}", sample.health));
    }
    let length = sample.tokens.len();
    if (sample.loss_mask.len(), sample.logprobs.len()) != (length, length) {
        return Some("its columns differ in length".to_owned());
    }
    if sample.turns.len() != sampled.len() {
        return Some(format!("it has {} turns of {}", sample.turns.len(), sampled.len()));
    }
    let mut trained = 0;
    for (n, (span, said)) in sample.turns.iter().zip(sampled).enumerate() {
        let at = span.start..span.end;
        if sample.tokens.get(at.clone()) != Some(&said.ids) {
            return Some(format!("turn {n} has other ids than were sampled"));
        }
        if sample.logprobs.get(at.clone()) != Some(&said.logprobs) {
            return Some(format!("turn {n} has other log-probabilities than were sampled"));
        }
        if sample.loss_mask[at.clone()].iter().any(|mask| *mask != 1) {
            return Some(format!("turn {n} is not trained"));
        }
        trained += at.len();
    }
    let masked = sample.loss_mask.iter().filter(|mask| **mask == 1).count();
    (masked != trained).then(|| "context is trained".to_owned())
}
