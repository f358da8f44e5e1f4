//! Two shards, 200 sessions, each call on a connection of its own, so that about half of them land on
//! the shard that does not own the session: every turn is recorded once, in its session.

use std::sync::Mutex;

use rollgate_tests::chat::Chat;
use rollgate_tests::gate::{Gate, Session, Settings};
use rollgate_tests::samples;
use rollgate_tests::scripted::Scripted;
use serde_json::json;

const SESSIONS: usize = 200;
const TURNS: usize = 3;
const AGENTS: usize = 8;

#[test]
fn every_turn_is_recorded_once_in_its_session() {
    let directory = tempfile::tempdir().unwrap();
    let script = json!({"replies": [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]},
        {"tool_calls": [{"name": "bash", "arguments": {"command": "cat a"}}]},
        {"content": "Done."},
    ]});
    let engine = Scripted::start(directory.path(), &script);
    let mut settings = Settings::new(&engine.url);
    settings.shards = 2;
    let gate = Gate::start(directory.path(), &settings);
    let sessions: Vec<_> = (0..SESSIONS).map(|_| gate.create(&json!({}))).collect();

    let waiting = Mutex::new(sessions.iter().enumerate());
    std::thread::scope(|scope| {
        for _ in 0..AGENTS {
            scope.spawn(|| {
                while let Some((number, session)) = { waiting.lock().unwrap().next() } {
                    play(number, session);
                }
            });
        }
    });

    for (number, session) in sessions.iter().enumerate() {
        gate.close(session);
        let samples = samples::parse(&gate.samples(session));
        assert_eq!(samples.len(), 1, "session {number}");
        let sample = &samples[0];
        assert_eq!(sample.turns.len(), TURNS, "session {number}");
        assert_eq!(sample.session_id.to_string(), session.id);
        let text = serde_json::to_string(&sample.messages).unwrap();
        assert!(text.contains(&own_text(number)), "session {number} holds another's: {text}");
    }
    handed_over_half_the_time(&gate.metrics());
}

fn own_text(number: usize) -> String {
    format!("I am agent number {number}.")
}

fn play(number: usize, session: &Session) {
    let mut chat = Chat::new(session, &[("system", "A shell."), ("user", &own_text(number))]);
    for turn in 0..TURNS {
        let answer = chat.turn();
        if turn + 1 < TURNS {
            chat.results(&answer, &format!("result {turn} of {number}"));
        }
    }
}

/// The kernel deals connections out evenly: of 600, between a third and two thirds are handed over.
fn handed_over_half_the_time(metrics: &str) {
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    let handovers: f64 = lines
        .filter(|line| line.contains("handovers_out"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum();
    let calls = (SESSIONS * TURNS) as f64;
    assert!(
        handovers > calls / 3.0 && handovers < calls / 1.5,
        "{handovers} of {calls}\n{metrics}"
    );
}
