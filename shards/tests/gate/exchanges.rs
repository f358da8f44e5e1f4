//! One agent, one engine.

use std::time::{Duration, Instant};

use rollgate_pipeline::id::SessionKey;
use rollgate_pipeline::limits::Limits;
use rollgate_pipeline::record::{Record, Reward};
use rollgate_shards::CommandError;
use serde_json::json;

use crate::agent::{Agent, chat, user};
use crate::engine::{Act, Engine, wait};
use crate::node::{
    PANIC, Setting, block_on, create, eventually, model, on_both, records, state_dir, total,
};

#[test]
fn an_exchange_is_recorded_and_answered() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("hello<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        let first = agent.ask(&made.key, &user("q"));
        assert_eq!((first.status, first.content().as_str()), (200, "hello"), "{first:?}");
        let more = json!([
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "hello"},
            {"role": "user", "content": "r"},
        ]);
        assert_eq!(agent.ask(&made.key, &more).status, 200, "the connection is kept");
        let calls = engine.calls();
        assert!(calls[1].prompt.starts_with(&calls[0].prompt), "the prompt is extended");
        assert_eq!(calls[0].connection, calls[1].connection, "the engine's connection is kept");
        assert_eq!(calls[0].path, "/inference/v1/generate");
        assert_eq!(calls[0].routing_key, made.session_id.to_string());
        let state = block_on(gate.describe(&made.session_id)).unwrap();
        assert_eq!((state.turns, state.segments), (2, 1));
        assert_eq!(block_on(gate.list()).unwrap(), [state]);
        let written = records(&gate.journal_path(&made.session_id));
        assert!(matches!(written[..], [Record::Opened(_), Record::Turn(_), Record::Turn(_)]));
    });
}

#[test]
fn what_is_no_call_of_a_session_is_answered_at_once() {
    on_both(|driver| {
        let state = state_dir();
        let gate = Setting::new(driver).start(state.path(), &[]);
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(
            b"GET /healthz HTTP/1.1\r\nhost: g\r\n\r\nGET /v1/models HTTP/1.1\r\nhost: g\r\n\r\n",
        );
        assert_eq!(agent.reply().status, 200);
        assert!(agent.reply().body.contains("\"data\""), "pipelined");
        agent.send(b"GET /nothing HTTP/1.1\r\nhost: g\r\n\r\n");
        assert_eq!(agent.reply().status, 404);
        let wrong = agent.ask(&SessionKey::from_random(5), &user("q"));
        assert_eq!((wrong.status, wrong.closes()), (401, true), "its body was not read");
        assert!(agent.at_end());
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(b"NONSENSE\r\n\r\n");
        let refused = agent.reply();
        assert_eq!((refused.status, refused.closes()), (400, true));
        assert!(agent.at_end());
        assert_eq!(total(&gate, |s| s.faults), 3);
    });
}

#[test]
fn a_body_that_waits_for_a_word_gets_it() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let text = String::from_utf8(chat(&made.key, &user("q"), false)).unwrap();
        let text = text.replacen("host: g", "host: g\r\nexpect: 100-continue", 1);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(format!("{head}\r\n\r\n").as_bytes());
        assert_eq!(agent.reply().status, 100);
        for piece in body.as_bytes().chunks(40) {
            agent.send(piece);
            wait(Duration::from_millis(3));
        }
        assert_eq!(agent.reply().status, 200);
    });
}

#[test]
fn a_stream_shows_signs_of_life_while_the_engine_works() {
    on_both(|driver| {
        let late = Act::Late(Duration::from_millis(900), "late<|im_end|>");
        let engine = Engine::start(model(), move |_| late.clone());
        let state = state_dir();
        let setting = Setting { keepalive_first_ms: 100, ..Setting::new(driver) };
        let gate = setting.with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(&chat(&made.key, &user("q"), true));
        let reply = agent.reply();
        let signs = reply.body.matches(": keepalive").count();
        assert!(signs >= 2, "{signs} signs: {}", reply.body);
        assert!(reply.body.contains("late") && reply.body.ends_with("data: [DONE]\n\n"));
        assert_eq!(total(&gate, |s| s.keepalives), signs as u64);
    });
}

#[test]
fn an_agent_that_leaves_does_not_undo_its_turn() {
    on_both(|driver| {
        let late = Act::Late(Duration::from_millis(200), "x<|im_end|>");
        let engine = Engine::start(model(), move |_| late.clone());
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(&chat(&made.key, &user("q"), false));
        eventually("the engine is asked", || !engine.calls().is_empty());
        drop(agent);
        let turns = || block_on(gate.describe(&made.session_id)).unwrap().turns;
        eventually("the turn is recorded", || turns() == 1);
        eventually("nothing is in flight", || total(&gate, |s| s.in_flight) == 0);
    });
}

#[test]
fn closing_waits_then_seals_and_deleting_forgets() {
    on_both(|driver| {
        let late = Act::Late(Duration::from_millis(100), "x<|im_end|>");
        let engine = Engine::start(model(), move |_| late.clone());
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(&chat(&made.key, &user("q"), false));
        eventually("the engine is asked", || !engine.calls().is_empty());
        let closed = block_on(gate.close(&made.session_id)).unwrap();
        assert_eq!((closed.state, closed.turns), ("closed", 1), "it waited for the turn");
        assert_eq!(agent.reply().status, 200);
        assert_eq!(agent.ask(&made.key, &user("r")).status, 403);
        let reward = Reward { reward: Some(0.5), parts: Default::default() };
        block_on(gate.reward(&made.session_id, reward)).unwrap();
        let again = block_on(gate.close(&made.session_id)).unwrap();
        assert_eq!((again.state, again.reward), ("closed", Some(0.5)));
        let path = gate.journal_path(&made.session_id);
        assert_eq!(records(&path).len(), 4, "sealed once");
        block_on(gate.delete(&made.session_id)).unwrap();
        assert!(!path.exists());
        assert_eq!(Agent::connect(gate.agents_addr()).ask(&made.key, &user("r")).status, 401);
        let gone = block_on(gate.describe(&made.session_id));
        assert!(matches!(gone, Err(CommandError::NoSession)));
        assert!(matches!(block_on(gate.delete(&made.session_id)), Err(CommandError::NoSession)));
    });
}

#[test]
fn a_panic_costs_one_exchange_and_the_session_comes_back_from_its_journal() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        assert_eq!(agent.ask(&made.key, &user("q")).status, 200);
        let refused = agent.ask(&made.key, &user(PANIC));
        assert_eq!((refused.status, refused.closes()), (500, true), "{refused:?}");
        let mut agent = Agent::connect(gate.agents_addr());
        assert_eq!(agent.ask(&made.key, &user("r")).status, 200);
        assert_eq!(total(&gate, |s| s.reloads), 1);
        eventually("nothing is in flight", || total(&gate, |s| s.in_flight) == 0);
        assert_eq!(records(&gate.journal_path(&made.session_id)).len(), 3);
    });
}

#[test]
fn an_agent_that_does_not_go_on_is_not_waited_for() {
    on_both(|driver| {
        let state = state_dir();
        let limits = Limits { head_ms: 150, body_ms: 150, idle_ms: 400, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.start(state.path(), &[]);
        let made = create(&gate);
        let whole = chat(&made.key, &user("q"), false);
        for (cut, names) in [(30, "150 ms"), (whole.len() - 5, "150 ms")] {
            let mut agent = Agent::connect(gate.agents_addr());
            agent.send(&whole[..cut]);
            let reply = agent.reply();
            assert_eq!((reply.status, reply.closes()), (408, true), "{reply:?}");
            assert!(reply.body.contains(names), "{}", reply.body);
        }
        let begun = Instant::now();
        assert!(Agent::connect(gate.agents_addr()).at_end(), "quiet for too long");
        assert!(begun.elapsed() >= Duration::from_millis(390));
        let state = block_on(gate.describe(&made.session_id)).unwrap();
        assert_eq!(state.turns, 0);
    });
}
