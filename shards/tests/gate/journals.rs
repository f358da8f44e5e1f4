//! Sessions that are loaded from their journals.

use std::io::Write;

use rollgate_pipeline::id::TurnIndex;
use rollgate_pipeline::record::Record;
use rollgate_shards::{DriverChoice, Durability};
use serde_json::{Value, json};

use crate::agent::{Agent, user};
use crate::engine::{Act, Engine};
use crate::node::{
    Setting, block_on, create, eventually, model, on_both, records, state_dir, total,
};

/// A conversation that goes on after one turn that answered `x`.
fn second() -> Value {
    json!([
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": "r"},
    ])
}

#[test]
fn an_idle_session_leaves_memory_and_comes_back() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let setting = Setting { idle_evict_ms: 10, ..Setting::new(driver) };
        let gate = setting.with(state.path(), &engine);
        let made = create(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        assert_eq!(agent.ask(&made.key, &user("q")).status, 200);
        eventually("it is evicted", || total(&gate, |s| s.evictions) > 0);
        assert_eq!(block_on(gate.list()).unwrap(), []);
        assert_eq!(agent.ask(&made.key, &second()).status, 200);
        assert!(total(&gate, |s| s.reloads) > 0);
        let written = records(&gate.journal_path(&made.session_id));
        let Record::Turn(turn) = &written[2] else { panic!("{written:?}") };
        assert_eq!(turn.parent, Some(TurnIndex(0)), "it goes on where it was");
    });
}

fn check_restart(driver: DriverChoice, durability: Durability, torn: &[u8]) {
    let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
    let state = state_dir();
    let setting = Setting { durability, shards: 2, ..Setting::new(driver) };
    let gate = setting.with(state.path(), &engine);
    let made = create(&gate);
    assert_eq!(Agent::connect(gate.agents_addr()).ask(&made.key, &user("q")).status, 200);
    block_on(gate.drain());
    let path = gate.journal_path(&made.session_id);
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(torn).unwrap();
    let gate = Setting { shards: 3, ..setting }.with(state.path(), &engine);
    let mut agent = Agent::connect(gate.agents_addr());
    assert_eq!(agent.ask(&made.key, &second()).status, 200);
    assert_eq!(total(&gate, |s| s.torn_tails), u64::from(!torn.is_empty()));
    let written = records(&path);
    let Record::Turn(turn) = &written[2] else { panic!("{written:?}") };
    assert_eq!(turn.parent, Some(TurnIndex(0)));
}

#[test]
fn a_restarted_node_goes_on_with_another_number_of_shards() {
    on_both(|driver| check_restart(driver, Durability::Write, b""));
    on_both(|driver| check_restart(driver, Durability::Fsync, b""));
}

#[test]
fn a_torn_tail_is_cut_and_counted() {
    on_both(|driver| check_restart(driver, Durability::Write, b"RGJ1\xff\x00\x00\x00half a frame"));
    on_both(|driver| check_restart(driver, Durability::Write, b"R"));
}

#[test]
fn damage_in_the_middle_is_refused_and_kept() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        assert_eq!(Agent::connect(gate.agents_addr()).ask(&made.key, &user("q")).status, 200);
        block_on(gate.drain());
        let path = gate.journal_path(&made.session_id);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[20] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let reply = Agent::connect(gate.agents_addr()).ask(&made.key, &user("q"));
        assert_eq!(reply.status, 500);
        assert!(reply.body.contains("damaged"), "{}", reply.body);
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing is thrown away");
    });
}

#[test]
fn a_session_is_loaded_once_however_many_ask() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        block_on(gate.drain());
        let gate = Setting::new(driver).with(state.path(), &engine);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let (gate, key) = (&gate, &made.key);
                scope.spawn(move || {
                    let reply = Agent::connect(gate.agents_addr()).ask(key, &user("q"));
                    assert_eq!(reply.status, 200);
                });
            }
        });
        assert_eq!(total(&gate, |s| s.reloads), 1);
        assert_eq!(records(&gate.journal_path(&made.session_id)).len(), 9);
    });
}

#[test]
fn a_turn_that_cannot_be_recorded_is_not_answered() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("secret<|im_end|>"));
        let state = state_dir();
        let gate = Setting::new(driver).with(state.path(), &engine);
        let made = create(&gate);
        block_on(gate.drain());
        let gate = Setting::new(driver).with(state.path(), &engine);
        // In memory from here on, and no file to write to.
        block_on(gate.describe(&made.session_id)).unwrap();
        std::fs::remove_file(gate.journal_path(&made.session_id)).unwrap();
        let mut agent = Agent::connect(gate.agents_addr());
        let reply = agent.ask(&made.key, &user("q"));
        assert_eq!(reply.status, 500);
        assert!(reply.body.contains("journal_failed"), "{}", reply.body);
        assert!(!reply.body.contains("secret"), "{}", reply.body);
        assert_eq!(total(&gate, |s| s.journal_failures), 1);
        let after = agent.ask(&made.key, &user("q"));
        assert_eq!(after.status, 401, "memory holds no more than the journal");
    });
}

#[test]
fn two_nodes_never_share_a_state_directory() {
    let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
    let state = state_dir();
    let setting = Setting::new(DriverChoice::Epoll);
    let first = setting.with(state.path(), &engine);
    let refused = setting.try_start(state.path(), &[engine.addr]).err();
    let message = refused.map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("in use by another rollgate"), "{message:?}");
    block_on(first.drain());
    setting.with(state.path(), &engine);
}
