//! Bounds from both sides: what is within works, what is beyond is told when to come back.

use std::io::Write;
use std::time::Duration;

use rollgate_pipeline::limits::Limits;
use rollgate_pipeline::record::SessionOptions;
use rollgate_shards::{CommandError, Created, Gate, LimitHit};

use crate::agent::{Agent, Reply, chat, user};
use crate::engine::{Act, Engine, wait};
use crate::node::{
    PANIC, Setting, block_on, create, eventually, model, on_both, records, state_dir, total,
};

#[track_caller]
fn told_to_come_back(reply: &Reply, key: &str) {
    assert_eq!(reply.status, 503, "{reply:?}");
    assert!(reply.head.contains("retry-after: "), "{}", reply.head);
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains(key), "{}", reply.body);
}

#[test]
fn exchanges_beyond_the_limit_are_told_to_come_back() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Hold("x<|im_end|>"));
        let state = state_dir();
        let limits = Limits { exchanges_per_shard: 1, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        let mut first = Agent::connect(gate.agents_addr());
        first.send(&chat(&made.key, &user("q"), false));
        eventually("it is under way", || total(&gate, |s| s.in_flight) == 1);
        let mut second = Agent::connect(gate.agents_addr());
        told_to_come_back(&second.ask(&made.key, &user("r")), "limits.exchanges_per_shard");
        engine.release();
        assert_eq!(first.reply().status, 200);
        eventually("it is over", || total(&gate, |s| s.in_flight) == 0);
        assert_eq!(Agent::connect(gate.agents_addr()).ask(&made.key, &user("r")).status, 200);
        assert_eq!(total(&gate, |s| s.hits(LimitHit::ExchangesPerShard)), 1);
    });
}

#[test]
fn connections_beyond_the_limit_are_told_to_come_back() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let limits = Limits { connections_per_shard: 2, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        let mut two = [0, 1].map(|_| Agent::connect(gate.agents_addr()));
        for agent in &mut two {
            assert_eq!(agent.ask(&made.key, &user("q")).status, 200);
        }
        let mut third = Agent::connect(gate.agents_addr());
        third.send(&chat(&made.key, &user("r"), false));
        let reply = third.reply();
        told_to_come_back(&reply, "limits.connections_per_shard");
        assert!(reply.closes() && third.at_end());
        drop(two);
        eventually("they are gone", || total(&gate, |s| s.connections) == 0);
        assert_eq!(Agent::connect(gate.agents_addr()).ask(&made.key, &user("r")).status, 200);
        assert_eq!(total(&gate, |s| s.hits(LimitHit::ConnectionsPerShard)), 1);
    });
}

#[test]
fn n02_sessions_beyond_the_limit_push_out_the_oldest_idle_ones() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let limits = Limits { sessions_per_shard: 2, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        let made: Vec<Created> = (0..5).map(|_| create(&gate)).collect();
        for _ in 0..2 {
            for made in &made {
                let mut agent = Agent::connect(gate.agents_addr());
                assert_eq!(agent.ask(&made.key, &user("q")).status, 200);
                assert!(total(&gate, |s| s.sessions) <= 2);
            }
        }
        assert!(total(&gate, |s| s.reloads) >= 8);
        for made in &made {
            assert_eq!(block_on(gate.describe(&made.session_id)).unwrap().turns, 2, "none is lost");
        }
        block_on(gate.close(&made[4].session_id)).unwrap();
        block_on(gate.delete(&made[4].session_id)).unwrap();
        assert!(total(&gate, |s| s.sessions) <= 1, "closing and deleting frees");
    });
}

#[test]
fn n02_a_session_with_a_call_in_flight_is_never_pushed_out() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Hold("x<|im_end|>"));
        let state = state_dir();
        let limits = Limits { sessions_per_shard: 2, ..Limits::default() };
        let setting = Setting { limits, idle_evict_ms: 1, ..Setting::new(driver) };
        let gate = setting.with(state.path(), &engine);
        let made = [create(&gate), create(&gate)];
        let mut agents = made.each_ref().map(|made| {
            let mut agent = Agent::connect(gate.agents_addr());
            agent.send(&chat(&made.key, &user("q"), false));
            agent
        });
        eventually("both are under way", || engine.calls().len() == 2);
        let refused = block_on(gate.create(SessionOptions::default())).err();
        let Some(CommandError::Fault(fault)) = refused else { panic!("{refused:?}") };
        assert!(fault.message.contains("limits.sessions_per_shard"), "{fault}");
        assert_eq!(fault.retry_after_s, Some(1));
        // Longer than a sweep.
        wait(Duration::from_millis(1_200));
        assert_eq!(total(&gate, |s| s.evictions), 0);
        engine.release();
        for agent in &mut agents {
            assert_eq!(agent.reply().status, 200);
        }
        eventually("both are idle", || block_on(gate.create(SessionOptions::default())).is_ok());
    });
}

/// Sends the head and half of a body of so many bytes.
fn half(gate: &Gate, made: &Created, bytes: usize) -> (Agent, Vec<u8>) {
    let whole = chat(&made.key, &user(&"x".repeat(bytes)), false);
    let (first, rest) = whole.split_at(whole.len() - bytes / 2);
    let held = total(gate, |s| s.bodies_bytes);
    let mut agent = Agent::connect(gate.agents_addr());
    agent.send(first);
    eventually("it is held", || total(gate, |s| s.bodies_bytes) > held);
    (agent, rest.to_vec())
}

#[test]
fn n03_bodies_wait_for_room_and_are_refused_when_none_comes() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let limits = Limits { bodies_bytes_per_shard: 1_000, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        let (mut first, first_rest) = half(&gate, &made, 4_000);
        assert!(total(&gate, |s| s.bodies_bytes) > 1_000);
        let (mut refused, _) = half(&gate, &made, 4_000);
        let reply = refused.reply();
        told_to_come_back(&reply, "limits.bodies_bytes_per_shard");
        assert!(reply.closes());
        assert_eq!(total(&gate, |s| s.hits(LimitHit::BodiesBytesPerShard)), 1);
        let (mut waits, waits_rest) = half(&gate, &made, 4_000);
        waits.send(&waits_rest);
        first.send(&first_rest);
        assert_eq!(first.reply().status, 200, "the first one goes on: there is a way out");
        assert_eq!(waits.reply().status, 200, "and then there is room");
        eventually("nothing is held", || total(&gate, |s| s.bodies_bytes) == 0);
    });
}

#[test]
fn bodies_that_are_new_beyond_the_limit_are_told_to_come_back() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let limits = Limits { unseen_bytes: 1_000, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        let (mut first, first_rest) = half(&gate, &made, 4_000);
        let mut second = Agent::connect(gate.agents_addr());
        told_to_come_back(&second.ask(&made.key, &user(&"y".repeat(4_000))), "limits.unseen_bytes");
        eventually("it is counted", || total(&gate, |s| s.hits(LimitHit::UnseenBytes)) == 1);
        first.send(&first_rest);
        assert_eq!(first.reply().status, 200, "one alone may be larger");
    });
}

#[test]
fn short_memory_drops_sessions_then_refuses() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let limits = Limits { memory_bytes: 1, ..Limits::default() };
        let gate = Setting { limits, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        eventually("the session leaves", || total(&gate, |s| s.evictions) > 0);
        eventually("exchanges are refused", || {
            let reply = Agent::connect(gate.agents_addr()).ask(&made.key, &user("q"));
            if reply.status == 200 {
                return false;
            }
            told_to_come_back(&reply, "limits.memory_bytes");
            true
        });
        assert!(total(&gate, |s| s.hits(LimitHit::MemoryBytes)) > 1);
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(b"GET /healthz HTTP/1.1\r\n\r\n");
        assert_eq!(agent.reply().status, 200, "it lives");
    });
}

#[test]
fn a_huge_body_on_its_way_in_does_not_keep_others_waiting() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let large = 60 << 20;
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nx-api-key: {}\r\ncontent-length: {large}\r\n\r\n",
            made.key.expose()
        );
        let mut hog = Agent::connect(gate.agents_addr());
        hog.send(head.as_bytes());
        let sending = hog.stream.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            let piece = vec![b' '; 1 << 20];
            (0..59).all(|_| (&mut &sending).write_all(&piece).is_ok())
        });
        let mut probes = 0;
        let mut probe = Agent::connect(gate.agents_addr());
        while !sender.is_finished() {
            probe.send(b"GET /healthz HTTP/1.1\r\n\r\n");
            assert_eq!(probe.reply().status, 200);
            probes += 1;
        }
        assert!(sender.join().unwrap());
        assert!(probes > 0, "others are answered meanwhile");
    });
}

#[test]
fn a_second_panic_ends_the_data_plane_and_journals_are_whole() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting { shards: 2, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        let ask = |text| Agent::connect(gate.agents_addr()).ask(&made.key, &user(text));
        assert_eq!(ask("q").status, 200);
        assert_eq!(ask(PANIC).status, 500);
        assert_eq!(ask("r").status, 200, "one costs one exchange");
        assert_eq!(ask(PANIC).status, 500);
        block_on(gate.ended());
        assert!(matches!(block_on(gate.list()), Err(CommandError::Stopped)));
        assert_eq!(records(&gate.journal_path(&made.session_id)).len(), 3);
    });
}
