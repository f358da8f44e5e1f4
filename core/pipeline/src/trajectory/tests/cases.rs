//! Public fault reports about stitching trajectories, by id; and the cases that peers test by.
//!
//! J01 as we decide it: in faithful mode an answer without its thought joins only where the template
//! writes it as what was sampled; in sticky mode it joins, because the next prompt is made of the
//! sampled ids, whatever the agent's copy says, and the difference is counted. J10 likewise: sticky
//! joins a masked call (the engine keeps what it said), faithful branches.

use super::play::{Play, call, calls, result, said, system, thought, user};
use crate::id::TurnIndex;

fn parents(play: &Play, turns: &[TurnIndex]) -> Vec<Option<u32>> {
    turns.iter().map(|turn| play.tree.parent(*turn).map(|parent| parent.0)).collect()
}

#[test]
fn j01_an_answer_without_its_thought() {
    let request = [user("q"), said("A"), user("r")];
    for (keeps_reasoning, faithful) in [(true, None), (false, Some(0))] {
        for (mut play, expected) in [(Play::sticky(), Some(0)), (Play::faithful(), faithful)] {
            play.model.keeps_reasoning = keeps_reasoning;
            play.turn(&[user("q")], thought("r", said("A")));
            let two = play.turn(&request, "B");
            assert_eq!(parents(&play, &[two]), [expected]);
            play.check();
        }
    }
}

#[test]
fn j02_same_text_other_tokens() {
    // Sampled ids are no function of the text here: each answer begins with one of its turn's own.
    let mut play = Play::sticky();
    play.turn(&[user("q")], "Phantom");
    let two = play.turn(&[user("q"), said(" Phantom"), user("r")], "b");
    assert_eq!(parents(&play, &[two]), [Some(0)]);
    assert!(play.tree.prompt_ids(two).concat().contains(&50_000));
    play.check();
}

#[test]
fn j03_and_j04_four_turns_without_thoughts_are_one_segment() {
    let mut play = Play::sticky();
    let mut history = vec![user("q")];
    let mut turns = Vec::new();
    for turn in 0..4 {
        turns.push(play.turn(&history, thought("hm", said(&format!("a{turn}")))));
        history.extend([said(&format!("a{turn}")), user("go on")]);
    }
    assert_eq!(parents(&play, &turns), [None, Some(0), Some(1), Some(2)]);
    assert_eq!(play.tree.leaves(), 1);
    assert_eq!(play.records[3].context_diff_tokens, 6, "counted where it is missing");
    play.check();
}

#[test]
fn j05_a_subagent_in_between() {
    for mut play in [Play::sticky(), Play::faithful()] {
        let a = [system("main"), user("q"), said("A1"), user("r"), said("A2"), user("s")];
        let b = [system("sub"), user("q"), said("B1"), user("r")];
        let a1 = play.turn(&a[..2], "A1");
        let b1 = play.turn(&b[..2], "B1");
        let a2 = play.turn(&a[..4], "A2");
        let b2 = play.turn(&b, "B2");
        let a3 = play.turn(&a, "A3");
        assert_eq!(parents(&play, &[a1, b1, a2, b2, a3]), [None, None, Some(0), Some(1), Some(2)]);
        assert_eq!(play.tree.leaves(), 2);
        play.check();
    }
}

#[test]
fn j06_a_real_change_is_not_hidden() {
    let mut play = Play::sticky();
    play.turn(&[user("x")], "a");
    assert_eq!(play.resume(&[user("x "), said("a"), user("r")]).parent, Some(TurnIndex(0)));
    assert_eq!(play.resume(&[user("y"), said("a"), user("r")]).parent, None);
}

#[test]
fn j07_the_end_of_the_recorded_part_is_its_last_id() {
    // Texts that look like ends do not matter: where an answer ends is known by its turn.
    let mut play = Play::sticky();
    let one = play.turn(&[user("q")], "a <|im_end|> b");
    play.turn(&[user("q"), said("a <|im_end|> b"), user("<|im_end|>")], "c");
    assert_eq!(play.tree.tail(one).0, play.naive[0][1].last().copied());
    play.check();
}

#[test]
fn j08_a_turn_that_does_not_extend_the_one_before_begins_a_segment() {
    for mut play in [Play::sticky(), Play::faithful()] {
        let mut history = vec![user("q")];
        let mut turns = Vec::new();
        for turn in 0..10 {
            if turn == 6 {
                history[2] = user("rewritten by the agent, in other words");
            }
            turns.push(play.turn(&history, said(&format!("a{turn}"))));
            history.extend([said(&format!("a{turn}")), user(&format!("on {turn}"))]);
        }
        assert_eq!(play.tree.leaves(), 2);
        assert_eq!(parents(&play, &turns[6..8]), [Some(0), Some(6)]);
        play.check();
    }
}

#[test]
fn j10_a_mask_in_an_old_call() {
    let arguments = |key: &str| format!(r#"{{"c":"curl -H 'X: {key}'"}}"#);
    let answer = |key: &str| calls("", &[call("c1", &arguments(key))]);
    for (mut play, parent, leaves) in [(Play::sticky(), Some(0), 1), (Play::faithful(), None, 2)] {
        play.turn(&[user("q")], answer("abcd1234efgh5678"));
        let two = play.turn(&[user("q"), answer("***"), result("c1", "ok")], "b");
        assert_eq!(parents(&play, &[two]), [parent]);
        assert_eq!(play.tree.leaves(), leaves);
        play.check();
    }
}

#[test]
fn j12_the_same_body_twice() {
    for mut play in [Play::sticky(), Play::faithful()] {
        let one = play.turn(&[user("q")], "a");
        play.cut(one);
        let two = play.turn(&[user("q")], "b");
        let three = play.turn(&[user("q"), said("b"), user("r")], "c");
        assert_eq!(parents(&play, &[one, two, three]), [None, None, Some(1)]);
        let sent = [one, two].map(|turn| play.tree.prompt_ids(turn).concat());
        assert_eq!(sent[0], sent[1]);
        play.check();
    }
}

/// Histories as peers test them: which turn is continued, and how many samples there will be.
#[test]
fn peers_histories() {
    for mut play in [Play::sticky(), Play::faithful()] {
        let base = [system("S"), user("U")];
        let more = |tail: &[crate::turn::Message]| [&base[..], tail].concat();
        let one = play.turn(&base, "A1");
        let again = play.turn(&base, "A2");
        let x = play.turn(&more(&[said("A1"), result("t", "x")]), "Ax");
        let y = play.turn(&more(&[said("A1"), result("t", "y")]), "Ay");
        let two = play.turn(&more(&[said("A2"), result("t", "a"), result("u", "b")]), "B");
        let foreign = play
            .turn(&more(&[said("A1"), result("t", "x"), said("Ax"), said("F"), user("z")]), "C");
        let other = play.turn(&[system("T"), user("U")], "A1");
        let turns = [one, again, x, y, two, foreign, other];
        assert_eq!(parents(&play, &turns), [None, None, Some(0), Some(0), Some(1), Some(2), None]);
        assert_eq!(play.tree.leaves(), 4);
        // An answer that comes back with other white space is the same answer: nothing of it is lost.
        let spaced = play.turn(&more(&[said("A2 "), result("t", "a"), result("u", "b")]), "D");
        assert_eq!(play.tree.parent(spaced), Some(again));
        play.check();
    }
}
