//! Several engines: affinity, health, room and queue.

use std::collections::HashMap;
use std::net::TcpListener;
use std::time::Duration;

use rollgate_pipeline::limits::Limits;
use rollgate_pipeline::record::Record;
use rollgate_shards::{Created, DriverChoice, Gate, NotReady};
use serde_json::json;

use crate::agent::{Agent, chat, user};
use crate::engine::{Act, Engine, wait};
use crate::node::{Setting, create, eventually, model, on_both, records, state_dir, total};

/// Looks at health routes often.
fn watchful(driver: DriverChoice) -> Setting {
    let limits = Limits { engine_health_ms: 20, ..Limits::default() };
    Setting { limits, ..Setting::new(driver) }
}

fn ask(gate: &Gate, made: &Created) -> u16 {
    Agent::connect(gate.agents_addr()).ask(&made.key, &user("q")).status
}

fn state_of(gate: &Gate, engine: usize) -> &'static str {
    gate.engines()[engine].state
}

/// Which engine each session's last call went to.
fn homes(engines: &[Engine], since: &[usize]) -> HashMap<String, usize> {
    let mut homes = HashMap::new();
    for (at, engine) in engines.iter().enumerate() {
        for call in engine.calls().into_iter().skip(since[at]) {
            assert_eq!(homes.insert(call.routing_key, at), None, "one call each");
        }
    }
    homes
}

#[test]
fn a_session_stays_with_its_engine_and_comes_back_to_it() {
    on_both(|driver| {
        let say = |_| Act::Say("x<|im_end|>");
        let engines = [0; 3].map(|_| Engine::start(model(), say));
        let state = state_dir();
        let gate = watchful(driver).start(state.path(), &engines.each_ref().map(|e| e.addr));
        eventually("all are well", || gate.engines().iter().all(|e| e.state == "healthy"));
        let sessions: Vec<_> = (0..24).map(|_| create(&gate)).collect();
        let round = || {
            let since = engines.each_ref().map(|engine| engine.calls().len());
            sessions.iter().for_each(|made| assert_eq!(ask(&gate, made), 200));
            homes(&engines, &since)
        };
        let first = round();
        assert_eq!(round(), first, "each session stays");
        assert!((0..3).all(|at| first.values().any(|home| *home == at)), "all have some");
        engines[1].health(503);
        eventually("it drains", || state_of(&gate, 1) == "draining");
        let without = round();
        for (session, home) in &first {
            let now = without[session];
            assert!(now != 1 && (now == *home || *home == 1), "a session moved without need");
        }
        engines[1].health(200);
        eventually("it is back", || state_of(&gate, 1) == "healthy");
        assert_eq!(round(), first, "its sessions came back, and no others");
    });
}

#[test]
fn an_engine_that_dies_is_down_and_one_that_comes_back_is_used() {
    on_both(|driver| {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap();
        drop(socket);
        let state = state_dir();
        let gate = watchful(driver).start(state.path(), &[addr]);
        eventually("it is down", || state_of(&gate, 0) == "down");
        let unready = gate.unready();
        assert!(matches!(&unready[..], [NotReady::Engines(_)]), "{unready:?}");
        assert!(unready[0].to_string().contains(&format!("{addr} is down")), "{}", unready[0]);
        let made = create(&gate);
        assert_eq!(ask(&gate, &made), 502, "where there is no other, it is tried all the same");
        let engine =
            Engine::on(TcpListener::bind(addr).unwrap(), model(), |_| Act::Say("x<|im_end|>"));
        eventually("it is seen", || state_of(&gate, 0) == "healthy");
        assert_eq!(gate.unready(), []);
        assert_eq!(ask(&gate, &made), 200);
        assert_eq!(engine.calls().len(), 1);
        assert_eq!(gate.engines()[0].changes, 2);
    });
}

/// Its health route says that all is well; its calls do not.
#[test]
fn an_engine_whose_calls_fail_is_passed_over() {
    on_both(|driver| {
        let ill = Engine::start(model(), |_| Act::status("500 Error", "", "x"));
        let well = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = watchful(driver).start(state.path(), &[ill.addr, well.addr]);
        for _ in 0..32 {
            assert_eq!(ask(&gate, &create(&gate)), 200);
        }
        // Three strikes, and perhaps a trial or two.
        let asked = ill.calls().len();
        assert!((3..8).contains(&asked), "{asked}");
        assert!(matches!(state_of(&gate, 0), "degraded" | "down"));
        assert_eq!(gate.unready(), [], "one engine is enough");
    });
}

/// One session with many calls and one with one, at an engine that takes one at a time.
#[test]
fn room_is_shared_fairly_and_waits_are_told() {
    on_both(|driver| {
        let engine = Engine::start(model(), |call| match call {
            0 => Act::Hold("x<|im_end|>"),
            _ => Act::Say("x<|im_end|>"),
        });
        let state = state_dir();
        let url = format!("http://{}", engine.addr);
        let gate = Setting::new(driver).at(state.path(), &[(url, 1)]);
        let (greedy, modest) = (create(&gate), create(&gate));
        let mut agents: Vec<Agent> = Vec::new();
        for n in 0..6 {
            let mut agent = Agent::connect(gate.agents_addr());
            agent.send(&chat(&greedy.key, &user(&format!("q{n}")), false));
            agents.push(agent);
            eventually("it waits", || {
                total(&gate, |s| s.engine_queue) == n && engine.calls().len() == 1
            });
        }
        let mut late = Agent::connect(gate.agents_addr());
        late.send(&chat(&modest.key, &user("q"), false));
        eventually("the other one waits", || total(&gate, |s| s.engine_queue) == 6);
        wait(Duration::from_millis(30));
        engine.release();
        assert_eq!(late.reply().status, 200);
        agents.iter_mut().for_each(|agent| assert_eq!(agent.reply().status, 200));
        let keys: Vec<_> = engine.calls().into_iter().map(|call| call.routing_key).collect();
        let at = keys.iter().position(|key| *key == modest.session_id.to_string());
        assert!(at <= Some(2), "it waited for more than one of the other's calls: {at:?}");
        assert_eq!(total(&gate, |s| s.engine_waits), 6);
        assert!(total(&gate, |s| s.engine_wait_ms) >= 30 * 6);
        assert!(total(&gate, |s| s.engine_wait_longest_ms) >= 30);
        assert_eq!(total(&gate, |s| s.engine_queue), 0);
        let turns = records(&gate.journal_path(&modest.session_id));
        let waited = turns.iter().find_map(|record| match record {
            Record::Turn(turn) => Some(turn.times.queue_ms),
            _ => None,
        });
        assert!(waited >= Some(30), "{waited:?}");
    });
}

#[test]
fn a_full_queue_is_a_503_with_retry_after_and_who_leaves_makes_room() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Hold("x<|im_end|>"));
        let state = state_dir();
        let limits = Limits { engine_queue: 1, ..Limits::default() };
        let setting = Setting { limits, orphan_grace_ms: 50, ..Setting::new(driver) };
        let gate = setting.at(state.path(), &[(format!("http://{}", engine.addr), 1)]);
        let made = create(&gate);
        let send = |text: &str| {
            let mut agent = Agent::connect(gate.agents_addr());
            agent.send(&chat(&made.key, &user(text), false));
            agent
        };
        let mut first = send("a");
        eventually("one is in flight", || engine.calls().len() == 1);
        let second = send("b");
        eventually("one waits", || total(&gate, |s| s.engine_queue) == 1);
        let refused = send("c").reply();
        assert_eq!(refused.status, 503, "{refused:?}");
        assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
        assert!(refused.body.contains("limits.engine_queue"), "{}", refused.body);
        assert_eq!(total(&gate, |s| s.engine_queue_full), 1);
        drop(second);
        eventually("nobody waits", || total(&gate, |s| s.engine_queue) == 0);
        engine.release();
        assert_eq!(first.reply().status, 200);
        assert_eq!(send("d").reply().status, 200);
        assert_eq!(engine.calls().len(), 2, "who left was not asked for");
        assert!(gate.engines()[0].shards.iter().all(|shard| shard.in_flight == 0));
    });
}

#[test]
fn an_engine_keeps_its_bound_over_all_shards() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Hold("x<|im_end|>"));
        let state = state_dir();
        let setting = Setting { shards: 2, ..Setting::new(driver) };
        let gate = setting.at(state.path(), &[(format!("http://{}", engine.addr), 3)]);
        let mut agents: Vec<Agent> = Vec::new();
        for _ in 0..24 {
            let made = create(&gate);
            let mut agent = Agent::connect(gate.agents_addr());
            agent.send(&chat(&made.key, &user("q"), false));
            agents.push(agent);
        }
        eventually("the rest waits", || total(&gate, |s| s.engine_queue) == 21);
        assert_eq!(engine.calls().len(), 3, "all of its room, and no more");
        engine.release();
        agents.iter_mut().for_each(|agent| assert_eq!(agent.reply().status, 200));
    });
    let state = state_dir();
    let setting = Setting { shards: 2, ..Setting::new(DriverChoice::Epoll) };
    let error = setting.try_at(state.path(), &[("http://127.0.0.1:1".to_owned(), 1)]).err();
    assert!(error.unwrap().to_string().contains("max_in_flight"));
}

#[test]
fn a_node_that_drains_or_whose_disk_is_full_is_not_ready() {
    let engine = Engine::start(model(), |_| Act::Hold("x<|im_end|>"));
    let state = state_dir();
    let gate = watchful(DriverChoice::Epoll).with(state.path(), &engine);
    eventually("it is ready", || gate.unready().is_empty());
    let made = create(&gate);
    let mut agent = Agent::connect(gate.agents_addr());
    agent.send(&chat(&made.key, &user("q"), false));
    eventually("the engine is asked", || !engine.calls().is_empty());
    // What stands where the file is to be written is as good as a disk that takes nothing.
    std::fs::remove_file(state.path().join("ready")).unwrap();
    std::fs::create_dir(state.path().join("ready")).unwrap();
    let codes = |gate: &Gate| gate.unready().iter().map(NotReady::code).collect::<Vec<_>>();
    assert_eq!(codes(&gate), ["disk"]);
    std::fs::remove_dir(state.path().join("ready")).unwrap();
    let draining = gate.clone();
    let drain = std::thread::spawn(move || crate::node::block_on(draining.drain()));
    eventually("it drains", || codes(&gate).contains(&"draining"));
    engine.release();
    assert_eq!(agent.reply().status, 200);
    drain.join().unwrap();
    assert!(codes(&gate).contains(&"shards"));
}

/// What an engine says of its model is compared with what the node was started for, once it is well.
#[test]
fn an_engine_is_asked_for_its_model_when_it_comes() {
    let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
    engine.models(&json!({"data": [{"id": "m", "max_model_len": 5}]}));
    let state = state_dir();
    let gate = watchful(DriverChoice::Epoll).with(state.path(), &engine);
    eventually("its models were asked for", || engine.told("/v1/models") == 1);
    assert_eq!(state_of(&gate, 0), "healthy", "it is told in the log, not held against it");
    eventually("its health is looked at again", || engine.told("/health") > 3);
    assert_eq!(engine.told("/v1/models"), 1, "once");
}
