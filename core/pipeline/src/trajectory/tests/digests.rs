//! What counts, and what does not.

use super::play::{call, calls, result, said, system, thought, user};
use crate::record::HistoryMode;
use crate::rules::RuleSet;
use crate::trajectory::{Digest, Habits, Path, Root, answer_digest};
use crate::turn::Message;

fn path(mode: HistoryMode, rules: &RuleSet, messages: &[Message]) -> Path {
    let kwargs = serde_json::Map::new();
    let root = Root { model: "m", tools: &[], template_kwargs: &kwargs };
    Path::new(root, messages, Habits { mode, rules })
}

fn chain(mode: HistoryMode, messages: &[Message]) -> Digest {
    let path = path(mode, &RuleSet::for_session(None, &[], &[]).unwrap(), messages);
    path.chain(path.elements.len())
}

fn same(left: &[Message], right: &[Message]) {
    let sticky = HistoryMode::Sticky;
    assert_eq!(chain(sticky, left), chain(sticky, right), "{left:?}\n{right:?}");
}

fn differ(left: &[Message], right: &[Message]) {
    for mode in [HistoryMode::Sticky, HistoryMode::Faithful] {
        assert_ne!(chain(mode, left), chain(mode, right), "{left:?}\n{right:?}");
    }
}

/// Equal by meaning, not as they are.
fn same_loosely(left: &[Message], right: &[Message]) {
    same(left, right);
    let faithful = HistoryMode::Faithful;
    assert_ne!(chain(faithful, left), chain(faithful, right), "{left:?}\n{right:?}");
}

#[test]
fn what_counts_in_faithful_mode_only() {
    same_loosely(&[user("a\r\nb ")], &[user("\na\nb")]);
    same_loosely(&[user("a"), user("  ")], &[user("a")]);
    same_loosely(&[said("a"), said("b")], &[said("ab")]);
    same_loosely(&[said("a "), said(""), said("b")], &[said("a b\n")]);
    same_loosely(&[thought("hm", said("a"))], &[said("a")]);
    same_loosely(
        &[calls("", &[call("1", r#"{"a": 1.0, "b": [true]}"#)])],
        &[calls(" ", &[call("2", r#"{"b":[true],"a":1}"#)])],
    );
    same_loosely(&[calls("", &[call("1", "")])], &[calls("", &[call("1", "{}")])]);
    same_loosely(&[said("a"), calls("", &[call("1", "1")])], &[calls("a", &[call("1", "1")])]);
}

#[test]
fn what_counts_never() {
    let one = [calls("a", &[call("call_1", "{}")]), result("call_1", "x")];
    let other = [calls("a", &[call("toolu", "{}")]), result("toolu", "x")];
    same(&one, &other);
    assert_eq!(chain(HistoryMode::Faithful, &one), chain(HistoryMode::Faithful, &other));
}

#[test]
fn what_counts_always() {
    differ(&[user("a b")], &[user("a  b")]);
    differ(&[user("a")], &[said("a")]);
    differ(&[user("q"), user("a")], &[user("q"), system("a")]);
    differ(&[said("a")], &[calls("a", &[call("1", "{}")])]);
    differ(&[calls("", &[call("1", r#"{"a":1}"#)])], &[calls("", &[call("1", r#"{"a":"1"}"#)])]);
    differ(&[user("ab"), user("c")], &[user("a"), user("bc")]);
    differ(
        &[calls("", &[call("1", "{}"), call("2", "{}")]), result("1", "x"), result("2", "y")],
        &[calls("", &[call("1", "{}"), call("2", "{}")]), result("2", "x"), result("1", "z")],
    );
    same(&[result("lost", "x")], &[result("gone", "x")]);
}

#[test]
fn a16_text_behind_a_call_is_not_text_before_it() {
    let one = call("1", "{}");
    let around = [calls("A", std::slice::from_ref(&one)), said("B")];
    differ(&around, &[calls("AB", std::slice::from_ref(&one))]);
    differ(&around, &[said("A"), calls("B", std::slice::from_ref(&one))]);
    differ(&around, &[calls("A", std::slice::from_ref(&one))]);
    differ(
        &[calls("A", std::slice::from_ref(&one)), calls("B", std::slice::from_ref(&one))],
        &[calls("AB", &[one.clone(), one.clone()])],
    );
    // White space is no text.
    same(
        &[calls("A", std::slice::from_ref(&one)), said(" "), calls("", std::slice::from_ref(&one))],
        &[calls("A", &[one.clone(), one])],
    );
}

#[test]
fn a_name_does_not_run_into_its_arguments() {
    let named = |name: &str, arguments: &str| {
        let mut call = call("1", arguments);
        call.name = name.into();
        [calls("", &[call])]
    };
    differ(&named("f1", "2"), &named("f", "12"));
}

#[test]
fn results_count_by_the_place_of_their_call() {
    let both = || calls("", &[call("call_1", "{}"), call("call-2", "{}")]);
    same(
        &[both(), result("call_1", "x"), result("call_2", "y")],
        &[both(), result("call1", "x"), result("call-2", "y")],
    );
    same_loosely(
        &[both(), result("call_1", "x"), result("call_2", "y")],
        &[both(), result("call_2", "y"), result("call_1", "x")],
    );
    differ(
        &[both(), result("call_1", "x"), result("call_2", "y")],
        &[both(), result("call_2", "x"), result("call_1", "y2")],
    );
}

#[test]
fn an_answer_is_found_again_when_it_comes_back() {
    let sent = calls("look", &[call("rg1", r#"{"command":"ls"}"#)]);
    let back = calls("look\n", &[call("other", r#"{ "command": "ls" }"#)]);
    let rules = RuleSet::default();
    let digest =
        |mode, back: &Message| path(mode, &rules, std::slice::from_ref(back)).elements[0].digest;
    let answer = |mode, message: &Message| answer_digest(mode, &[], &message.clone().into());
    let (sticky, faithful) = (HistoryMode::Sticky, HistoryMode::Faithful);
    assert_eq!(answer(sticky, &sent), Some(digest(sticky, &back)));
    assert_ne!(answer(faithful, &sent), Some(digest(faithful, &back)));
    assert_eq!(answer(faithful, &sent), Some(digest(faithful, &sent)));
    assert_eq!(answer(sticky, &said(" ")), None);
    assert!(answer(faithful, &said(" ")).is_some());
}

#[test]
fn long_numbers_are_compared_digit_by_digit() {
    let with = |n: &str| [calls("", &[call("1", &format!(r#"{{"n":{n}}}"#))])];
    differ(&with("12345678901234567890123"), &with("12345678901234567890124"));
    same(&with("12345678901234567890123"), &with("12345678901234567890123"));
    differ(&with("9007199254740993"), &with("9007199254740992"));
    // In texts and fractions they are nothing special: spaces and order of keys do not count there.
    let spelled = |arguments: &str| [calls("", &[call("1", arguments)])];
    let id = r#""20261130001234567890""#;
    same(
        &spelled(&format!(
            r#"{{"n": 12345678901234567890123, "id": {id}, "x": 0.1234567890123456789}}"#
        )),
        &spelled(&format!(r#"{{"x":0.12345678901234568,"id":{id},"n":12345678901234567890123}}"#)),
    );
}

#[test]
fn an_element_knows_the_first_message_that_goes_with_it() {
    let rules = RuleSet::for_session(Some("claude-code"), &[], &[]).unwrap();
    let messages = [
        system("s"),
        user("q"),
        said(""),
        said("a"),
        user("<system-reminder>t</system-reminder>"),
        user("r"),
        user("<system-reminder>u</system-reminder>"),
    ];
    let path = path(HistoryMode::Sticky, &rules, &messages);
    let firsts: Vec<_> = path.elements.iter().map(|element| element.first_message).collect();
    assert_eq!(firsts, [1, 3, 4]);
    assert_eq!(path.first_message(3, 7), 6);
    let overlays: Vec<_> = path.overlay_texts(4).collect();
    assert_eq!(overlays.len(), 2);
    assert_eq!(path.overlay_texts(6).count(), 1);
}
