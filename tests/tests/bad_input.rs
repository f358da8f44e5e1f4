//! What is wrong is answered clearly, in the right shape, and the session goes on afterwards.

use rollgate_tests::chat::{Chat, send};
use rollgate_tests::gate::{Gate, Session, Settings};
use rollgate_tests::scripted::Scripted;
use rollgate_tests::{program, real, samples};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Stage {
    directory: TempDir,
    /// Dropped with the stage; some tests end it before.
    engine: Scripted,
    gate: Gate,
    session: Session,
}

fn stage(script: &Value, limits: &[(&'static str, u64)]) -> Stage {
    let directory = tempfile::tempdir().unwrap();
    let engine = Scripted::start(directory.path(), script);
    let mut settings = Settings::new(&engine.url);
    settings.limits = limits.to_vec();
    let gate = Gate::start(directory.path(), &settings);
    let session = gate.create(&json!({}));
    Stage { directory, engine, gate, session }
}

fn two_turns() -> Value {
    json!({"replies": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]},
        {"content": "Done."},
    ]})
}

/// One good turn, then something bad, then another good turn: the sample has both.
fn check_between_turns(stage: &Stage, bad: impl FnOnce(&Stage, &Chat)) {
    let mut chat = Chat::new(&stage.session, &[("system", "A shell."), ("user", "Look.")]);
    let answer = chat.turn();
    chat.results(&answer, "a b");
    bad(stage, &chat);
    assert_eq!(chat.turn().message["content"], "Done.");
    stage.gate.close(&stage.session);
    let samples = samples::parse(&stage.gate.samples(&stage.session));
    let turns: Vec<_> = samples.iter().map(|sample| sample.turns.len()).collect();
    assert_eq!(turns, [2], "nothing lost, nothing more");
    assert!(samples[0].health.reasons().is_empty(), "{:?}", samples[0].health);
}

/// An error body in OpenAI's shape with these parts.
#[track_caller]
fn check_error((status, text): (u16, String), expected: u16, code: &str, parts: &[&str]) {
    assert_eq!(status, expected, "{text}");
    let body: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("not JSON: {text}"));
    let error = &body["error"];
    assert_eq!(error["code"], code, "{text}");
    assert!(error["type"].is_string() && error.get("param").is_some(), "{text}");
    let message = error["message"].as_str().unwrap();
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

fn chat_url(stage: &Stage) -> String {
    format!("{}/chat/completions", stage.session.openai)
}

#[test]
fn malformed_json() {
    let stage = stage(&two_turns(), &[]);
    check_between_turns(&stage, |stage, _| {
        let call = |body| send("POST", &chat_url(stage), Some(&stage.session.key), Some(body));
        check_error(call("{\"model\": \"m\", \"messages\": [}"), 400, "bad_json", &[]);
        check_error(call(""), 400, "bad_json", &[]);
        check_error(
            call("{\"model\": \"m\", \"messages\": 7}"),
            400,
            "bad_request",
            &["integer `7`"],
        );
    });
}

#[test]
fn a_wrong_key() {
    let stage = stage(&two_turns(), &[]);
    check_between_turns(&stage, |stage, chat| {
        let body = chat.body().to_string();
        let call = |key| send("POST", &chat_url(stage), key, Some(&body));
        for key in [Some("rg-0123456789abcdef0123456789abcdef"), Some("nonsense"), None] {
            let answer = call(key);
            let (_, text) = &answer;
            assert!(key.is_none_or(|key| !text.contains(key)), "the key is in the answer: {text}");
            check_error(answer, 401, "wrong_key", &["key"]);
        }
        let (status, _) =
            send("GET", &format!("{}/v1/sessions", stage.gate.control), Some("x"), None);
        assert_eq!(status, 401, "the control port wants its token");
    });
}

#[test]
fn an_unknown_path() {
    let stage = stage(&two_turns(), &[]);
    check_between_turns(&stage, |stage, _| {
        let url = format!("{}/embeddings", stage.session.openai);
        let key = stage.session.key.as_str();
        check_error(
            send("POST", &url, Some(key), Some("{}")),
            404,
            "unknown_path",
            &["chat/completions"],
        );
        check_error(send("POST", &url, None, Some("{}")), 404, "unknown_path", &[]);
        check_error(send("GET", &chat_url(stage), Some(key), None), 405, "wrong_method", &[]);
        let (status, _) = stage.gate.call("GET", "/v1/nothing", None);
        assert_eq!(status, 404);
    });
}

#[test]
fn an_oversized_body() {
    let stage = stage(&two_turns(), &[("body_bytes", 100_000)]);
    check_between_turns(&stage, |stage, chat| {
        let mut large = chat.clone();
        large.user(&"x".repeat(200_000));
        let body = large.body().to_string();
        let answer = send("POST", &chat_url(stage), Some(&stage.session.key), Some(&body));
        check_error(answer, 413, "body_too_large", &["limits.body_bytes", "100000"]);
    });
}

#[test]
fn the_engine_is_down() {
    let mut stage = stage(&two_turns(), &[("engine_retries", 1)]);
    let mut chat = Chat::new(&stage.session, &[("system", "A shell."), ("user", "Look.")]);
    let answer = chat.turn();
    chat.results(&answer, "a b");
    stage.engine.process.kill();
    let (status, body) = chat.post();
    check_error((status, body.to_string()), 502, "engine_down", &["engine"]);
    // It is the engine that is ill, not the session: what was recorded is there.
    stage.gate.close(&stage.session);
    let samples = samples::parse(&stage.gate.samples(&stage.session));
    let turns: Vec<_> = samples.iter().map(|sample| sample.turns.len()).collect();
    assert_eq!(turns, [1]);
}

#[test]
fn an_id_outside_the_vocabulary() {
    // The turn's first call is answered with such an id, the agent's next try is not.
    let script = json!({"replies": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]},
        {"content": "Done.", "fault": {"bad_id": true}, "times": 1},
    ]});
    let stage = stage(&script, &[("engine_retries", 0)]);
    check_between_turns(&stage, |_, chat| {
        let (status, body) = chat.post();
        check_error((status, body.to_string()), 502, "engine_bad_reply", &["vocabulary"]);
    });
}

#[test]
fn a_bad_configuration_key() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("node.toml");
    let good = Settings::new("http://127.0.0.1:1").to_toml(directory.path());
    std::fs::write(&file, good.replace("[shards]\ncount", "[shards]\nconut")).unwrap();
    for arguments in [&["serve", "-c", "node.toml"][..], &["config", "check", "node.toml"]] {
        let ended = program::run(directory.path(), arguments);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        for part in ["node.toml:", "`conut`", "did you mean `count`?"] {
            assert!(ended.stderr.contains(part), "{part:?} lacks: {}", ended.stderr);
        }
    }
    std::fs::write(&file, good).unwrap();
    let ended = program::run(directory.path(), &["config", "check", "node.toml"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(!ended.stdout.contains(rollgate_tests::gate::TOKEN), "the token is a secret");
}

#[test]
fn a_missing_model_directory() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = Settings::new("http://127.0.0.1:1");
    settings.model = directory.path().join("no-such-model");
    std::fs::write(directory.path().join("node.toml"), settings.to_toml(directory.path())).unwrap();
    for arguments in [&["serve", "-c", "node.toml"][..], &["config", "check", "node.toml"]] {
        let ended = program::run(directory.path(), arguments);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        assert!(ended.stderr.contains("no-such-model"), "{}", ended.stderr);
    }
}

#[test]
fn a_port_that_is_taken() {
    let stage = stage(&two_turns(), &[]);
    let mut settings = Settings::new(&stage.engine.url);
    settings.agents_port = stage.gate.agents_port();
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("node.toml"), settings.to_toml(other.path())).unwrap();
    let ended = program::run(other.path(), &["serve", "-c", "node.toml"]);
    assert_eq!(ended.code, Some(3), "{ended:#?}");
    assert!(ended.stderr.contains(&settings.agents_port.to_string()), "{}", ended.stderr);
    drop(stage.directory);
}

#[test]
fn an_engine_that_was_never_there() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings::new(&format!("http://127.0.0.1:{}", real::free_port()));
    let text = settings.to_toml(directory.path()).replace("kind = \"vllm\"\n", "");
    std::fs::write(directory.path().join("node.toml"), text).unwrap();
    let ended = program::run(directory.path(), &["serve", "-c", "node.toml"]);
    assert_eq!(ended.code, Some(3), "{ended:#?}");
    assert!(ended.stderr.contains("engine"), "{}", ended.stderr);
}
