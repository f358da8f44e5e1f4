//! OpenAI's own Python SDK, streaming and not, through the gateway.

use std::process::Command;

use rollgate_tests::gate::{Gate, Settings};
use rollgate_tests::scripted::Scripted;
use rollgate_tests::{program, real, samples};
use serde_json::{Value, json};

#[test]
fn a_conversation_streamed_and_whole() {
    let Some(python) = real::openai_python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let script = json!({"replies": [
        {"reasoning": "Look first.", "content": "I look.",
         "tool_calls": [{"name": "bash", "arguments": {"command": "ls -l"}}], "non_canonical": true},
        {"tool_calls": [{"name": "bash", "arguments": {"command": "cat a"}},
                        {"name": "bash", "arguments": {"command": "cat \"b\" é"}}]},
        {"content": "Done: é 漢 \"quoted\"."},
    ]});
    let engine = Scripted::start(directory.path(), &script);
    let gate = Gate::start(directory.path(), &Settings::new(&engine.url));
    let session = gate.create(&json!({}));
    let said = converse(&python, &session.openai, &session.key);

    let turns = said["turns"].as_array().unwrap();
    let finishes: Vec<_> = turns.iter().map(|turn| turn["finish"].as_str().unwrap()).collect();
    assert_eq!(finishes, ["tool_calls", "tool_calls", "stop"]);
    assert_eq!(turns[0]["message"]["content"], "I look.");
    assert_eq!(turns[0]["reasoning"], "Look first.");
    assert_eq!(commands(&turns[0]), ["ls -l"]);
    assert_eq!(commands(&turns[1]), ["cat a", "cat \"b\" é"]);
    assert_eq!(turns[2]["message"]["content"], "Done: é 漢 \"quoted\".");
    failures(&said);
    assert!(!said["models"].as_array().unwrap().is_empty());

    gate.close(&session);
    let samples = samples::parse(&gate.samples(&session));
    assert_eq!(samples.len(), 1, "failed calls made no turn");
    let sample = &samples[0];
    assert!(sample.health.reasons().is_empty(), "{:?}", sample.health);
    assert_eq!(sample.turns.len(), 3);
    for (turn, span) in turns.iter().zip(&sample.turns) {
        let usage = &turn["usage"];
        assert_eq!(usage["prompt_tokens"], span.start, "the prompt is all that stands before");
        assert_eq!(usage["completion_tokens"], span.end - span.start);
        assert_eq!(usage["total_tokens"], span.end);
    }
}

/// The SDK's own error classes, by status and body.
fn failures(said: &Value) {
    let expected = [
        ("AuthenticationError", 401, "wrong_key"),
        ("NotFoundError", 404, "unknown_path"),
        ("BadRequestError", 400, "bad_request"),
    ];
    let failures = said["failures"].as_array().unwrap();
    assert_eq!(failures.len(), expected.len());
    for (failure, (class, status, code)) in failures.iter().zip(expected) {
        assert_eq!(failure["class"], class, "{failure}");
        assert_eq!(failure["status"], status, "{failure}");
        assert_eq!(failure["code"], code, "{failure}");
        assert!(failure["message"].as_str().is_some_and(|text| !text.is_empty()), "{failure}");
    }
}

fn commands(turn: &Value) -> Vec<String> {
    let calls = turn["message"]["tool_calls"].as_array().unwrap().iter();
    calls
        .map(|call| {
            assert_eq!(call["function"]["name"], "bash");
            assert!(call["id"].as_str().is_some_and(|id| !id.is_empty()), "{call}");
            let arguments = call["function"]["arguments"].as_str().unwrap();
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            arguments["command"].as_str().unwrap().to_owned()
        })
        .collect()
}

fn converse(python: &std::path::Path, base_url: &str, key: &str) -> Value {
    let script = program::workspace().join("tests/real/openai_chat.py");
    let output = Command::new(python).arg(script).args([base_url, key]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the SDK's program failed: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}
