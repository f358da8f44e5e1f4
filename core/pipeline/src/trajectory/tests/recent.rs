//! A path that is grown from earlier requests is the path that is made from the start, and costs
//! what is new. Every other test of this room checks the first of these, too ([`Recent::check`]).
//!
//! [`Recent::check`]: crate::trajectory::recent::Recent::check

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::play::{Play, call, calls, result, said, system, thought, tool, user};
use crate::limits::RECENT_PATHS;
use crate::record::HistoryMode;
use crate::rules::{Rule, RuleSet};
use crate::trajectory::{Habits, Path, Root, Stem, ToolDigests, Trajectory};
use crate::turn::{Message, MessageFields, Role, Tool};

/// A session that only reads.
struct Reads {
    tree: Trajectory,
    mode: HistoryMode,
    rules: RuleSet,
}

impl Reads {
    fn new(mode: HistoryMode, rules: RuleSet) -> Self {
        Self { tree: Trajectory::default(), mode, rules }
    }

    /// Reads a request both ways; messages that were folded and that were digested for it.
    fn read(
        &self,
        sent: &[Message],
        tools: &[Tool],
        kwargs: &Map<String, Value>,
    ) -> (usize, usize) {
        let habits = Habits { mode: self.mode, rules: &self.rules };
        let mut plain = sent.to_vec();
        let stripped = self.rules.strip(&mut plain);
        let anew = Path::new(Root { model: "m", tools, template_kwargs: kwargs }, &plain, habits);
        let (_, folded, hashed) = self.tree.read_so_far();
        let mut messages = sent.to_vec();
        let digests = ToolDigests::of(tools);
        let stem = Stem { model: "m", tools: &digests, template_kwargs: kwargs };
        let grown = self.tree.path(stem, &mut messages, habits);
        assert_eq!(messages, plain);
        assert_eq!(grown.stripped, stripped);
        assert_eq!(grown.shown(), anew.shown());
        self.tree.keep(grown);
        let (kept, folded_now, hashed_now) = self.tree.read_so_far();
        assert!(kept <= RECENT_PATHS);
        (folded_now - folded, hashed_now - hashed)
    }

    fn ask(&self, sent: &[Message]) -> (usize, usize) {
        self.read(sent, &[], &Map::new())
    }
}

fn sets() -> Vec<RuleSet> {
    let own = [
        r#"{"name": "o", "action": "overlay", "pattern": "<o>[^<]*</o>"}"#,
        r#"{"name": "l", "action": "overlay", "place": "last", "pattern": "b", "role": "user"}"#,
        r#"{"name": "s", "action": "same", "place": "last", "pattern": "[0-9]"}"#,
        r#"{"name": "x", "action": "strip", "pattern": "<x>"}"#,
        r#"{"name": "y", "action": "strip", "place": "last", "whole": true, "pattern": "c"}"#,
    ]
    .map(|text| serde_json::from_str::<Rule>(text).unwrap());
    let set = |agent, own: &[Rule]| RuleSet::for_session(agent, &[], own).unwrap();
    let agents = ["claude-code", "openclaw", "hermes"].map(|agent| set(Some(agent), &[]));
    let one = own.iter().map(|rule| set(None, std::slice::from_ref(rule)));
    [RuleSet::default(), set(None, &own)].into_iter().chain(agents).chain(one).collect()
}

const TEXTS: [&str; 12] = [
    "a",
    " a\r\n",
    "",
    " ",
    "b",
    "c1",
    "<o>1</o>",
    "<o>2</o>b",
    "<x>",
    "<x>a",
    "<system-reminder>r</system-reminder>",
    "x-anthropic-billing-header: 7\nToday is 2026-11-30",
];

fn any_message() -> impl Strategy<Value = Message> {
    let text = || prop::sample::select(&TEXTS[..]).prop_map(str::to_owned);
    let ids = || prop::sample::select(&["c_1", "c2", "c-1", ""][..]);
    let made = (text(), prop::collection::vec(ids(), 0..3), any::<bool>());
    prop_oneof![
        1 => text().prop_map(|text| system(&text)),
        1 => text().prop_map(|text| Message::text(Role::Developer, text)),
        3 => text().prop_map(|text| user(&text)),
        3 => (ids(), text()).prop_map(|(id, text)| result(id, &text)),
        1 => text().prop_map(|text| {
            MessageFields { media_dropped: 1, ..user(&text).into_fields() }.into()
        }),
        5 => made.prop_map(|(text, ids, thinks)| {
            let made: Vec<_> = ids.iter().map(|id| call(id, "{}")).collect();
            let said = calls(&text, &made);
            if thinks { thought("hm", said) } else { said }
        }),
    ]
}

/// What an agent makes of one of its earlier requests.
#[derive(Clone, Debug)]
enum Change {
    Append(Vec<Message>),
    Cut,
    Insert(Message),
    Replace(Message),
    Swap,
    Remove,
    /// The very same again.
    Again,
    /// Other tools and switches.
    Root(u8),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => prop::collection::vec(any_message(), 1..5).prop_map(Change::Append),
        1 => Just(Change::Cut),
        1 => any_message().prop_map(Change::Insert),
        1 => any_message().prop_map(Change::Replace),
        1 => Just(Change::Swap),
        1 => Just(Change::Remove),
        1 => Just(Change::Again),
        1 => (0_u8..3).prop_map(Change::Root),
    ]
}

type Step = (prop::sample::Index, prop::sample::Index, bool, Change);

fn run(set: &RuleSet, mode: HistoryMode, steps: &[Step]) {
    let reads = Reads::new(mode, set.clone());
    let mut asked: Vec<Vec<Message>> = vec![vec![system("s"), user("q")]];
    let (mut tools, mut kwargs) = (Vec::new(), Map::new());
    for (of, at, shared, change) in steps {
        // Mostly the last one.
        let of = of.index(asked.len() * 2).min(asked.len() - 1);
        let mut next = asked[of].clone();
        let at = at.index(next.len());
        match change.clone() {
            Change::Append(new) => next.extend(new),
            Change::Cut => next.truncate(at + 1),
            Change::Insert(message) => next.insert(at, message),
            Change::Replace(message) => next[at] = message,
            Change::Swap => next.swap(at, 0),
            Change::Remove if next.len() > 1 => drop(next.remove(at)),
            Change::Remove | Change::Again => {}
            Change::Root(n) => {
                tools = (0..n).map(|n| tool(&n.to_string())).collect();
                kwargs = json!({ "n": n }).as_object().cloned().unwrap();
            }
        }
        if !shared {
            // Equal messages, other handles.
            next = next.into_iter().map(|m| m.into_fields().into()).collect();
        }
        reads.read(&next, &tools, &kwargs);
        asked.push(next);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_grown_path_is_the_one_made_from_the_start(
        set in prop::sample::select(sets()),
        steps in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>(), change()),
            1..12,
        ),
    ) {
        for mode in [HistoryMode::Sticky, HistoryMode::Faithful] {
            run(&set, mode, &steps);
        }
    }
}

/// An agent's loop with so many results.
fn history(turns: usize) -> Vec<Message> {
    let turn = |n: usize| {
        let id = format!("call_{n}");
        [calls(&format!("step {n}"), &[call(&id, "{}")]), result(&id, &format!("result {n}"))]
    };
    [system("s"), user("q")].into_iter().chain((0..turns).flat_map(turn)).collect()
}

#[test]
fn an_appended_turn_costs_what_is_new() {
    for mode in [HistoryMode::Sticky, HistoryMode::Faithful] {
        for set in sets() {
            // Where it matters which message is last, the last of the request before is read again.
            let open = if set.reads_last() && mode == HistoryMode::Sticky { 2 } else { 0 };
            let open = if set.reads_last() && mode == HistoryMode::Faithful { 1 } else { open };
            let reads = Reads::new(mode, set);
            let history = history(60);
            assert_eq!(reads.ask(&history[..102]), (102, 102));
            for end in [104, 106, 108, 110] {
                let (folded, hashed) = reads.ask(&history[..end]);
                assert_eq!(folded, 2 + open, "{mode:?}");
                assert!(hashed <= 3, "{hashed}");
                // The same again costs nothing.
                assert_eq!(reads.ask(&history[..end]), (0, 0));
            }
        }
    }
}

#[test]
fn a_change_in_the_middle_costs_what_is_behind_it() {
    let reads = Reads::new(HistoryMode::Sticky, sets()[2].clone());
    let long = history(60);
    reads.ask(&long);
    let mut changed = long.clone();
    changed[101] = result("call_49", "else");
    let (folded, hashed) = reads.ask(&changed);
    assert_eq!(folded, 122 - 100, "from the answer before it on");
    assert!(hashed <= 22);
    // Both are gone on from: neither was lost.
    let more = [said("end"), user("more")];
    assert_eq!(reads.ask(&[long, more.to_vec()].concat()).0, 2);
    assert_eq!(reads.ask(&[changed, more.to_vec()].concat()).0, 2);
}

#[test]
fn loops_that_take_turns_do_not_lose_their_paths() {
    let reads = Reads::new(HistoryMode::Sticky, RuleSet::default());
    let of =
        |n: usize, turns: usize| [vec![system(&format!("agent {n}"))], history(turns)].concat();
    for turns in 20..24 {
        for n in 0..RECENT_PATHS {
            let (folded, _) = reads.ask(&of(n, turns));
            assert_eq!(folded, if turns == 20 { 43 } else { 2 });
        }
    }
}

#[test]
fn a_line_that_changes_with_every_call_and_is_stripped_costs_no_history() {
    let reads = Reads::new(HistoryMode::Sticky, sets()[2].clone());
    let history = history(30);
    for turn in 0..20 {
        let marked = format!("x-anthropic-billing-header: {turn}\ns");
        let sent = [vec![system(&marked)], history[1..42 + 2 * turn.min(10)].to_vec()].concat();
        let (folded, _) = reads.ask(&sent);
        assert_eq!(folded, [42, 2, 0][usize::from(turn > 0) + usize::from(turn > 10)]);
    }
}

#[test]
fn a_whole_session_reads_each_message_a_few_times() {
    for mut play in [Play::sticky(), Play::faithful()] {
        let mut history = vec![user("q")];
        for turn in 0..50 {
            let mut messages = history.clone();
            let digests = ToolDigests::of(&[]);
            let kwargs = Map::new();
            let stem = Stem { model: "m", tools: &digests, template_kwargs: &kwargs };
            let habits = Habits { mode: play.mode, rules: &play.rules };
            let path = play.tree.path(stem, &mut messages, habits);
            let answer = calls("", &[call(&format!("call_{turn}"), "{}")]);
            let record = play.prepare(&path, &messages, answer.clone().into());
            play.tree.keep(path);
            play.tree.insert(&record).unwrap();
            play.records.push(record);
            history.extend([answer, result(&format!("call_{turn}"), &turn.to_string())]);
        }
        let (_, folded, hashed) = play.tree.read_so_far();
        assert_eq!((folded, hashed), (99, 99), "each message once");
    }
}
