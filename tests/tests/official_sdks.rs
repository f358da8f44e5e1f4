//! The official Python SDKs of OpenAI and Anthropic against one gateway: all three APIs, streamed
//! and whole, read the same answer, and raise their own errors.

use std::path::Path;
use std::process::Command;

use rollgate_tests::gate::{Gate, Settings};
use rollgate_tests::scripted::Scripted;
use rollgate_tests::{program, real, samples};
use serde_json::{Value, json};

const WAYS: [&str; 6] = [
    "chat whole",
    "chat streamed",
    "responses whole",
    "responses streamed",
    "messages whole",
    "messages streamed",
];

/// What the engine says to each case.
fn script() -> Value {
    let case = |name: &str, mut reply: Value| {
        reply["match"] = json!({"prompt_contains": name});
        reply
    };
    let calls = json!([
        {"name": "bash", "arguments": {"command": "ls -l"}},
        {"name": "bash", "arguments": {"command": "cat \"b\" é"}},
    ]);
    json!({"replies": [
        case("case-plain", json!({"content": "I see."})),
        case("case-tools", json!({"reasoning": "Look first.", "content": "I look.",
            "tool_calls": calls, "non_canonical": true})),
        case("case-cut", json!({"content": "This goes on and", "finish": "length"})),
        case("case-unicode", json!({"reasoning": "考える", "content": "é 漢 \u{1f600} \"q\"\n\ttail"})),
        case("case-limited", json!({"content": "x", "fault": {"status": 429}})),
        case("case-busy", json!({"content": "x", "fault": {"status": 503}})),
        // The first sign of life comes after three seconds.
        case("case-broken", json!({"content": "x", "delay_ms": 3_600, "fault": {"status": 503}})),
    ]})
}

/// What both programs print, in one.
struct Said {
    openai: Value,
    anthropic: Value,
}

impl Said {
    /// The member at this path of whichever program has the way.
    fn of(&self, what: &str, way: &str) -> &Value {
        let said = if way.starts_with("messages") { &self.anthropic } else { &self.openai };
        &said[what]
    }

    fn view(&self, case: &str, way: &str) -> &Value {
        &self.of("views", way)[case][way]
    }

    fn failure(&self, way: &str, what: &str) -> &Value {
        &self.of("failures", way)[way][what]
    }
}

fn run(python: &Path, script: &str, arguments: [&str; 3]) -> Value {
    let script = program::workspace().join("tests/real").join(script);
    let output = Command::new(python).arg(script).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the SDK's program failed: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn d06_six_calls_agree_and_failures_are_the_sdks_own() {
    let (Some(openai), Some(anthropic)) = (real::openai_python(), real::anthropic_python()) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let engine = Scripted::start(directory.path(), &script());
    let gate = Gate::start(directory.path(), &Settings::new(&engine.url));
    let (session, closed) = (gate.create(&json!({})), gate.create(&json!({})));
    gate.close(&closed);
    let said = Said {
        openai: run(&openai, "sdk_openai.py", [&session.openai, &session.key, &closed.key]),
        anthropic: run(
            &anthropic,
            "sdk_anthropic.py",
            [&session.anthropic, &session.key, &closed.key],
        ),
    };
    views(&said);
    failures(&said);
    after_a_sign_of_life(&said);
    assert_eq!(said.openai["models"], said.anthropic["models"]);
    assert_eq!(said.openai["models"].as_array().unwrap().len(), 1);

    gate.close(&session);
    let samples = samples::parse(&gate.samples(&session));
    let spans = samples.iter().map(|sample| sample.turns.len()).sum::<usize>();
    assert_eq!(spans, 4 * WAYS.len(), "what failed made no turn");
    for sample in &samples {
        assert!(sample.health.reasons().is_empty(), "{:?}", sample.health);
    }
}

/// The same question has the same answer, however it is asked and read.
fn views(said: &Said) {
    let call = |command: &str| json!(["bash", {"command": command}]);
    let cases = [
        ("case-plain", "I see.", "", json!([]), false),
        (
            "case-tools",
            "I look.",
            "Look first.",
            json!([call("ls -l"), call("cat \"b\" é")]),
            false,
        ),
        ("case-cut", "This goes on and", "", json!([]), true),
        ("case-unicode", "é 漢 \u{1f600} \"q\"\n\ttail", "考える", json!([]), false),
    ];
    for (case, text, reasoning, calls, cut) in cases {
        let usage = &said.view(case, WAYS[0])["usage"];
        let want = json!({"text": text, "reasoning": reasoning, "calls": calls, "cut": cut,
            "usage": usage});
        for way in WAYS {
            assert_eq!(said.view(case, way), &want, "{case}, {way}");
        }
        assert_eq!(said.anthropic["counts"][case], usage[0], "{case}: counted as it is used");
    }
}

fn failures(said: &Said) {
    // What fails, its status, the SDK's class, OpenAI's code, Anthropic's type.
    let cases = [
        ("wrong key", 401, "AuthenticationError", "wrong_key", "authentication_error"),
        ("closed session", 403, "PermissionDeniedError", "session_closed", "permission_error"),
        ("limited", 429, "RateLimitError", "engine_limited", "rate_limit_error"),
        ("busy", 503, "", "engine_busy", "overloaded_error"),
        ("too long", 400, "BadRequestError", "context_length_exceeded", "invalid_request_error"),
    ];
    for way in WAYS {
        for (what, status, class, code, kind) in cases {
            let failure = said.failure(way, what);
            assert_eq!(failure["status"], status, "{way}, {what}: {failure}");
            if !class.is_empty() {
                assert_eq!(failure["class"], class, "{way}, {what}: {failure}");
            }
            let name = if way.starts_with("messages") { kind } else { code };
            assert_eq!(failure["code"], name, "{way}, {what}: {failure}");
            let message = failure["message"].as_str().unwrap();
            if what == "too long" {
                assert!(message.contains("prompt is too long: "), "{message}");
                assert!(message.contains("maximum context length is "), "{message}");
            }
        }
    }
}

/// The stream had status 200 by then: the SDKs raise at the event.
fn after_a_sign_of_life(said: &Said) {
    for way in ["chat streamed", "responses streamed", "messages streamed"] {
        let failure = said.failure(way, "after a sign of life");
        let class = failure["class"].as_str().unwrap();
        assert!(["APIError", "APIStatusError"].contains(&class), "{way}: {failure}");
        let code = if way.starts_with("messages") { "overloaded_error" } else { "engine_busy" };
        assert_eq!(failure["code"], code, "{way}: {failure}");
        assert!(failure["message"].as_str().unwrap().contains("is busy"), "{way}: {failure}");
    }
}
