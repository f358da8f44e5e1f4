//! Which turn a request continues.

use super::play::{Play, call, calls, result, said, system, thought, user};
use crate::id::TurnIndex;
use crate::trajectory::{Trajectory, TreeError};
use crate::turn::{Message, Role};

/// Texts that alternate user and assistant.
fn texts(texts: &[&str]) -> Vec<Message> {
    let role = |at: usize| if at.is_multiple_of(2) { Role::User } else { Role::Assistant };
    texts.iter().enumerate().map(|(at, text)| Message::text(role(at), *text)).collect()
}

#[test]
fn a_longer_request_extends_its_answer() {
    for mut play in [Play::sticky(), Play::faithful()] {
        let first = play.turn(&texts(&["q"]), "a");
        let resume = play.resume(&texts(&["q", "a", "r"]));
        assert_eq!((resume.parent, resume.matched, resume.same_prompt), (Some(first), 2, None));
        assert_eq!((resume.joined, resume.rules, resume.context_diff_tokens), (None, vec![], 0));
        let second = play.turn(&texts(&["q", "a", "r"]), "b");
        assert_eq!(play.tree.parent(second), Some(first));
        assert_eq!(play.tree.leaves(), 1);
        play.check();
    }
}

#[test]
fn the_same_request_again_has_the_same_prompt() {
    let mut play = Play::sticky();
    let first = play.turn(&texts(&["q"]), "a");
    assert_eq!(play.resume(&texts(&["q"])).same_prompt, Some(first));
    let second = play.turn(&texts(&["q", "a", "r"]), "b");
    let again = play.resume(&texts(&["q", "a", "r"]));
    assert_eq!((again.parent, again.same_prompt), (Some(first), Some(second)));
    play.turn(&texts(&["q", "a", "r"]), "c");
    assert_eq!(play.tree.leaves(), 2);
}

#[test]
fn a_match_inside_a_stretch_falls_back_to_the_answer_before() {
    let mut play = Play::sticky();
    let first = play.turn(&texts(&["q"]), "a");
    play.turn(&texts(&["q", "a", "r"]), "b");
    let resume = play.resume(&texts(&["q", "a", "r", "not what was sampled", "s"]));
    assert_eq!((resume.parent, resume.matched), (Some(first), 2));
    let resume = play.resume(&texts(&["other"]));
    assert_eq!((resume.parent, resume.matched), (None, 0));
}

#[test]
fn equal_answers_are_continued_apart() {
    let mut play = Play::sticky();
    let (a, b) = (play.turn(&texts(&["q"]), "a"), play.turn(&texts(&["q"]), "a"));
    let one = play.turn(&texts(&["q", "a", "r"]), "x");
    let two = play.turn(&texts(&["q", "a", "r"]), "y");
    assert_eq!((play.tree.parent(one), play.tree.parent(two)), (Some(b), Some(a)));
}

#[test]
fn of_equal_answers_the_echoed_one_is_continued() {
    let mut play = Play::sticky();
    let answer = |id: &str| calls("", &[call(id, "{}")]);
    for id in ["call_0", "call_1"] {
        play.turn(&[user("q")], answer(id));
    }
    for (turn, id) in [(0, "call0"), (1, "call_1")] {
        let resume = play.resume(&[user("q"), answer(id), result(id, "r")]);
        assert_eq!((resume.parent, resume.matched), (Some(TurnIndex(turn)), 2));
    }
}

#[test]
fn an_empty_answer_can_be_asked_again_and_continued() {
    let mut play = Play::sticky();
    let silent = play.turn(&[user("q")], "");
    assert_eq!(play.resume(&[user("q")]).same_prompt, Some(silent));
    assert_eq!(play.resume(&[user("q")]).parent, None);
    assert_eq!(play.resume(&[user("q"), said(""), user("r")]).parent, Some(silent));
    assert_eq!(play.resume(&[user("q"), user("r")]).parent, Some(silent));
}

#[test]
fn an_empty_answer_that_was_rejected_is_not_continued_unseen() {
    let mut play = Play::sticky();
    let silent = play.turn(&[user("q")], "");
    play.turn(&[user("q")], "a");
    assert_eq!(play.resume(&[user("q"), user("r")]).parent, None);
    assert_eq!(play.resume(&[user("q"), said("b"), user("r")]).parent, None);
    assert_eq!(play.resume(&[user("q"), said(""), user("r")]).parent, Some(silent));
    let mut play = Play::sticky();
    let silent = play.turn(&[user("q")], "");
    play.cut(silent);
    assert_eq!(play.resume(&[user("q"), user("r")]).parent, None);
}

#[test]
fn a_silent_answer_does_not_stand_between_results() {
    let mut play = Play::sticky();
    let silent = play.turn(&[user("q"), result("0", "0")], "");
    let next = [user("q"), result("0", "0"), result("1", "1")];
    assert_eq!(play.resume(&next).parent, None);
    let next = [user("q"), result("0", "0"), user("r")];
    assert_eq!(play.resume(&next).parent, Some(silent));
}

#[test]
fn a_request_that_ends_in_an_answer_can_be_asked_again() {
    let mut play = Play::sticky();
    let first = play.turn(&texts(&["q"]), "a");
    let second = play.turn(&texts(&["q", "a"]), "b");
    assert_eq!(play.tree.parent(second), Some(first));
    let again = play.resume(&texts(&["q", "a"]));
    assert_eq!((again.parent, again.same_prompt), (Some(first), Some(second)));
}

#[test]
fn an_answer_behind_a_begun_one_is_found_joined_or_apart() {
    let mut play = Play::sticky();
    let begun = play.turn(&[user("q"), said("Sure:")], " ok");
    for back in [vec![said("Sure:"), said(" ok")], vec![said("Sure: ok")]] {
        let request = [vec![user("q")], back, vec![user("r")]].concat();
        assert_eq!(play.resume(&request).parent, Some(begun), "{request:?}");
    }
    let sampled = play.turn(&[user("p")], "one");
    let more = play.turn(&[user("p"), said("one")], " two");
    assert_eq!(play.tree.parent(more), Some(sampled));
    for back in [vec![said("one"), said(" two")], vec![said("one two")]] {
        let request = [vec![user("p")], back, vec![user("r")]].concat();
        assert_eq!(play.resume(&request).parent, Some(more), "{request:?}");
        let joined = play.resume(&request).joined;
        assert_eq!(joined, None);
    }
}

/// The agent shows the answer's text on both sides of its call: that is not what was recorded.
#[test]
fn a16_an_answer_in_another_order_is_not_the_recorded_one() {
    for mut play in [Play::sticky(), Play::faithful()] {
        let sampled = play.turn(&[user("q")], calls("A\nB", &[call("1", "{}")]));
        let split = [user("q"), calls("A", &[call("1", "{}")]), said("B"), result("1", "r")];
        assert_eq!(play.resume(&split).parent, None);
        let whole = [user("q"), calls("A\nB", &[call("1", "{}")]), result("1", "r")];
        assert_eq!(play.resume(&whole).parent, Some(sampled));
        // What was sampled is gone on from where the rest was never sampled.
        let first = play.turn(&[user("p")], calls("A", &[call("1", "{}")]));
        let more = [user("p"), calls("A", &[call("1", "{}")]), said("B"), result("1", "r")];
        let resume = play.resume(&more);
        assert_eq!((resume.parent, resume.matched), (Some(first), 2));
    }
}

#[test]
fn in_faithful_mode_an_answer_behind_a_begun_one_is_found_apart() {
    let mut play = Play::faithful();
    let begun = play.turn(&[user("q"), said("Sure:")], " ok");
    let request = [user("q"), said("Sure:"), said(" ok"), user("r")];
    assert_eq!(play.resume(&request).parent, Some(begun));
    assert_eq!(play.resume(&[user("q"), said("Sure: ok"), user("r")]).parent, None);
}

#[test]
fn records_that_do_not_fit_are_refused() {
    let mut tree = Trajectory::default();
    let mut record = crate::record::tests::turn_record(TurnIndex(1));
    assert!(matches!(tree.insert(&record), Err(TreeError::OutOfOrder { found: 1, expected: 0 })));
    record.turn = TurnIndex(0);
    record.parent = Some(TurnIndex(0));
    assert!(matches!(tree.insert(&record), Err(TreeError::NoParent(0))));
}

#[test]
fn a_prompt_with_another_overlay_is_another_prompt() {
    let mut play = Play::of(crate::record::HistoryMode::Sticky, "claude-code");
    let shown = |text: &str| user(&format!("<system-reminder>{text}</system-reminder>"));
    let first = play.turn(&[user("q"), shown("one")], "a");
    assert_eq!(play.resume(&[user("q"), shown("one")]).same_prompt, Some(first));
    let other = [user("q"), shown("two")];
    assert_eq!(play.resume(&other).same_prompt, None);
    let second = play.turn(&other, "b");
    let prompts = [first, second].map(|turn| play.tree.prompt_ids(turn).concat());
    assert_ne!(prompts[0], prompts[1], "the model is shown what was sent");
    play.reload();
    assert_eq!(play.resume(&other).same_prompt, Some(second));
    // Its overlay gone, the prompt is still the one that was answered.
    assert_eq!(play.resume(&[user("q"), said("b"), user("r")]).parent, Some(second));
}

#[test]
fn the_walk_goes_on_through_siblings_to_the_deepest_point() {
    let mut play = Play::sticky();
    let secret = |mask: &str, text: &str| {
        [user("q"), said("a"), result("1", &format!("key={mask};")), said(text), user("r")]
    };
    play.turn(&[user("q")], "a");
    for text in ["b", "c"] {
        let request = secret("sk-12345678abcd", text);
        play.turn(&request[..3], text);
        play.turn(&request, "d");
    }
    let request = [secret("***", "b").to_vec(), vec![said("d"), user("s")]].concat();
    let resume = play.resume(&request);
    assert_eq!((resume.parent, resume.matched), (Some(TurnIndex(2)), 6));
    assert_eq!(resume.rules, ["masked"]);
    // Its own copy is remembered: by digests alone from then on, and after a load.
    let five = play.turn(&request, "e");
    let longer = [request, vec![said("e"), user("t")]].concat();
    for _ in 0..2 {
        let resume = play.resume(&longer);
        assert_eq!((resume.parent, resume.rules.as_slice()), (Some(five), &["masked".into()][..]));
        play.reload();
    }
}

#[test]
fn runs_of_foreign_messages_behind_a_masked_secret_are_walked_once() {
    let mut play = Play::sticky();
    let mut history = vec![user("q"), result("1", "key=sk-12345678abcd;")];
    for turn in 0..30 {
        let own = 2 + turn % 2;
        history.extend((0..own).map(|at| said(&format!("foreign {turn} {at}"))));
        history.push(user("go on"));
    }
    play.turn(&history, "a");
    history[1].content = "key=***;".into();
    history.extend([said("a"), user("r")]);
    let resume = play.resume(&history);
    assert_eq!((resume.parent, resume.rules), (Some(TurnIndex(0)), vec!["masked".to_owned()]));
    let spent = play.tree.spent();
    assert!(spent.stands <= history.len(), "{spent:?} of {}", history.len());
    // One run of many: each part of it is one place.
    let mut play = Play::sticky();
    let run = (0..40).map(|at| said(&format!("foreign {at}")));
    let mut history = vec![user("q"), result("1", "key=sk-12345678abcd;")];
    history.extend(run.chain([user("go on")]));
    play.turn(&history, "a");
    history[1].content = "key=***;".into();
    history.extend([said("a"), user("r")]);
    assert_eq!(play.resume(&history).parent, Some(TurnIndex(0)));
    let spent = play.tree.spent();
    assert!(spent.stands <= history.len(), "{spent:?} of {}", history.len());
}

#[test]
fn a_walk_that_costs_too_much_ends() {
    let mut play = Play::sticky();
    let masked = |text: &str| vec![user("q"), result("1", &format!("key={text};"))];
    for turn in 0..1_100 {
        play.turn(&masked(&format!("sk-12345678abcd{turn}")), "a");
    }
    let request = [masked("***"), vec![said("a"), user("r")]].concat();
    assert_eq!(play.resume(&request).parent, Some(TurnIndex(1_099)), "newest first");
    let (spent, most) = (play.tree.spent(), crate::limits::WALK_COMPARISONS);
    assert_eq!(spent.comparisons, most);
    assert!(spent.stands <= most + request.len(), "{spent:?}");
}

#[test]
fn in_faithful_mode_a_message_is_rendered_once_for_each_answer() {
    let mut play = Play::faithful();
    for turn in 0..50 {
        play.turn(&[user("q")], thought(&format!("{turn}"), said(&format!("a{turn}"))));
    }
    let resume = play.resume(&[user("q"), said("a7"), user("r")]);
    assert_eq!((resume.parent, resume.rules), (Some(TurnIndex(7)), vec!["reads-as".to_owned()]));
    assert!(play.tree.spent().reads <= 50, "{:?}", play.tree.spent());
    let mut play = Play::faithful();
    for turn in 0..1_500 {
        play.turn(&[user("q")], thought(&format!("{turn}"), said("a")));
    }
    play.resume(&[user("q"), said("b"), user("r")]);
    let reads = play.tree.spent().reads;
    assert!(reads > 0 && reads <= crate::limits::WALK_COMPARISONS, "{reads}");
}

#[test]
fn a_prompt_that_only_means_the_same_is_rendered_anew() {
    let mut play = Play::sticky();
    let first = play.turn(&[system("Today's date: 2026-11-28"), user("q\r\nr")], "a");
    assert_eq!(
        play.resume(&[system("Today's date: 2026-11-28"), user("q\r\nr")]).same_prompt,
        Some(first)
    );
    for other in [
        [system("Today's date: 2026-11-29"), user("q\r\nr")],
        [system("Today's date: 2026-11-28"), user("q\nr")],
    ] {
        assert_eq!(play.resume(&other).same_prompt, None, "{other:?}");
        let turn = play.turn(&other, "b");
        assert_eq!(play.resume(&other).same_prompt, Some(turn));
    }
    let next = |text: &str| {
        [system("Today's date: 2026-11-28"), user("q\r\nr"), said("a"), result("1", text)]
    };
    let second = play.turn(&next("key=1  "), "c");
    assert_eq!(play.resume(&next("key=1  ")).same_prompt, Some(second));
    assert_eq!(play.resume(&next("key=1")).same_prompt, None);
    play.reload();
    assert_eq!(play.resume(&next("key=1  ")).same_prompt, Some(second));
    assert_eq!(play.resume(&next("key=1")).same_prompt, None);
}

#[test]
fn instructions_that_lost_much_are_another_tree() {
    let rule: crate::rules::Rule = serde_json::from_str(
        r#"{"name": "any-notes", "action": "same", "place": "system", "pattern": "(?s)<n>.*</n>"}"#,
    )
    .unwrap();
    let mut play = Play::sticky();
    play.rules = crate::rules::RuleSet::for_session(None, &[], &[rule]).unwrap();
    let ask = |notes: &str| vec![system(&format!("<n>{notes}</n>")), user("q")];
    let behind = |notes: &str| [ask(notes), vec![said("a"), user("r")]].concat();
    let long = "long ".repeat(20);
    let first = play.turn(&ask(&long), "a");
    assert_eq!(play.resume(&behind(&"else ".repeat(20))).parent, Some(first));
    assert_eq!(play.resume(&behind("short")).parent, None);
    // Behind a turn of its own, the short one goes on; and the long one where it was.
    let second = play.turn(&ask("short"), "a");
    for _ in 0..2 {
        assert_eq!(play.resume(&behind("short")).parent, Some(second));
        assert_eq!(play.resume(&behind(&long)).parent, Some(first));
        play.reload();
    }
}

#[test]
fn what_is_known_of_copies_is_bounded() {
    let mut play = Play::sticky();
    play.turn(&[user("q")], "a");
    for at in 0..crate::limits::KNOWN_COPIES + 10 {
        let copy = [user(&format!("q{}", " ".repeat(at + 1))), said("a"), user("r")];
        assert_eq!(play.resume(&copy).parent, Some(TurnIndex(0)));
        assert!(play.tree.known() <= crate::limits::KNOWN_COPIES);
    }
}
