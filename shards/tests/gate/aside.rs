//! Prompts that are encoded beside a shard: it serves others meanwhile.

use std::sync::atomic::Ordering;

use rollgate_pipeline::limits::ENCODE_INLINE_BYTES;

use crate::agent::{Agent, Leave, chat, user};
use crate::engine::{Act, Engine};
use crate::node::{
    HELD, HOLD, PANIC, Setting, block_on, create, eventually, model, on_both, state_dir, total,
};

/// More text than a shard encodes itself. No engine takes so much of it: it is refused then.
fn long(text: &str) -> String {
    format!("{text} {}", "x".repeat(ENCODE_INLINE_BYTES))
}

#[test]
fn a_shard_serves_others_while_a_long_prompt_is_encoded() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("hello<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        HELD.store(true, Ordering::SeqCst);
        let mut held = Agent::connect(gate.agents_addr());
        held.send(&chat(&made.key, &user(&long(HOLD)), false));
        let mut gone = Agent::connect(gate.agents_addr());
        gone.send(&chat(&made.key, &user(&long("and leave")), false));
        eventually("both are under way", || total(&gate, |s| s.in_flight) == 2);
        // All of what it sent arrives before the news that it left.
        gone.leave(Leave::Fin);
        let reply = Agent::connect(gate.agents_addr()).ask(&made.key, &user("q"));
        assert_eq!((reply.status, reply.content().as_str()), (200, "hello"));
        assert!(total(&gate, |s| s.in_flight) >= 1, "the long one is still waiting");
        HELD.store(false, Ordering::SeqCst);
        let reply = held.reply();
        assert_eq!(reply.status, 400, "{reply:?}");
        assert!(reply.body.contains("context_length_exceeded"), "{reply:?}");
        eventually("nothing is left", || total(&gate, |s| s.in_flight) == 0);
        assert_eq!(total(&gate, |s| s.encodes_aside), 2);
        assert_eq!(total(&gate, |s| s.encodes_held_up), 0);
        assert_eq!(block_on(gate.describe(&made.session_id)).unwrap().turns, 1);
        block_on(gate.drain());
    });
}

#[test]
fn a_helper_that_panics_is_a_fault_and_goes_on() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("hello<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        assert_eq!(agent.ask(&made.key, &user(&long(PANIC))).status, 500);
        assert_eq!(
            agent.ask(&made.key, &user(&long("y"))).status,
            400,
            "too long, as it should be"
        );
        assert_eq!(agent.ask(&made.key, &user("q")).status, 200);
    });
}

#[test]
fn a_drain_lets_a_long_prompt_finish() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("hello<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        agent.send(&chat(&made.key, &user(&long("x")), false));
        eventually("it is under way", || total(&gate, |s| s.exchanges) == 1);
        block_on(gate.drain());
        assert_eq!(agent.reply().status, 400);
    });
}
