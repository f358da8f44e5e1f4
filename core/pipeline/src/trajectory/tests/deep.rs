//! Long sessions stay linear: in what is held, and in what a turn costs.

use std::ops::Range;

use super::play::{Play, call, calls, result, user};
use crate::id::TurnIndex;
use crate::record::tests::turn_record;
use crate::trajectory::work::Spent;
use crate::turn::{Message, Role};

/// What a session is at its end.
struct Long {
    play: Play,
    /// What the turns cost that were asked for, in order.
    spent: Vec<Spent>,
}

/// A session of so many turns, one tool result of so many tokens each. Turns that are not measured
/// are taken over as records, as at a load.
fn session(turns: u32, bytes: usize, measured: &[Range<u32>]) -> Long {
    let mut play = Play::sticky();
    let (mut history, mut spent) = (vec![user("q")], Vec::new());
    for turn in 0..turns {
        let answer = calls("step", &[call(&format!("call_{turn}"), "{}")]);
        if measured.iter().any(|range| range.contains(&turn)) {
            let path = play.path(&history);
            let record = play.prepare(&path, &history, answer.clone().into());
            assert_eq!(record.parent, turn.checked_sub(1).map(TurnIndex));
            spent.push(play.tree.spent());
            play.tree.insert(&record).unwrap();
        } else {
            let mut record = turn_record(TurnIndex(turn));
            record.parent = turn.checked_sub(1).map(TurnIndex);
            record.root = play.path(&history[..1]).root;
            record.messages = history.last().cloned().into_iter().collect();
            record.stretch = vec![turn; bytes];
            record.reply = answer.clone().into();
            play.tree.insert(&record).unwrap();
        }
        history.push(answer);
        history.push(result(&format!("call_{turn}"), &format!("{turn} {}", "x".repeat(bytes))));
    }
    Long { play, spent }
}

#[test]
fn j11_three_thousand_turns_and_a_million_tokens_are_linear() {
    let (turns, window) = (3_000, 20);
    let measured = [300..300 + window, turns - window..turns];
    let Long { play, spent } = session(turns, 340, &measured);
    let last = TurnIndex(turns - 1);
    let depth = play.tree.length_through(last) as usize;
    assert!(depth > 1_000_000, "{depth}");
    assert_eq!(play.tree.stored_ids(), depth, "each id once");
    assert_eq!(play.tree.leaves(), 1);
    assert_eq!(play.tree.ids_through(last).concat().len(), depth);
    // What a turn costs in the tree does not grow with its depth: behind the first measured turn of a
    // row, which reads what was loaded, an answer and its result are new.
    for row in spent.chunks(window as usize) {
        for spent in &row[1..] {
            assert_eq!(*spent, Spent { threaded: 3, stands: 1, pairs: 2, ..Spent::default() });
        }
    }
}

#[test]
fn a_thousand_siblings_of_one_prompt_are_held_once() {
    let mut play = Play::sticky();
    let prompt = [user(&"long ".repeat(200))];
    for turn in 0..1_000 {
        play.turn(&prompt, Message::text(Role::Assistant, format!("{turn}")));
    }
    let answers: usize = play.records.iter().map(|record| record.ids.len()).sum();
    let prompt = play.tree.prompt_ids(TurnIndex(0)).concat().len();
    assert_eq!(play.tree.stored_ids(), prompt + answers);
}
