//! Which turn a request continues, in small conversations.

use serde_json::Map;

use super::*;
use crate::record::{HistoryMode, TurnRecord};
use crate::rules::RuleSet;
use crate::trajectory::{Habits, Root, answer_digest};
use crate::turn::{Message, Role};

/// Reads bytes.
struct Plain;

impl Reader for Plain {
    fn reads_as(&self, _sent: &Message, _sampled: &[TokenId]) -> bool {
        false
    }

    fn tokens(&self, text: &str) -> u32 {
        text.len() as u32
    }
}

fn sticky(rules: &RuleSet) -> Habits<'_> {
    Habits { mode: HistoryMode::Sticky, rules }
}

fn resume(tree: &Trajectory, root: Root<'_>, messages: &[Message]) -> Resume {
    let path = Path::new(root, messages, sticky(&RuleSet::default()));
    tree.resume(&path, messages, &Plain)
}

/// A session played by hand: requests are texts that alternate user and assistant.
#[derive(Default)]
struct Play {
    tree: Trajectory,
}

impl Play {
    fn messages(texts: &[&str]) -> Vec<Message> {
        let role = |at: usize| if at.is_multiple_of(2) { Role::User } else { Role::Assistant };
        texts.iter().enumerate().map(|(at, text)| Message::text(role(at), *text)).collect()
    }

    fn path(texts: &[&str]) -> Path {
        let kwargs = Map::new();
        let root = Root { model: "m", tools: &[], template_kwargs: &kwargs };
        Path::new(root, &Self::messages(texts), sticky(&RuleSet::default()))
    }

    fn resume(&self, texts: &[&str]) -> Resume {
        self.tree.resume(&Self::path(texts), &Self::messages(texts), &Plain)
    }

    fn turn(&mut self, texts: &[&str], answer: &str) -> TurnIndex {
        let path = Self::path(texts);
        let resume = self.tree.resume(&path, &Self::messages(texts), &Plain);
        let turn = TurnIndex(self.tree.turns());
        let record = TurnRecord {
            parent: resume.parent,
            root: path.root,
            elements: path.elements[resume.matched..].iter().map(|e| e.digest).collect(),
            answer: answer_digest(answer, &[]),
            stretch: vec![1; path.elements.len() - resume.matched],
            ids: vec![100 + turn.0],
            logprobs: vec![-1.0],
            ..crate::record::tests::turn_record(turn)
        };
        self.tree.insert(&record).unwrap();
        turn
    }
}

#[test]
fn a_longer_request_extends_its_answer() {
    let mut play = Play::default();
    let first = play.turn(&["q"], "a");
    let resume = play.resume(&["q", "a", "r"]);
    assert_eq!((resume.parent, resume.matched, resume.same_prompt), (Some(first), 2, None));
    let second = play.turn(&["q", "a", "r"], "b");
    assert_eq!(play.tree.parent(second), Some(first));
    assert_eq!(play.tree.ids_through(second).concat(), [1, 100, 1, 101]);
    assert_eq!(play.tree.leaves(), 1);
}

#[test]
fn the_same_request_again_has_the_same_prompt() {
    let mut play = Play::default();
    let first = play.turn(&["q"], "a");
    assert_eq!(play.resume(&["q"]).same_prompt, Some(first));
    let second = play.turn(&["q", "a", "r"], "b");
    let again = play.resume(&["q", "a", "r"]);
    assert_eq!((again.parent, again.same_prompt), (Some(first), Some(second)));
    play.turn(&["q", "a", "r"], "c");
    assert_eq!(play.tree.leaves(), 2);
}

#[test]
fn a_match_inside_a_stretch_falls_back_to_the_answer_before() {
    let mut play = Play::default();
    let first = play.turn(&["q"], "a");
    play.turn(&["q", "a", "r"], "b");
    let resume = play.resume(&["q", "a", "r", "not what was sampled", "s"]);
    assert_eq!((resume.parent, resume.matched), (Some(first), 2));
    let resume = play.resume(&["other"]);
    assert_eq!((resume.parent, resume.matched), (None, 0));
}

#[test]
fn equal_answers_are_continued_apart() {
    let mut play = Play::default();
    let (a, b) = (play.turn(&["q"], "a"), play.turn(&["q"], "a"));
    let one = play.turn(&["q", "a", "r"], "x");
    let two = play.turn(&["q", "a", "r"], "y");
    assert_eq!((play.tree.parent(one), play.tree.parent(two)), (Some(b), Some(a)));
}

#[test]
fn an_empty_answer_can_be_asked_again_and_continued() {
    let mut play = Play::default();
    let silent = play.turn(&["q"], "");
    assert_eq!(play.resume(&["q"]).same_prompt, Some(silent));
    assert_eq!(play.resume(&["q"]).parent, None);
    assert_eq!(play.resume(&["q", "", "r"]).parent, Some(silent));
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
fn a_request_that_ends_in_an_answer_can_be_asked_again() {
    let mut play = Play::default();
    let first = play.turn(&["q"], "a");
    let second = play.turn(&["q", "a"], "b");
    assert_eq!(play.tree.parent(second), Some(first));
    let again = play.resume(&["q", "a"]);
    assert_eq!((again.parent, again.same_prompt), (Some(first), Some(second)));
}

#[test]
fn of_equal_answers_the_echoed_one_is_continued() {
    let mut tree = Trajectory::default();
    let call = |id: &str| crate::turn::ToolCall {
        id: id.into(),
        name: "f".into(),
        arguments: "{}".into(),
    };
    let path = Play::path(&["q"]);
    for (turn, id) in [(0, "call_0"), (1, "call_1")] {
        let mut record = crate::record::tests::turn_record(TurnIndex(turn));
        record.root = path.root;
        record.elements = path.elements.iter().map(|element| element.digest).collect();
        record.answer = answer_digest("", &[call(id)]);
        record.reply.tool_calls = vec![call(id)];
        tree.insert(&record).unwrap();
    }
    for (turn, id) in [(0, "call0"), (1, "call_1")] {
        let kwargs = Map::new();
        let root = Root { model: "m", tools: &[], template_kwargs: &kwargs };
        let messages = [
            Message::text(Role::User, "q"),
            Message { tool_calls: vec![call(id)], ..Message::text(Role::Assistant, "") },
            Message { tool_call_id: Some(id.into()), ..Message::text(Role::Tool, "r") },
        ];
        let resume = resume(&tree, root, &messages);
        assert_eq!((resume.parent, resume.matched), (Some(TurnIndex(turn)), 2));
    }
}

#[test]
fn a_silent_answer_does_not_stand_between_results() {
    let kwargs = Map::new();
    let root = Root { model: "m", tools: &[], template_kwargs: &kwargs };
    let result = |text: &str| Message::text(Role::Tool, text);
    let mut tree = Trajectory::default();
    let path = Path::new(
        root,
        &[Message::text(Role::User, "q"), result("0")],
        sticky(&RuleSet::default()),
    );
    let mut record = crate::record::tests::turn_record(TurnIndex(0));
    record.root = path.root;
    record.elements = path.elements.iter().map(|element| element.digest).collect();
    record.answer = None;
    tree.insert(&record).unwrap();
    let next = [Message::text(Role::User, "q"), result("0"), result("1")];
    assert_eq!(resume(&tree, root, &next).parent, None);
    let next = [Message::text(Role::User, "q"), result("0"), Message::text(Role::User, "r")];
    assert_eq!(resume(&tree, root, &next).parent, Some(TurnIndex(0)));
}
