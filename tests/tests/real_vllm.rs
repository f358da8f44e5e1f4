//! Six turns against a real vLLM: every id is the engine's, every cached block is earned, and the
//! engine itself confirms the log-probabilities.

use std::path::Path;

use rollgate_pipeline::sample::Sample;
use rollgate_tests::chat::{Chat, send};
use rollgate_tests::gate::{Gate, Session, Settings};
use rollgate_tests::proxy::{Call, Proxy};
use rollgate_tests::real::Vllm;
use rollgate_tests::{program, samples};
use serde_json::{Value, json};

const IM_START: u32 = 151_644;
const IM_END: u32 = 151_645;
const TOOL_CALL: u32 = 151_657;
const TOOL_CALL_END: u32 = 151_658;
const THINK: u32 = 151_667;
const THINK_END: u32 = 151_668;
const ASSISTANT: u32 = 77_091;
/// Sampled freely, see tests/real/force_tokens.py.
const FREE: i64 = -1;
/// Tokens per block of vLLM's cache on CPU.
const BLOCK: usize = 128;
const MAX_TOKENS: usize = 64;
const GENERATE: &str = "/inference/v1/generate";

/// What stands in an answer: text in the tokenizer's own split, or one id.
enum Piece<'a> {
    Text(&'a str),
    Id(u32),
    Free(usize),
}

use Piece::{Free, Id, Text};

#[test]
fn six_turns_on_real_vllm() {
    let directory = tempfile::tempdir().unwrap();
    let Some(engine) = Vllm::start(directory.path()) else { return };
    let proxy = Proxy::start(&engine.url);
    let mut settings = Settings::new(&proxy.url);
    settings.model.clone_from(&engine.model);
    let gate = Gate::start(directory.path(), &settings);
    let session = gate.create(&json!({"sampling": {
        "temperature": 1.0,
        "max_tokens": MAX_TOKENS,
        // Prompts stay far below the size at which vLLM on CPU dies of a seed.
        "seed": 11,
        "extra": {"extra_args": {"force": forced(&engine.url)}},
    }}));
    let conversations = converse(&session);

    // The gateway also asks which routes there are; that samples nothing and is refused.
    let answered = |call: &Call| call.status == 200;
    let calls: Vec<_> = proxy.calls(GENERATE).into_iter().filter(answered).collect();
    assert_eq!(calls.len(), 6, "one call of the engine per turn");
    first_prompt_is_the_engines(&engine.url, &conversations[0], &calls[0]);
    for (messages, call) in conversations.iter().zip(&calls).skip(1) {
        same_outside_sampled_text(&full_render(&engine.url, messages), &prompt(call));
    }
    cached_exactly(&calls);

    gate.close(&session);
    let text = gate.samples(&session);
    let samples = samples::parse(&text);
    assert_eq!(samples.len(), 1, "one branch, one sample");
    ids_are_the_engines(&samples[0], &calls);
    rescored(directory.path(), &engine, &samples[0]);
    constrained(&gate);
}

/// A call and a stop by the engine's own structured outputs, handed through `sampling.extra`. Their
/// log-probabilities are those under the grammar, so nothing is scored again here.
fn constrained(gate: &Gate) {
    let call = r#"<tool_call>\n\{"name": "bash", "arguments": \{"command": "[a-z]{1,8}"\}\}\n</tool_call>"#;
    let session = gate.create(&json!({"sampling": {
        "max_tokens": MAX_TOKENS,
        "extra": {
            "structured_outputs": {"regex": call},
            // The grammar also allows the markers spelled with ordinary tokens.
            "logit_bias": {TOOL_CALL.to_string(): 100, TOOL_CALL_END.to_string(): 100},
        },
    }}));
    let mut chat = Chat::new(&session, &[("user", "List the files.")]);
    let answer = chat.turn();
    assert_eq!((answer.finish.as_str(), answer.calls().len()), ("tool_calls", 1), "{answer:?}");
    let sample = samples::parse(&gate.samples(&session)).remove(0);
    assert_eq!(sample.turns[0].finish_reason, "stop");
    assert!(sample.turns[0].sampling.extra.contains_key("structured_outputs"));
    assert!(sample.health.reasons().is_empty(), "{:?}", sample.health);
}

/// Six answers: three with tool calls (one of them two calls), a stop, a length, another call.
fn forced(engine: &str) -> Vec<Vec<i64>> {
    let answers: [&[Piece]; 6] = [
        &[
            Id(THINK),
            Text("\nI should look first.\n"),
            Id(THINK_END),
            Text("\n\n"),
            Id(TOOL_CALL),
            Text("\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n"),
            Id(TOOL_CALL_END),
            Id(IM_END),
        ],
        &[
            // Random text, and a call in pieces that the tokenizer would not make.
            Free(6),
            Id(TOOL_CALL),
            Text("\n{\"name\": \"ba"),
            Text("sh\", \"argu"),
            Text("ments\": {\"command\": \"cat no"),
            Text("tes.txt\"}}\n"),
            Id(TOOL_CALL_END),
            Id(IM_END),
        ],
        &[
            Id(TOOL_CALL),
            Text("\n{\"name\": \"bash\", \"arguments\": {\"command\": \"wc a\"}}\n"),
            Id(TOOL_CALL_END),
            Text("\n"),
            Id(TOOL_CALL),
            Text("\n{\"name\": \"bash\", \"arguments\": {\"command\": \"wc b\"}}\n"),
            Id(TOOL_CALL_END),
            Id(IM_END),
        ],
        &[Text("All files are rea"), Text("d."), Id(IM_END)],
        &[Text("A long story beg"), Text("ins with"), Free(8), Text(&" and goes on".repeat(40))],
        &[
            Id(TOOL_CALL),
            Text("\n{\"name\": \"bash\", \"arguments\": {\"command\": \"true\"}}\n"),
            Id(TOOL_CALL_END),
            Id(IM_END),
        ],
    ];
    answers
        .iter()
        .map(|pieces| pieces.iter().flat_map(|piece| ids(engine, piece)).collect())
        .collect()
}

fn ids(engine: &str, piece: &Piece) -> Vec<i64> {
    match piece {
        Id(id) => vec![i64::from(*id)],
        Free(count) => vec![FREE; *count],
        Text(text) => {
            let body = json!({"model": "tiny", "prompt": text, "add_special_tokens": false});
            tokenized(engine, &body).into_iter().map(i64::from).collect()
        }
    }
}

fn tokenized(engine: &str, body: &Value) -> Vec<u32> {
    let (status, text) = send("POST", &format!("{engine}/tokenize"), None, Some(&body.to_string()));
    assert_eq!(status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    numbers(&answer["tokens"])
}

fn numbers(value: &Value) -> Vec<u32> {
    let numbers = value.as_array().unwrap_or_else(|| panic!("not a list of ids: {value}"));
    numbers.iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// The agent's six turns; what it sent each time.
fn converse(session: &Session) -> Vec<Chat> {
    let system =
        "You are a careful agent. ".to_owned() + &"Read every file before you answer. ".repeat(50);
    let mut chat = Chat::new(session, &[("system", &system), ("user", "What is in this folder?")]);
    let mut sent = Vec::new();
    let (mut calls, mut finishes) = (0, Vec::new());
    for turn in 0..6 {
        sent.push(chat.clone());
        let answer = chat.turn();
        calls += answer.calls().len();
        finishes.push(answer.finish.clone());
        match turn {
            0..3 => {
                chat.results(&answer, &format!("result {turn}: {}", "a line of text. ".repeat(25)))
            }
            3 => chat.user("Now tell me a story."),
            4 => chat.user("That will do. Check that all is well."),
            _ => {}
        }
    }
    let expected = ["tool_calls", "tool_calls", "tool_calls", "stop", "length", "tool_calls"];
    assert_eq!(finishes, expected);
    assert_eq!(calls, 5, "parsed tool calls");
    sent
}

/// What the engine makes of the whole conversation.
fn full_render(engine: &str, chat: &Chat) -> Vec<u32> {
    let body = json!({
        "model": "tiny", "messages": chat.messages, "tools": chat.tools, "add_generation_prompt": true,
    });
    tokenized(engine, &body)
}

fn prompt(call: &Call) -> Vec<u32> {
    numbers(&call.request["token_ids"])
}

fn output(call: &Call) -> Vec<u32> {
    numbers(&call.answer["choices"][0]["token_ids"])
}

fn first_prompt_is_the_engines(engine: &str, chat: &Chat, call: &Call) {
    assert_eq!(prompt(call), full_render(engine, chat));
}

/// Splits both at turn markers; the segments must agree but for what the model said.
fn same_outside_sampled_text(rendered: &[u32], sent: &[u32]) {
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
fn cached_exactly(calls: &[Call]) {
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
    assert!(blocks >= 20, "only {blocks} blocks came from the cache");
}

fn ids_are_the_engines(sample: &Sample, calls: &[Call]) {
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
    let reasons: Vec<_> = sample.turns.iter().map(|span| span.finish_reason.as_str()).collect();
    assert_eq!(reasons, ["stop", "stop", "stop", "stop", "length", "stop"]);
    let sampled: u32 = sample.turns.iter().map(|span| span.end - span.start).sum();
    let trained = sample.loss_mask.iter().filter(|mask| **mask == 1).count();
    assert_eq!(trained, sampled as usize, "nothing else is trained");
}

/// The engine confirms the sample, and refutes two samples that are wrong in a small way.
fn rescored(directory: &Path, engine: &Vllm, sample: &Sample) {
    let verify = |name: &str, sample: &Sample| {
        let file = directory.join(name);
        std::fs::write(&file, samples::to_jsonl(std::slice::from_ref(sample))).unwrap();
        let (file, model) = (file.to_str().unwrap(), engine.model.to_str().unwrap());
        let arguments = [file, "--engine", &engine.url, "--model", model];
        let (code, report) = program::verify(directory, &arguments);
        let scores = &report["scores"];
        println!("{name}: mean {}, max {}", scores["mean"], scores["max"]);
        (code, scores["mean"].as_f64().unwrap(), scores["max"].as_f64().unwrap(), report)
    };
    let (code, mean, max, report) = verify("true.jsonl", sample);
    assert!(code == Some(0) && mean < 1e-2 && max < 5e-2, "{report:#}");
    let controls = [("shifted.jsonl", shifted(sample)), ("dropped.jsonl", dropped(sample))];
    for (name, control) in controls {
        let (code, mean, max, report) = verify(name, &control);
        assert_eq!(code, Some(1), "{name}: {report:#}");
        assert!(mean >= 1e-2 || max >= 5e-2, "{name}: {report:#}");
        let findings = report["findings"].as_array().unwrap();
        let only = findings.iter().all(|finding| finding["code"] == "rescore");
        assert!(only && !findings.is_empty(), "the engine alone sees it: {report:#}");
    }
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
