//! What exactness means: ids, prompts, cache and log-probabilities are the engine's own.

use std::path::Path;

use rollgate_pipeline::sample::Sample;
use rollgate_tests::chat::Chat;
use rollgate_tests::proxy::Call;
use rollgate_tests::real::Vllm;
use rollgate_tests::{program, samples};
use serde_json::{Value, json};

use crate::pieces::{ASSISTANT, IM_END, IM_START, numbers, tokenized};

/// Tokens per block of vLLM's cache on CPU.
const BLOCK: usize = 128;

/// What the engine makes of the whole conversation.
pub fn full_render(engine: &str, chat: &Chat) -> Vec<u32> {
    let body = json!({
        "model": "tiny", "messages": chat.messages, "tools": chat.tools, "add_generation_prompt": true,
    });
    tokenized(engine, &body)
}

/// What the engine was sent.
pub fn prompt(call: &Call) -> Vec<u32> {
    numbers(&call.request["token_ids"])
}

fn output(call: &Call) -> Vec<u32> {
    numbers(&call.answer["choices"][0]["token_ids"])
}

/// The first prompt is the engine's own render.
pub fn first_prompt_is_the_engines(engine: &str, chat: &Chat, call: &Call) {
    assert_eq!(prompt(call), full_render(engine, chat));
}

/// Splits both at turn markers; the segments must agree but for what the model said.
pub fn same_outside_sampled_text(rendered: &[u32], sent: &[u32]) {
    let segments = |ids: &[u32]| -> Vec<Vec<u32>> {
        let cut = ids.split(|id| [IM_START, IM_END].contains(id));
        let open_end = |segment: &[u32]| segment.starts_with(&[ASSISTANT]) && segment.len() > 2;
        cut.map(|segment| if open_end(segment) { vec![ASSISTANT] } else { segment.to_vec() })
            .collect()
    };
    let (rendered, sent) = (segments(rendered), segments(sent));
    for (at, (rendered, sent)) in rendered.iter().zip(&sent).enumerate() {
        assert_eq!(rendered, sent, "segment {at}");
    }
    assert_eq!(rendered.len(), sent.len(), "as many segments");
}

/// `cached = floor(min(common prefix with what the engine has, prompt - 1) / block) x block`.
pub fn cached_exactly(calls: &[Call], least_blocks: usize) {
    let mut has: Vec<Vec<u32>> = Vec::new();
    let mut blocks = 0;
    for (turn, call) in calls.iter().enumerate() {
        let (prompt, output) = (prompt(call), output(call));
        let common = |ids: &Vec<u32>| ids.iter().zip(&prompt).take_while(|(a, b)| a == b).count();
        let known = has.iter().map(common).max().unwrap_or(0);
        let expected = known.min(prompt.len() - 1) / BLOCK * BLOCK;
        let cached = call.answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
        assert_eq!(cached, Some(expected as u64), "turn {turn}, prompt of {}", prompt.len());
        println!(
            "turn {turn}: prompt {}, output {}, cached {expected}",
            prompt.len(),
            output.len()
        );
        blocks += expected / BLOCK;
        // The last sampled id was never an input, so the engine has no cache entry of it.
        has.push([&prompt, &output[..output.len() - 1]].concat());
    }
    assert!(blocks >= least_blocks, "only {blocks} blocks came from the cache");
}

/// The sample is what these calls were asked and answered, and nothing else is trained.
pub fn ids_are_the_engines(sample: &Sample, calls: &[Call]) {
    assert!(sample.health.reasons().is_empty(), "{:?}", sample.health);
    assert_eq!(sample.turns.len(), calls.len());
    for (span, call) in sample.turns.iter().zip(calls) {
        let range = span.start as usize..span.end as usize;
        assert_eq!(sample.tokens[..range.start], prompt(call));
        assert_eq!(sample.tokens[range.clone()], output(call));
        let entries = call.answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
        let logprobs: Vec<_> =
            entries.iter().map(|e| e["logprob"].as_f64().unwrap() as f32).collect();
        assert_eq!(sample.logprobs[range.clone()], logprobs);
        assert!(sample.loss_mask[range].iter().all(|mask| *mask == 1));
    }
    let sampled: u32 = sample.turns.iter().map(|span| span.end - span.start).sum();
    let trained = sample.loss_mask.iter().filter(|mask| **mask == 1).count();
    assert_eq!(trained, sampled as usize, "nothing else is trained");
}

/// The engine confirms the sample.
pub fn confirmed(directory: &Path, engine: &Vllm, name: &str, sample: &Sample) {
    let (code, mean, max, report) = scored(directory, engine, name, sample);
    assert!(code == Some(0) && mean < 1e-2 && max < 5e-2, "{report:#}");
}

/// The engine refutes two samples that are wrong in a small way.
pub fn refuted(directory: &Path, engine: &Vllm, sample: &Sample) {
    let controls = [("shifted.jsonl", shifted(sample)), ("dropped.jsonl", dropped(sample))];
    for (name, control) in controls {
        let (code, mean, max, report) = scored(directory, engine, name, &control);
        assert_eq!(code, Some(1), "{name}: {report:#}");
        assert!(mean >= 1e-2 || max >= 5e-2, "{name}: {report:#}");
        let findings = report["findings"].as_array().unwrap();
        let only = findings.iter().all(|finding| finding["code"] == "rescore");
        assert!(only && !findings.is_empty(), "the engine alone sees it: {report:#}");
    }
}

/// What `rollgate verify --engine` says of one sample by itself: exit code, mean and largest
/// difference, report.
fn scored(
    directory: &Path,
    engine: &Vllm,
    name: &str,
    sample: &Sample,
) -> (Option<i32>, f64, f64, Value) {
    let file = directory.join(name);
    std::fs::write(&file, samples::to_jsonl(std::slice::from_ref(sample))).unwrap();
    let (file, model) = (file.to_str().unwrap(), engine.model.to_str().unwrap());
    let arguments = [file, "--engine", &engine.url, "--model", model, "--allow", "segments"];
    let (code, report) = program::verify(directory, &arguments);
    let scores = &report["scores"];
    println!("{name}: mean {}, max {}", scores["mean"], scores["max"]);
    (code, scores["mean"].as_f64().unwrap(), scores["max"].as_f64().unwrap(), report)
}

/// Each sampled id has the log-probability of the one before it.
fn shifted(sample: &Sample) -> Sample {
    let mut control = sample.clone();
    for span in &sample.turns {
        control.logprobs[span.start as usize..span.end as usize].rotate_right(1);
    }
    samples::resealed(control)
}

/// The id before the third sampled span is left out, all else is in its place.
fn dropped(sample: &Sample) -> Sample {
    let mut control = sample.clone();
    let at = sample.turns[2].start - 1;
    control.tokens.remove(at as usize);
    control.loss_mask.remove(at as usize);
    control.logprobs.remove(at as usize);
    for span in control.turns.iter_mut().skip(2) {
        span.start -= 1;
        span.end -= 1;
    }
    for (start, _) in &mut control.weight_versions {
        *start -= u32::from(*start > at);
    }
    samples::resealed(control)
}
