//! Engines that fail.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use rollgate_pipeline::limits::Limits;

use crate::agent::{Agent, user};
use crate::engine::{Act, Engine, wait};
use crate::node::{Setting, block_on, create, eventually, model, on_both, state_dir, total};

/// An address where nothing listens.
fn nowhere() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn an_engine_that_is_down_is_named_after_retries_in_time() {
    on_both(|driver| {
        let state = state_dir();
        let addr = nowhere();
        let gate = Setting::new(driver).start(state.path(), &[addr]);
        let made = create(&gate);
        let begun = Instant::now();
        let mut agent = Agent::connect(gate.agents_addr());
        let reply = agent.ask(&made.key, &user("q"));
        let took = begun.elapsed();
        assert_eq!(reply.status, 502);
        assert!(reply.body.contains(&addr.to_string()), "{}", reply.body);
        assert!((Duration::from_millis(500)..Duration::from_secs(3)).contains(&took), "{took:?}");
        assert_eq!((total(&gate, |s| s.engine_retries), total(&gate, |s| s.faults)), (2, 1));
        assert_eq!(block_on(gate.describe(&made.session_id)).unwrap().turns, 0);
        assert!(!reply.closes(), "the request was read: the agent may go on");
        assert_eq!(agent.ask(&made.key, &user("q")).status, 502);
    });
}

#[test]
fn another_engine_steps_in() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).start(state.path(), &[nowhere(), engine.addr]);
        for _ in 0..6 {
            let made = create(&gate);
            let reply = Agent::connect(gate.agents_addr()).ask(&made.key, &user("q"));
            assert_eq!(reply.status, 200);
        }
    });
}

#[test]
fn l01_a_stale_connection_is_replaced_at_once_and_does_not_count() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::SayAndClose("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        for _ in 0..3 {
            assert_eq!(agent.ask(&made.key, &user("q")).status, 200);
            wait(Duration::from_millis(20));
        }
        assert_eq!(total(&gate, |s| s.engine_retries), 0);
        assert_eq!(total(&gate, |s| s.engine_calls), 3);
    });
}

#[test]
fn k06_a_hang_up_before_or_amid_a_reply_is_tried_again_and_counted() {
    on_both(|driver| {
        let script = |call| match call {
            0 => Act::Hang,
            1 => Act::Half,
            2 => Act::Say("x<|im_end|>"),
            _ => Act::Half,
        };
        let engine = Engine::start(model(), script);
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        assert_eq!(agent.ask(&made.key, &user("q")).status, 200);
        assert_eq!(total(&gate, |s| s.engine_retries), 2);
        assert_eq!(total(&gate, |s| s.engine_resends), 2, "it may have sampled");
        let half = agent.ask(&made.key, &user("r"));
        assert_eq!(half.status, 502, "{half:?}");
        assert_eq!(engine.calls().len(), 6, "three tries each");
        let calls = engine.calls();
        let ids: std::collections::HashSet<_> = calls.iter().map(|call| &call.request_id).collect();
        assert_eq!(ids.len(), 6, "each try has an id of its own");
        assert_eq!(block_on(gate.describe(&made.session_id)).unwrap().turns, 1);
    });
}

#[test]
fn an_engine_that_takes_too_long_is_a_timeout() {
    on_both(|driver| {
        let late = Act::Late(Duration::from_millis(1_500), "x<|im_end|>");
        let engine = Engine::start(model(), move |_| late.clone());
        let state = state_dir();
        let limits = Limits { engine_ms: 200, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        let reply = Agent::connect(gate.agents_addr()).ask(&made.key, &user("q"));
        assert_eq!(reply.status, 504);
        assert!(reply.body.contains("limits.engine_ms"), "{}", reply.body);
        assert_eq!(engine.calls().len(), 1);
    });
}

#[test]
fn more_exchanges_than_a_shard_may_have_are_refused() {
    on_both(|driver| {
        let late = Act::Late(Duration::from_millis(300), "x<|im_end|>");
        let engine = Engine::start(model(), move |_| late.clone());
        let state = state_dir();
        let limits = Limits { exchanges_per_shard: 1, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        let mut first = Agent::connect(gate.agents_addr());
        first.send(&crate::agent::chat(&made.key, &user("q"), false));
        eventually("the engine is asked", || !engine.calls().is_empty());
        let second = Agent::connect(gate.agents_addr()).ask(&made.key, &user("q"));
        assert_eq!(second.status, 503);
        assert!(second.head.contains("retry-after: 1"), "{}", second.head);
        assert_eq!(first.reply().status, 200);
    });
}
