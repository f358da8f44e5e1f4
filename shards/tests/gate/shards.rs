//! Several shards behind one port; start and end.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use rollgate_pipeline::id::{SessionId, ShardCount};
use rollgate_pipeline::limits::HANDOVERS;
use rollgate_pipeline::record::Record;
use rollgate_shards::{CommandError, Created, Gate};

use crate::agent::{Agent, chat, user};
use crate::engine::{Act, Engine};
use crate::node::{
    Setting, block_on, create, eventually, model, on_both, records, state_dir, total,
};

fn owner(id: &SessionId) -> u16 {
    id.hash().bucket().owner(ShardCount(2)).0
}

/// A session of each of two shards.
fn one_each(gate: &Gate) -> [Created; 2] {
    let mut made: Vec<Created> = Vec::new();
    while made.len() < 2 {
        let new = create(gate);
        if owner(&new.session_id) as usize == made.len() {
            made.push(new);
        }
    }
    made.try_into().unwrap_or_else(|_| panic!("two were made"))
}

#[test]
fn a_connection_moves_to_the_shard_of_its_session() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting { shards: 2, ..Setting::new(driver) }.with(state.path(), &engine);
        let sessions = one_each(&gate);
        let body = "long ".repeat(4_000);
        for _ in 0..6 {
            let mut agent = Agent::connect(gate.agents_addr());
            for turn in 0..4 {
                let reply = agent.ask(&sessions[turn % 2].key, &user(&body));
                assert_eq!(reply.status, 200, "{reply:?}");
                if reply.closes() {
                    break;
                }
            }
        }
        let (out, taken) = (total(&gate, |s| s.handovers_out), total(&gate, |s| s.handovers_in));
        assert_eq!(out, taken);
        assert!(out >= 6 * 3, "every change of session is a move: {out}");
        for (shard, stats) in gate.stats().iter().enumerate() {
            assert!(stats.sessions >= 1, "shard {shard} has its session");
        }
    });
}

#[test]
fn pipelined_requests_move_along_and_a_wanderer_is_asked_to_close() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting { shards: 2, ..Setting::new(driver) }.with(state.path(), &engine);
        let sessions = one_each(&gate);
        let mut agent = Agent::connect(gate.agents_addr());
        let all: Vec<u8> =
            (0..8).flat_map(|turn| chat(&sessions[turn % 2].key, &user("q"), false)).collect();
        agent.send(&all);
        let mut answered = 0;
        loop {
            let reply = agent.reply();
            assert_eq!(reply.status, 200);
            answered += 1;
            if reply.closes() {
                break;
            }
        }
        let moves = total(&gate, |s| s.handovers_out);
        assert_eq!(moves, u64::from(HANDOVERS), "then it is asked to close");
        assert!(matches!(answered, 4 | 5), "{answered}");
    });
}

#[test]
fn exchanges_of_one_session_are_journalled_in_order() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("some words<|im_end|>"));
        let state = state_dir();
        let gate = Setting { shards: 2, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        std::thread::scope(|scope| {
            for agent in 0..8 {
                let (gate, key) = (&gate, &made.key);
                scope.spawn(move || {
                    let mut connection = Agent::connect(gate.agents_addr());
                    for turn in 0..5 {
                        let reply = connection.ask(key, &user(&format!("{agent} {turn}")));
                        assert_eq!(reply.status, 200);
                    }
                });
            }
        });
        let written = records(&gate.journal_path(&made.session_id));
        let turns: Vec<u32> = written
            .iter()
            .filter_map(|record| match record {
                Record::Turn(turn) => Some(turn.turn.0),
                _ => None,
            })
            .collect();
        assert_eq!(turns, (0..40).collect::<Vec<_>>());
    });
}

#[test]
fn a_drain_finishes_what_is_in_flight_and_then_nothing_listens() {
    on_both(|driver| {
        let late = Act::Late(Duration::from_millis(300), "x<|im_end|>");
        let engine = Engine::start(model(), move |_| late.clone());
        let state = state_dir();
        let gate = Setting { shards: 2, ..Setting::new(driver) }.with(state.path(), &engine);
        let made = create(&gate);
        let mut idle = Agent::connect(gate.agents_addr());
        let mut busy = Agent::connect(gate.agents_addr());
        busy.send(&chat(&made.key, &user("q"), false));
        eventually("the engine is asked", || !engine.calls().is_empty());
        let begun = Instant::now();
        block_on(gate.drain());
        assert!(begun.elapsed() < Duration::from_secs(5), "idle connections hold nothing up");
        assert_eq!(busy.reply().status, 200);
        assert!(idle.at_end());
        assert!(TcpStream::connect(gate.agents_addr()).is_err());
        let stopped = block_on(gate.describe(&made.session_id));
        assert!(matches!(stopped, Err(CommandError::Stopped)));
        assert_eq!(total(&gate, |s| s.connections), 0);
    });
}
