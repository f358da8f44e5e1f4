//! Long sessions stay linear: in what is held, and in what a turn costs.

use std::time::{Duration, Instant};

use super::play::{Play, call, calls, result, user};
use crate::turn::Message;

/// A session of so many turns, one tool result of so many bytes (tokens) each; how long each took.
#[expect(clippy::disallowed_methods, reason = "a test that measures")]
fn session(turns: usize, bytes: usize) -> (Play, Vec<Duration>) {
    let mut play = Play::sticky();
    let mut history = vec![user("q")];
    let mut times = Vec::new();
    for turn in 0..turns {
        let answer = calls("step", &[call(&format!("call_{turn}"), "{}")]);
        let path = play.path(&history);
        let record = play.prepare(&path, &history, answer.clone().into());
        let start = Instant::now();
        play.tree.resume(&path, &history, &play.model);
        play.tree.insert(&record).unwrap();
        times.push(start.elapsed());
        history.push(answer);
        let out = format!("{turn} {}", "x".repeat(bytes));
        history.push(result(&format!("call_{turn}"), &out));
    }
    (play, times)
}

fn total(times: &[Duration]) -> Duration {
    times.iter().sum()
}

#[test]
fn j11_three_thousand_turns_and_a_million_tokens_are_linear() {
    let turns = 3_000;
    let (play, times) = session(turns, 330);
    let last = crate::id::TurnIndex(turns as u32 - 1);
    let depth = play.tree.length_through(last) as usize;
    assert!(depth > 1_000_000, "{depth}");
    assert_eq!(play.tree.stored_ids(), depth, "each id once");
    assert_eq!(play.tree.leaves(), 1);
    assert_eq!(play.tree.ids_through(last).concat().len(), depth);
    // What a turn costs in the tree does not grow with its depth.
    let tenth = turns / 10;
    let (early, late) = (total(&times[tenth..2 * tenth]), total(&times[turns - tenth..]));
    assert!(late < early * 6, "early {early:?}, late {late:?}");
}

#[test]
fn a_thousand_siblings_of_one_prompt_are_held_once() {
    let mut play = Play::sticky();
    let prompt = [user(&"long ".repeat(200))];
    for turn in 0..1_000 {
        play.turn(&prompt, Message::text(crate::turn::Role::Assistant, format!("{turn}")));
    }
    let answers: usize = play.records.iter().map(|record| record.ids.len()).sum();
    let prompt = play.tree.prompt_ids(crate::id::TurnIndex(0)).concat().len();
    assert_eq!(play.tree.stored_ids(), prompt + answers);
}
