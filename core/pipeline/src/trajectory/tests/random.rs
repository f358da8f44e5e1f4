//! Random histories against a naive list of lists.
//!
//! An agent keeps a history, goes on, rewinds, asks again, spells things otherwise. The naive side
//! knows for every turn the list of messages that its answer ended, as meanings; the turn that a
//! request continues is the longest of them that the request begins with.

use proptest::prelude::*;

use super::play::{Play, result, said, thought, user};
use crate::id::TurnIndex;
use crate::record::HistoryMode;
use crate::rules::RuleSet;
use crate::turn::{Message, Role};

/// What an agent does next.
#[derive(Clone, Debug)]
enum Act {
    /// Goes on from the answer of a turn with a message, and gets an answer.
    GoOn { from: prop::sample::Index, next: u8, answer: u8 },
    /// Asks a turn's request again.
    Again { turn: prop::sample::Index, answer: u8 },
    /// Goes on from somewhere within a turn's request.
    Rewind { turn: prop::sample::Index, keep: prop::sample::Index, next: u8, answer: u8 },
    /// Lets the answer begin with something.
    Prefill { from: prop::sample::Index, begun: u8, answer: u8 },
    /// Puts an assistant message of its own behind an answer.
    Foreign { from: prop::sample::Index, own: u8, next: u8, answer: u8 },
    /// The session is loaded from its records.
    Reload,
}

fn act() -> impl Strategy<Value = Act> {
    let at = any::<prop::sample::Index>;
    let word = || 0_u8..3;
    prop_oneof![
        4 => (at(), word(), word()).prop_map(|(from, next, answer)| Act::GoOn { from, next, answer }),
        1 => (at(), word()).prop_map(|(turn, answer)| Act::Again { turn, answer }),
        2 => (at(), at(), word(), word())
            .prop_map(|(turn, keep, next, answer)| Act::Rewind { turn, keep, next, answer }),
        1 => (at(), word(), word())
            .prop_map(|(from, begun, answer)| Act::Prefill { from, begun, answer }),
        1 => (at(), word(), word(), word())
            .prop_map(|(from, own, next, answer)| Act::Foreign { from, own, next, answer }),
        1 => Just(Act::Reload),
    ]
}

const WORDS: [&str; 3] = ["a", "ab", "b"];

/// What a list of messages means: role and text, in sticky mode with neighbouring words of the model
/// as one.
fn meaning(mode: HistoryMode, messages: &[Message]) -> Vec<(Role, String)> {
    let mut list: Vec<(Role, String)> = Vec::new();
    for message in messages {
        match list.last_mut() {
            Some((Role::Assistant, text))
                if message.role == Role::Assistant && mode == HistoryMode::Sticky =>
            {
                text.push_str(&message.content);
            }
            _ => list.push((message.role, message.content.clone())),
        }
    }
    list
}

/// The naive side: by turn, its request and that with the answer.
struct Lists {
    mode: HistoryMode,
    requests: Vec<Vec<Message>>,
    histories: Vec<Vec<Message>>,
}

impl Lists {
    /// Messages of the longest history that the request begins with, and the turns that end there.
    fn continued(&self, request: &[Message]) -> (usize, Vec<TurnIndex>) {
        let ends = |keep: usize| -> Vec<TurnIndex> {
            let begin = meaning(self.mode, &request[..keep]);
            let turns = (0..).map(TurnIndex).zip(&self.histories);
            turns
                .filter(|(_, held)| meaning(self.mode, held) == begin)
                .map(|(turn, _)| turn)
                .collect()
        };
        let found = (0..=request.len()).rev().map(|keep| (keep, ends(keep)));
        found.into_iter().find(|(_, turns)| !turns.is_empty()).unwrap_or_default()
    }
}

fn message(word: u8) -> Message {
    let text = WORDS[usize::from(word)];
    if word == 1 { result("call", text) } else { user(text) }
}

fn ask(play: &mut Play, lists: &mut Lists, request: Vec<Message>, answer: u8) {
    let (matched, turns) = lists.continued(&request);
    let answer = said(WORDS[usize::from(answer)]);
    let turn = play.turn(&request, thought("because", answer.clone()));
    let record = &play.records[turn.0 as usize];
    match record.parent {
        None => assert!(turns.is_empty(), "{request:?} continues {turns:?}"),
        Some(parent) => {
            assert!(turns.contains(&parent), "{request:?}: {parent:?} not in {turns:?}");
            assert_eq!(request.len() - record.messages.len(), matched);
        }
    }
    lists.requests.push(request.clone());
    lists.histories.push([request, vec![answer]].concat());
}

fn run(mode: HistoryMode, acts: &[Act]) {
    let mut play = Play::of(mode, "none");
    let mut lists = Lists { mode, requests: Vec::new(), histories: Vec::new() };
    play.rules = RuleSet::default();
    ask(&mut play, &mut lists, vec![user("q")], 0);
    for act in acts {
        let turns = lists.histories.len();
        let history = |from: &prop::sample::Index| lists.histories[from.index(turns)].clone();
        let (request, answer) = match act {
            Act::GoOn { from, next, answer } => {
                ([history(from), vec![message(*next)]].concat(), *answer)
            }
            Act::Again { turn, answer } => (lists.requests[turn.index(turns)].clone(), *answer),
            Act::Rewind { turn, keep, next, answer } => {
                let held = &lists.requests[turn.index(turns)];
                let keep = keep.index(held.len() + 1);
                ([&held[..keep], &[message(*next)]].concat(), *answer)
            }
            Act::Prefill { from, begun, answer } => {
                let begun = said(WORDS[usize::from(*begun)]);
                ([history(from), vec![user("p"), begun]].concat(), *answer)
            }
            Act::Foreign { from, own, next, answer } => {
                let own = said(WORDS[usize::from(*own)]);
                ([history(from), vec![own, message(*next)]].concat(), *answer)
            }
            Act::Reload => {
                play.reload();
                continue;
            }
        };
        ask(&mut play, &mut lists, request, answer);
    }
    play.check();
    let stored: usize = play.records.iter().map(|r| r.stretch.len() + r.ids.len()).sum();
    assert!(play.tree.stored_ids() <= stored);
    let resumes = |play: &Play| -> Vec<_> {
        lists.requests.iter().map(|request| play.resume(request)).collect()
    };
    let before = resumes(&play);
    for (request, resume) in lists.requests.iter().zip(&before) {
        if let Some(same) = resume.same_prompt {
            let held = &lists.requests[same.0 as usize];
            assert_eq!(meaning(mode, held), meaning(mode, request));
            assert_eq!(play.tree.parent(same), resume.parent);
        }
    }
    play.reload();
    assert_eq!(resumes(&play), before);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 10_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn ten_thousand_histories(acts in prop::collection::vec(act(), 1..10)) {
        run(HistoryMode::Sticky, &acts);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The template leaves out reasoning, and so does the agent: what it sends reads as sampled.
    #[test]
    fn two_thousand_faithful_histories(acts in prop::collection::vec(act(), 1..10)) {
        run(HistoryMode::Faithful, &acts);
    }
}
