//! The end of a data plane under way, and sessions that come and go under load.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use rollgate_pipeline::limits::Limits;
use rollgate_pipeline::record::Record;
use rollgate_shards::Created;
use serde_json::{Value, json};

use crate::agent::{Agent, chat, user};
use crate::engine::{Act, Engine, wait};
use crate::node::{
    Setting, block_on, create, eventually, model, on_both, records, state_dir, total,
};

#[test]
fn a_stream_under_way_is_finished_and_what_comes_after_is_told() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Hold("hello<|im_end|>"));
        let state = state_dir();
        let setting = Setting { keepalive_first_ms: 50, ..Setting::new(driver) };
        let gate = setting.with(state.path(), &engine);
        let made = create(&gate);
        let mut stream = Agent::connect(gate.agents_addr());
        stream.send(&chat(&made.key, &user("q"), true));
        eventually("the stream has begun", || total(&gate, |s| s.keepalives) > 0);
        // Its next request was sent before anybody knew of a drain.
        let mut ahead = Agent::connect(gate.agents_addr());
        ahead.send(&chat(&made.key, &user("r"), false));
        eventually("both are under way", || engine.calls().len() == 2);
        ahead.send(&chat(&made.key, &user("s"), false));
        let draining = {
            let gate = gate.clone();
            std::thread::spawn(move || block_on(gate.drain()))
        };
        eventually("nothing listens", || TcpStream::connect(gate.agents_addr()).is_err());
        assert!(!draining.is_finished(), "it waits");
        engine.release();
        assert_eq!(stream.reply().text(), "hello");
        assert_eq!(ahead.reply().status, 200);
        draining.join().unwrap();
        assert_eq!(engine.calls().len(), 2, "nothing new was begun");
        let written = records(&gate.journal_path(&made.session_id));
        let turns = written.iter().filter(|record| matches!(record, Record::Turn(_)));
        assert_eq!(turns.count(), 2);
    });
}

#[test]
fn a_drain_does_not_wait_longer_than_its_limit() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Stuck);
        let state = state_dir();
        let limits = Limits { drain_ms: 400, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(&chat(&made.key, &user("q"), false));
        eventually("it is under way", || !engine.calls().is_empty());
        let begun = Instant::now();
        block_on(gate.drain());
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(390) && took < Duration::from_secs(4), "{took:?}");
        assert_eq!(records(&gate.journal_path(&made.session_id)).len(), 1, "whole, with no turn");
    });
}

#[test]
fn sessions_that_leave_and_come_back_under_load_lose_nothing() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let limits = Limits { sessions_per_shard: 3, ..Limits::default() };
        let setting = Setting { limits, idle_evict_ms: 1, shards: 2, ..Setting::new(driver) };
        let gate = setting.with(state.path(), &engine);
        let made: Vec<Created> = (0..12).map(|_| create(&gate)).collect();
        std::thread::scope(|scope| {
            for made in &made {
                let gate = &gate;
                scope.spawn(move || {
                    let mut agent = Agent::connect(gate.agents_addr());
                    let mut messages: Vec<Value> = Vec::new();
                    for turn in 0..6 {
                        messages.push(json!({"role": "user", "content": format!("q{turn}")}));
                        // All may be at work at once: then one comes back later, as agents do.
                        loop {
                            let reply = agent.ask(&made.key, &json!(messages));
                            if reply.closes() {
                                agent = Agent::connect(gate.agents_addr());
                            }
                            match reply.status {
                                200 => break,
                                503 => wait(Duration::from_millis(20)),
                                _ => panic!("{reply:?}"),
                            }
                        }
                        messages.push(json!({"role": "assistant", "content": "x"}));
                    }
                });
            }
        });
        assert!(total(&gate, |s| s.evictions) > 0 && total(&gate, |s| s.reloads) > 0);
        for made in &made {
            let state = block_on(gate.describe(&made.session_id)).unwrap();
            assert_eq!((state.turns, state.segments), (6, 1), "one history each");
        }
    });
}
