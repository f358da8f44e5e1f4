//! Streams as they leave, agents of HTTP/1.0, and answers that were sent ahead of their requests.

use std::io::Read;
use std::time::{Duration, Instant};

use rollgate_pipeline::record::Record;

use crate::agent::{Agent, Leave, chat, user};
use crate::engine::{Act, Engine};
use crate::node::{Setting, create, eventually, model, on_both, records, state_dir, total};

#[test]
fn l19_signs_of_life_reach_the_agent_at_once_and_proxies_are_asked_not_to_keep_them() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Hold("late<|im_end|>"));
        let state = state_dir();
        let setting = Setting { keepalive_first_ms: 100, ..Setting::new(driver) };
        let gate = setting.with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(&chat(&made.key, &user("q"), true));
        let mut seen = String::new();
        let mut some = [0; 4_096];
        // Each has come while the engine still holds its reply: nothing waits for the end.
        while seen.matches(": keepalive").count() < 3 {
            let signs = total(&gate, |s| s.keepalives);
            let read = agent.stream.read(&mut some).unwrap();
            seen.push_str(std::str::from_utf8(&some[..read]).unwrap());
            let lag = signs.saturating_sub(seen.matches(": keepalive").count() as u64);
            assert!(lag <= 1, "{lag} were kept back");
        }
        let head = seen.split_once("\r\n\r\n").unwrap().0.to_ascii_lowercase();
        for field in ["cache-control: no-cache", "x-accel-buffering: no", "text/event-stream"] {
            assert!(head.contains(field), "{head}");
        }
        assert!(!head.contains("content-length"), "{head}");
        let begun = Instant::now();
        engine.release();
        while !seen.ends_with("0\r\n\r\n") {
            let read = agent.stream.read(&mut some).unwrap();
            assert!(read > 0);
            seen.push_str(std::str::from_utf8(&some[..read]).unwrap());
        }
        assert!(seen.contains("late") && begun.elapsed() < Duration::from_secs(2));
    });
}

#[test]
fn http_1_0_gets_its_stream_without_chunks_and_the_end_with_the_connection() {
    on_both(|driver| {
        let late = Act::Late(Duration::from_millis(400), "hello<|im_end|>");
        let engine = Engine::start(model(), move |_| late.clone());
        let state = state_dir();
        let setting = Setting { keepalive_first_ms: 50, ..Setting::new(driver) };
        let gate = setting.with(state.path(), &engine);
        let made = create(&gate);
        for stream in [true, false] {
            let text = String::from_utf8(chat(&made.key, &user("q"), stream)).unwrap();
            let old = text.replace("HTTP/1.1\r\n", "HTTP/1.0\r\nconnection: keep-alive\r\n");
            let mut agent = Agent::connect(gate.agents_addr());
            agent.send(old.as_bytes());
            let told = agent.rest();
            let (head, body) = told.split_once("\r\n\r\n").unwrap();
            assert!(!head.contains("chunked") && head.contains("connection: close"), "{head}");
            if stream {
                assert!(body.starts_with(": keepalive\n\n"), "{body}");
                assert!(body.contains("hello") && body.ends_with("data: [DONE]\n\n"), "{body}");
                let lines = body.lines().filter(|line| !line.is_empty());
                let known = |line: &&str| line.starts_with("data: ") || line.starts_with(": ");
                assert_eq!(lines.filter(|line| !known(line)).count(), 0, "{body}");
            } else {
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert_eq!(body["choices"][0]["message"]["content"], "hello");
            }
        }
    });
}

#[test]
fn m04_bytes_that_are_no_text_are_refused_in_each_shape_and_the_server_lives() {
    on_both(|driver| {
        let state = state_dir();
        let gate = Setting::new(driver).start(state.path(), &[]);
        let made = create(&gate);
        let bad = b"{\"a\":\"\xFF\"}";
        for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses"] {
            let mut agent = Agent::connect(gate.agents_addr());
            let head = format!(
                "POST {path} HTTP/1.1\r\nx-api-key: {}\r\nx-odd: \u{1}a\r\n",
                made.key.expose()
            )
            .replace('\u{1}', "\u{e9}\u{f8}");
            let head = format!("{head}content-length: {}\r\n\r\n", bad.len());
            agent.send(&[head.as_bytes(), bad].concat());
            let reply = agent.reply();
            assert_eq!(reply.status, 400, "{}", reply.body);
            assert!(reply.json()["error"]["message"].as_str().unwrap().contains("column 7"));
            agent.send(b"GET /healthz HTTP/1.1\r\n\r\n");
            assert_eq!(agent.reply().status, 200, "on the same connection");
        }
    });
}

#[test]
fn answers_to_requests_sent_ahead_are_watched_too() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("hello<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let texts = ["one", "two", "three"];
        let all: Vec<u8> = texts.iter().flat_map(|t| chat(&made.key, &user(t), false)).collect();
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(&all);
        let said = |word: fn(&Record) -> bool| {
            records(&gate.journal_path(&made.session_id)).iter().filter(|r| word(r)).count()
        };
        eventually("all are answered", || {
            said(|record| matches!(record, Record::Turn(_))) == 3
                && total(&gate, |s| s.in_flight) == 0
        });
        agent.leave(Leave::Reset);
        eventually("all are missed", || {
            said(|record| matches!(record, Record::Delivery(delivery) if !delivery.whole)) == 3
        });
        assert_eq!(total(&gate, |s| s.orphans), 3);
        for text in texts {
            let mut agent = Agent::connect(gate.agents_addr());
            assert_eq!(agent.ask(&made.key, &user(text)).text(), "hello");
        }
        assert_eq!(engine.calls().len(), 3, "each retry got what was there");
        eventually("it is counted", || total(&gate, |s| s.answers_replayed) == 3);
    });
}
