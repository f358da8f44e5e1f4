//! Agents that do odd things with HTTP: each gets a clear answer, and others notice nothing.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use flate2::Compression;
use rollgate_pipeline::id::SessionKey;
use rollgate_pipeline::limits::Limits;
use rollgate_shards::LimitHit;
use serde_json::{Value, json};

use crate::agent::{Agent, Leave, chat, user};
use crate::engine::{Act, Engine};
use crate::node::{Setting, block_on, create, eventually, model, on_both, state_dir, total};

/// A call with this body and further header lines.
fn call(key: &SessionKey, headers: &str, body: &[u8]) -> Vec<u8> {
    let key = key.expose();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nx-api-key: {key}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn body(text: &str) -> Vec<u8> {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string().into_bytes()
}

#[test]
fn l02_a_body_that_waits_for_a_word_gets_it_only_where_it_is_wanted() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let sent = body("q");
        let wait = format!("expect: 100-continue\r\ncontent-length: {}\r\n", sent.len());
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(&call(&made.key, &wait, b""));
        assert_eq!(agent.reply().status, 100);
        agent.send(&sent);
        assert_eq!(agent.reply().status, 200);
        let large = "expect: 100-continue\r\ncontent-length: 999999999\r\n";
        let wrong = SessionKey::from_random(3);
        for (key, headers, status) in [(&made.key, large, 413), (&wrong, &wait[..], 401)] {
            let mut agent = Agent::connect(gate.agents_addr());
            agent.send(&call(key, headers, b""));
            let reply = agent.reply();
            assert_eq!((reply.status, reply.closes()), (status, true), "no 100 before: {reply:?}");
            assert!(agent.at_end());
        }
    });
}

#[test]
fn l03_pipelined_requests_are_not_cut_by_a_timer_of_the_first() {
    on_both(|driver| {
        let late = Act::Late(Duration::from_millis(500), "x<|im_end|>");
        let engine = Engine::start(model(), move |_| late.clone());
        let state = state_dir();
        let limits = Limits { idle_ms: 150, head_ms: 150, body_ms: 150, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        let two = [chat(&made.key, &user("q"), false), chat(&made.key, &user("r"), false)];
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(&two.concat());
        assert_eq!((agent.reply().status, agent.reply().status), (200, 200));
        let asked: Vec<usize> = engine.calls().iter().map(|call| call.prompt.len()).collect();
        assert_eq!(asked.len(), 2);
    });
}

#[test]
fn l04_what_follows_a_wish_to_close_is_not_answered() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let sent = body("q");
        let headers = format!("connection: close\r\ncontent-length: {}\r\n", sent.len());
        let mut agent = Agent::connect(gate.agents_addr());
        let after = b"GET /healthz HTTP/1.1\r\n\r\n";
        agent.send(&[&call(&made.key, &headers, &sent)[..], after].concat());
        let reply = agent.reply();
        assert_eq!((reply.status, reply.closes()), (200, true));
        assert!(agent.at_end());
    });
}

/// The same body with so many blanks in front, so that it is large and says little.
fn padded(bytes: usize) -> Vec<u8> {
    [vec![b' '; bytes], body("q")].concat()
}

#[test]
fn l05_bodies_up_to_the_limit_work_and_larger_ones_are_refused_unread() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let limits = Limits { body_bytes: 20 << 20, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        let room = (20 << 20) - body("q").len();
        for (bytes, status) in [(3 << 20, 200), (room, 200), (room + 1, 413)] {
            let sent = padded(bytes);
            let length = format!("content-length: {}\r\n", sent.len());
            let mut chunked: Vec<u8> = Vec::new();
            for piece in sent.chunks(60_000) {
                write!(chunked, "{:x}\r\n", piece.len()).unwrap();
                chunked.extend_from_slice(piece);
                chunked.extend_from_slice(b"\r\n");
            }
            chunked.extend_from_slice(b"0\r\n\r\n");
            let ways = [(&length[..], sent), ("transfer-encoding: chunked\r\n", chunked)];
            for (headers, wire) in ways {
                let mut agent = Agent::connect(gate.agents_addr());
                agent.send(&call(&made.key, headers, b""));
                // Whoever is refused early may not take all of it.
                let _ = agent.stream.write_all(&wire);
                let reply = agent.reply();
                assert_eq!(reply.status, status, "{bytes} {headers}: {}", reply.body);
                if status == 413 {
                    let code = reply.json()["error"]["code"].clone();
                    assert_eq!((code, reply.closes()), (json!("body_too_large"), true));
                }
            }
        }
        eventually("both are counted", || total(&gate, |s| s.hits(LimitHit::BodyBytes)) == 2);
        eventually("nothing is held", || total(&gate, |s| s.bodies_bytes) == 0);
    });
}

fn compressed(coding: &str, plain: &[u8]) -> Vec<u8> {
    let level = Compression::default();
    match coding {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        "zstd" => zstd::encode_all(plain, 3).unwrap(),
        _ => plain.to_vec(),
    }
}

#[test]
fn l06_compressed_bodies_are_read_and_others_are_told() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let plain = body(&"words and words ".repeat(500));
        let mut prompts = Vec::new();
        for (coding, status) in [
            ("identity", 200),
            ("gzip", 200),
            ("deflate", 200),
            ("zstd", 200),
            ("br", 415),
            ("foo", 415),
        ] {
            let wire = compressed(coding, &plain);
            let headers =
                format!("content-encoding: {coding}\r\ncontent-length: {}\r\n", wire.len());
            let mut agent = Agent::connect(gate.agents_addr());
            agent.send(&call(&made.key, &headers, &wire));
            let reply = agent.reply();
            assert_eq!(reply.status, status, "{coding}: {}", reply.body);
            assert!(reply.json().is_object());
            prompts.extend(engine.calls().last().map(|call| call.prompt.clone()));
            if status == 200 && coding != "identity" {
                let mut agent = Agent::connect(gate.agents_addr());
                let cut = &wire[..wire.len() - 2];
                let headers =
                    format!("content-encoding: {coding}\r\ncontent-length: {}\r\n", cut.len());
                agent.send(&call(&made.key, &headers, cut));
                assert_eq!(agent.reply().status, 400, "{coding}, cut");
            }
        }
        assert_eq!(engine.calls().len(), 4);
        assert!(prompts.iter().all(|prompt| *prompt == prompts[0]));
    });
}

#[test]
fn l08_what_we_answer_ourselves_is_labelled_as_it_is() {
    on_both(|driver| {
        let state = state_dir();
        let gate = Setting::new(driver).start(state.path(), &[]);
        let mut agent = Agent::connect(gate.agents_addr());
        agent
            .send(b"GET /v1/models HTTP/1.1\r\nhost: g\r\naccept-encoding: gzip, br, zstd\r\n\r\n");
        let reply = agent.reply();
        assert!(!reply.head.contains("content-encoding"), "{}", reply.head);
        assert!(reply.json()["data"].is_array());
    });
}

#[test]
fn l09_slow_heads_and_bodies_end_and_healthy_calls_go_on() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let limits = Limits { head_ms: 600, body_ms: 600, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        let mut slow: Vec<Agent> = (0..100).map(|_| Agent::connect(gate.agents_addr())).collect();
        let head = b"POST /v1/chat/completions HTTP/1.1\r\n";
        let mut trickle = Agent::connect(gate.agents_addr());
        trickle.send(&call(&made.key, "content-length: 100000\r\n", b"{"));
        let mut healthy = Agent::connect(gate.agents_addr());
        let begun = Instant::now();
        // A byte at a time, each well within the time for one piece.
        for byte in head.iter().take(20) {
            for agent in &mut slow {
                let _ = agent.stream.write_all(&[*byte]);
            }
            let _ = trickle.stream.write_all(b" ");
            let asked = Instant::now();
            assert_eq!(healthy.ask(&made.key, &user("q")).status, 200);
            assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
            crate::engine::wait(Duration::from_millis(60));
        }
        assert!(begun.elapsed() > Duration::from_millis(1_200));
        for agent in &mut slow {
            assert_eq!(agent.reply().status, 408);
        }
        let reply = trickle.reply();
        assert_eq!(reply.status, 408);
        assert!(reply.body.contains("bytes a second"), "{}", reply.body);
        assert_eq!(total(&gate, |s| s.hits(LimitHit::HeadMs)), 100);
        assert_eq!(total(&gate, |s| s.hits(LimitHit::BodyMs)), 1);
    });
}

#[test]
fn l12_nothing_that_an_agent_shows_to_us_goes_further() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let state = state_dir();
    let setting = Setting::new(rollgate_shards::DriverChoice::Epoll);
    let setting = Setting { limits: Limits { engine_retries: 0, ..Limits::default() }, ..setting };
    let gate = setting.start(state.path(), &[listener.local_addr().unwrap()]);
    let made = create(&gate);
    let sent = body("q");
    let secrets = "cookie: c=my-secret\r\nx-goog-api-key: my-secret\r\nproxy-authorization: Basic \
                   my-secret\r\nconnection: x-hop\r\nx-hop: my-secret\r\n";
    let headers = format!("{secrets}content-length: {}\r\n", sent.len());
    let mut agent = Agent::connect(gate.agents_addr());
    agent.send(&call(&made.key, &headers, &sent));
    // Whatever else the engine is asked meanwhile has nothing of the agent either.
    let (engine, seen) = loop {
        let (mut engine, _) = listener.accept().unwrap();
        let mut seen = vec![0; 64 << 10];
        let read = engine.read(&mut seen).unwrap();
        let seen = String::from_utf8_lossy(&seen[..read]).to_ascii_lowercase();
        if seen.starts_with("post /") {
            break (engine, seen);
        }
    };
    let key = made.key.expose();
    for secret in ["my-secret", "cookie", "x-hop", "authorization", "x-api-key", &key[3..]] {
        assert!(!seen.contains(secret), "{secret} in {seen}");
    }
    drop(engine);
    drop(listener);
    assert!(agent.reply().status >= 500);
    let journal = std::fs::read(gate.journal_path(&made.session_id)).unwrap();
    let journal = String::from_utf8_lossy(&journal).into_owned();
    assert!(!journal.contains("my-secret") && !journal.contains(&key[3..]));
}

#[test]
fn l13_a_wrong_key_is_told_in_the_shape_of_its_api() {
    on_both(|driver| {
        let state = state_dir();
        let gate = Setting::new(driver).start(state.path(), &[]);
        for (path, kind) in [
            ("/v1/chat/completions", "authentication_error"),
            ("/v1/responses", "authentication_error"),
            ("/v1/messages", "authentication_error"),
        ] {
            for header in ["authorization: Bearer dummy", "x-api-key: dummy", "accept: */*"] {
                let mut agent = Agent::connect(gate.agents_addr());
                let head = format!("POST {path} HTTP/1.1\r\n{header}\r\ncontent-length: 0\r\n\r\n");
                agent.send(head.as_bytes());
                let reply = agent.reply();
                assert_eq!(reply.status, 401, "{path} {header}");
                assert_eq!(reply.json()["error"]["type"], kind, "{path}: {}", reply.body);
            }
        }
    });
}

#[test]
fn l14_an_engine_is_told_within_a_second_of_the_grace_periods_end() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Hold("hello there<|im_end|>"));
        let state = state_dir();
        let setting =
            Setting { orphan_grace_ms: 400, keepalive_first_ms: 50, ..Setting::new(driver) };
        let gate = setting.with(state.path(), &engine);
        let made = create(&gate);
        for (at, leave) in [Leave::Fin, Leave::Reset].into_iter().enumerate() {
            let mut agent = Agent::connect(gate.agents_addr());
            agent.send(&chat(&made.key, &user(&format!("q{at}")), true));
            eventually("the stream has begun", || {
                engine.calls().len() == at + 1 && total(&gate, |s| s.keepalives) > at as u64
            });
            let begun = Instant::now();
            agent.leave(leave);
            eventually("the engine is told", || engine.aborted() == at + 1);
            let took = begun.elapsed();
            assert!(took < Duration::from_millis(400 + 1_000), "{took:?}");
            eventually("the slot is free", || total(&gate, |s| s.in_flight) == 0);
        }
        assert_eq!(
            block_on(gate.describe(&made.session_id)).unwrap().turns,
            2,
            "with what there was"
        );
    });
}

#[test]
fn l20_upgrades_are_refused_at_once_and_a_post_may_follow() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(
            b"GET /v1/responses HTTP/1.1\r\nhost: g\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
              sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n",
        );
        let reply = agent.reply();
        assert_eq!(reply.status, 426, "{reply:?}");
        agent.send(b"GET /v1/responses HTTP/1.1\r\nhost: g\r\n\r\n");
        let reply = agent.reply();
        assert_eq!(reply.status, 405);
        assert!(reply.head.contains("allow: post, options"), "{}", reply.head);
        assert_eq!(agent.ask(&made.key, &user("q")).status, 200, "on the same connection");
    });
}

#[test]
fn l21_probes_are_answered_and_leave_no_trace() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        for (line, status) in [
            ("GET /v1/models?client_version=1", 200),
            ("GET /", 200),
            ("GET /props", 404),
            ("GET /version", 404),
            ("GET /api/tags", 404),
            ("OPTIONS /v1/messages", 200),
            ("DELETE /v1/models", 405),
        ] {
            agent.send(format!("{line} HTTP/1.1\r\nhost: g\r\n\r\n").as_bytes());
            let reply = agent.reply();
            assert_eq!(reply.status, status, "{line}");
            assert!(reply.body.is_empty() || serde_json::from_str::<Value>(&reply.body).is_ok());
        }
        let mut head = Agent::connect(gate.agents_addr());
        head.send(b"HEAD / HTTP/1.1\r\nconnection: close\r\n\r\n");
        let told = head.rest();
        assert!(told.starts_with("HTTP/1.1 200") && told.ends_with("\r\n\r\n"), "{told}");
        assert_eq!(block_on(gate.describe(&made.session_id)).unwrap().turns, 0);
        assert!(engine.calls().is_empty());
        // A call of a small side model is served by the one model there is, and recorded.
        let side = json!({"model": "claude-haiku-x", "max_tokens": 1,
            "messages": [{"role": "user", "content": "quota"}]})
        .to_string();
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n{side}",
            made.key.expose(),
            side.len()
        );
        agent.send(head.as_bytes());
        let reply = agent.reply();
        assert_eq!((reply.status, &reply.json()["model"]), (200, &json!("claude-haiku-x")));
        assert_eq!(block_on(gate.describe(&made.session_id)).unwrap().turns, 1);
    });
}

#[test]
fn l22_large_heads_are_answered_not_cut() {
    on_both(|driver| {
        let state = state_dir();
        let gate = Setting::new(driver).start(state.path(), &[]);
        let many = "a: b\r\n".repeat(150);
        let long = format!("a: {}\r\n", "x".repeat(600_000));
        for fields in [&many, &long] {
            let mut agent = Agent::connect(gate.agents_addr());
            let head = format!("GET /healthz HTTP/1.1\r\n{fields}\r\n");
            let _ = agent.stream.write_all(head.as_bytes());
            let reply = agent.reply();
            assert_eq!((reply.status, reply.closes()), (431, true));
            assert!(reply.json()["error"]["message"].is_string());
        }
        let mut agent = Agent::connect(gate.agents_addr());
        let fine = format!("a: {}\r\n{}", "x".repeat(20_000), "b: c\r\n".repeat(120));
        agent.send(format!("GET /healthz HTTP/1.1\r\n{fine}\r\n").as_bytes());
        assert_eq!(agent.reply().status, 200);
    });
}
