//! `kill -9` between two turns, and during one: the same client goes on, and no turn is lost.

use rollgate_pipeline::sample::Health;
use rollgate_tests::chat::Chat;
use rollgate_tests::gate::{Gate, Settings};
use rollgate_tests::scripted::Scripted;
use rollgate_tests::{program, samples};
use serde_json::json;

const SYSTEM: &str = "You work in a shell.";

#[test]
fn kill_9_between_two_turns_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let script = json!({"replies": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}], "non_canonical": true},
        {"reasoning": "One more.", "tool_calls": [{"name": "bash", "arguments": {"command": "cat a"}}]},
        {"content": "All is done."},
    ]});
    let engine = Scripted::start(directory.path(), &script);
    let mut settings = Settings::new(&engine.url);
    let mut gate = Gate::start(directory.path(), &settings);
    // The same client needs the same address afterwards.
    settings.agents_port = gate.agents_port();
    let session = gate.create(&json!({"metadata": {"test": "crash"}}));
    let mut chat = Chat::new(&session, &[("system", SYSTEM), ("user", "Look around.")]);
    let answer = chat.turn();
    chat.results(&answer, "a b c");
    let answer = chat.turn();
    chat.results(&answer, "text of a");

    gate.process.kill();
    let gate = Gate::start(directory.path(), &settings);

    let answer = chat.turn();
    assert_eq!(answer.finish, "stop");
    assert_eq!(answer.message["content"], "All is done.");
    gate.close(&session);
    let text = gate.samples(&session);
    let samples = samples::parse(&text);
    assert_eq!(samples.len(), 1, "one branch, one sample");
    let sample = &samples[0];
    assert_eq!(sample.turns.len(), 3, "every turn, before and after the kill");
    assert_eq!(sample.health, Health::from_reasons(Vec::new()));
    assert!(sample.turns.iter().all(|span| span.end > span.start));
    let file = directory.path().join("samples.jsonl");
    std::fs::write(&file, text).unwrap();
    let model = program::demo_model();
    let arguments = [file.to_str().unwrap(), "--model", model.to_str().unwrap()];
    let (code, report) = program::verify(directory.path(), &arguments);
    assert_eq!(code, Some(0), "{report}");
}

#[test]
fn kill_9_during_a_turn_records_it_once_when_the_agent_asks_again() {
    let directory = tempfile::tempdir().unwrap();
    let script = json!({"replies": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]},
        {"content": "Slow and done.", "delay_ms": 1500},
    ]});
    let engine = Scripted::start(directory.path(), &script);
    let mut settings = Settings::new(&engine.url);
    let mut gate = Gate::start(directory.path(), &settings);
    settings.agents_port = gate.agents_port();
    let session = gate.create(&json!({}));
    let mut chat = Chat::new(&session, &[("system", SYSTEM), ("user", "Look around.")]);
    let answer = chat.turn();
    chat.results(&answer, "a b c");

    let waiting = chat.clone();
    // Its connection breaks: that it does not get an answer is the point.
    let broken = std::thread::spawn(move || waiting.post());
    std::thread::sleep(std::time::Duration::from_millis(500));
    gate.process.kill();
    assert!(broken.join().is_err(), "the answer cannot have come");
    let gate = Gate::start(directory.path(), &settings);

    let answer = chat.turn();
    assert_eq!(answer.message["content"], "Slow and done.");
    gate.close(&session);
    let samples = samples::parse(&gate.samples(&session));
    let turns: Vec<_> = samples.iter().map(|sample| sample.turns.len()).collect();
    assert_eq!(turns, [2]);
}
