//! Connections that move between shards, with whatever was sent ahead, however it was cut.

use rollgate_pipeline::id::ShardCount;
use rollgate_shards::Created;

use crate::agent::{Agent, chat, user};
use crate::engine::{Act, Engine};
use crate::node::{Setting, block_on, create, model, on_both, state_dir, total};

/// Numbers that only look random; the case's number is the seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

#[test]
fn requests_cut_anywhere_reach_their_sessions_in_order_across_shards() {
    on_both(|driver| {
        let engine = Engine::start(model(), |_| Act::Say("x<|im_end|>"));
        let state = state_dir();
        let gate = Setting { shards: 2, ..Setting::new(driver) }.with(state.path(), &engine);
        let made: Vec<Created> = (0..4).map(|_| create(&gate)).collect();
        let owners: Vec<u16> = made
            .iter()
            .map(|made| made.session_id.hash().bucket().owner(ShardCount(2)).0)
            .collect();
        let mut turns = vec![0; made.len()];
        for case in 0..25 {
            let mut dice = Dice(case);
            let picks: Vec<usize> = (0..7).map(|_| dice.below(made.len())).collect();
            let requests: Vec<Vec<u8>> = picks
                .iter()
                .enumerate()
                .map(|(at, pick)| {
                    let text =
                        format!("case {case} request {at} {}", "y".repeat(dice.below(3_000)));
                    chat(&made[*pick].key, &user(&text), dice.below(2) == 0)
                })
                .collect();
            let mut next = 0;
            while next < requests.len() {
                let mut agent = Agent::connect(gate.agents_addr());
                let all = requests[next..].concat();
                let mut left = &all[..];
                while !left.is_empty() {
                    let (piece, rest) = left.split_at((dice.below(2_000) + 1).min(left.len()));
                    // It may have been asked to come back on another connection.
                    if std::io::Write::write_all(&mut agent.stream, piece).is_err() {
                        break;
                    }
                    left = rest;
                }
                while next < requests.len() {
                    let reply = agent.reply();
                    assert_eq!((reply.status, reply.text().as_str()), (200, "x"), "case {case}");
                    turns[picks[next]] += 1;
                    next += 1;
                    if reply.closes() {
                        break;
                    }
                }
            }
        }
        for (made, turns) in made.iter().zip(&turns) {
            assert_eq!(block_on(gate.describe(&made.session_id)).unwrap().turns, *turns);
        }
        let both = owners.contains(&0) && owners.contains(&1);
        assert!(!both || total(&gate, |s| s.handovers_out) > 0, "{owners:?}");
    });
}
