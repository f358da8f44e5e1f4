//! What the gateway's memory does over thousands of calls: the real program, seen from outside.
//!
//! Scaled down here; `ROLLGATE_LONG=1`, which `tests/long` sets, plays the whole numbers.

use rollgate_tests::gate::{Gate, Session, Settings, until};
use rollgate_tests::hasty::Hasty;
use rollgate_tests::scripted::Scripted;
use serde_json::{Value, json};
use tempfile::TempDir;

fn long() -> bool {
    std::env::var_os("ROLLGATE_LONG").is_some()
}

struct Stage {
    gate: Gate,
    engine: Scripted,
    _directory: TempDir,
}

fn stage(replies: &Value, limits: &[(&'static str, u64)], idle_evict_s: u64) -> Stage {
    let directory = tempfile::tempdir().unwrap();
    let engine = Scripted::start(directory.path(), replies);
    let mut settings = Settings::new(&engine.url);
    settings.limits = limits.to_vec();
    settings.idle_evict_s = idle_evict_s;
    let gate = Gate::start(directory.path(), &settings);
    Stage { gate, engine, _directory: directory }
}

fn says_done() -> Value {
    json!({"replies": [], "otherwise": {"content": "Done."}})
}

fn chat(messages: &[Value]) -> Vec<u8> {
    json!({"model": "m", "messages": messages}).to_string().into_bytes()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The value of a metric, over all shards.
fn metric(gate: &Gate, name: &str) -> f64 {
    let text = gate.metrics();
    let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[test]
fn n01_calls_that_fail_leave_nothing_behind() {
    let mut stage = stage(&says_done(), &[("engine_retries", 0), ("connect_ms", 500)], 600);
    let session = stage.gate.create(&json!({}));
    let mut agent = Hasty::connect(&stage.gate, &session);
    let filler = "words of a long conversation ".repeat(200 * 1024 / 29);
    let broken = {
        let mut body = chat(&[user(&filler)]);
        body.truncate(body.len() - 2);
        body
    };
    let too_long = chat(&[user(&filler)]);
    let no_engine = [vec![b' '; 200 << 10], chat(&[user("q")])].concat();
    let unknown = json!({"model": "m", "messages": [{"role": "nobody", "content": filler}]});
    let unknown = unknown.to_string().into_bytes();
    stage.engine.process.kill();
    let calls = [(&broken, 400), (&unknown, 400), (&too_long, 400), (&no_engine, 502)];
    let rounds = if long() { 5_000 } else { 40 };
    let mut warm = 0;
    for round in 0..rounds {
        for (body, status) in calls {
            let (got, text) = agent.post(body);
            assert_eq!(got, status, "{text:.500}");
        }
        if round == rounds / 4 {
            warm = stage.gate.process.memory().0;
        }
    }
    let end = stage.gate.process.memory().0;
    println!("{} failing calls: {warm} bytes after warm-up, {end} at the end", 4 * rounds);
    assert!(end < warm + warm / 10, "{warm} bytes became {end}");
    until("nothing is in flight", || metric(&stage.gate, "rollgate_in_flight") < 0.5);
}

#[test]
fn n02_one_long_session_and_many_short_ones_stay_bounded() {
    let limits = [("sessions_per_shard", 100)];
    let stage = stage(&says_done(), &limits, 1);
    let turns = if long() { 5_000 } else { 150 };
    let session = stage.gate.create(&json!({}));
    let mut agent = Hasty::connect(&stage.gate, &session);
    // A conversation that begins anew every so often, as one with compactions does.
    let mut messages = Vec::new();
    for turn in 0..turns {
        if turn % 50 == 0 {
            messages.clear();
        }
        messages.push(user(&format!("question {turn}")));
        let (status, text) = agent.post(&chat(&messages));
        assert_eq!(status, 200, "{text}");
        messages.push(json!({"role": "assistant", "content": "Done."}));
    }
    let one = stage.gate.process.memory().0;
    let count = if long() { 5_000 } else { 300 };
    let mut warm = 0;
    let mut sessions: Vec<Session> = Vec::new();
    for number in 0..count {
        let session = stage.gate.create(&json!({}));
        agent.become_session(&session);
        assert_eq!(agent.post(&chat(&[user("once")])).0, 200);
        until("old ones go", || metric(&stage.gate, "rollgate_sessions") <= 100.5);
        sessions.push(session);
        if number == 120 {
            warm = stage.gate.process.memory().0;
        }
    }
    let end = stage.gate.process.memory().0;
    println!("{turns} turns: {one} bytes; 120 sessions: {warm}; {count} sessions: {end}");
    assert!(end < warm + warm / 10 + (4 << 20), "{warm} bytes became {end}");
    assert!(metric(&stage.gate, "rollgate_evictions_total") > 0.5);
    for session in [&sessions[0], &sessions[count - 1], &session] {
        stage.gate.close(session);
        let samples = stage.gate.samples(session);
        assert!(!samples.is_empty(), "nothing is lost");
    }
    let (status, _) = stage.gate.call("DELETE", &format!("/v1/sessions/{}", session.id), None);
    assert!((200..300).contains(&status));
}

#[test]
fn n03_many_large_bodies_at_once_cost_a_bounded_multiple_or_are_told_to_come_back() {
    let (bodies, size) = if long() { (50, 20 << 20) } else { (20, 5 << 20) };
    let cap = (bodies as u64 * size as u64) / 4;
    let stage = stage(&says_done(), &[("bodies_bytes_per_shard", cap)], 600);
    let session = stage.gate.create(&json!({}));
    let before = stage.gate.process.memory().0;
    // Large and of few tokens: blanks between messages.
    let body = [vec![b' '; size], chat(&[user("q")])].concat();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..bodies)
            .map(|_| {
                let (gate, session, body) = (&stage.gate, &session, &body);
                scope.spawn(move || Hasty::connect(gate, session).post(body).0)
            })
            .collect();
        asked.into_iter().map(|agent| agent.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&200));
    let (_, peak) = stage.gate.process.memory();
    let all = bodies as u64 * size as u64;
    println!("{bodies} bodies of {size} bytes: {before} bytes before, peak {peak}, {statuses:?}");
    // Twice what may be held, since a body that grows is copied once.
    let most = before + 2 * cap + 3 * size as u64 + (64 << 20);
    assert!(peak < most.min(before + 3 * all), "peak {peak} of at most {most}");
    let mut agent = Hasty::connect(&stage.gate, &session);
    assert_eq!(agent.post(&chat(&[user("after")])).0, 200, "it lives");
}
