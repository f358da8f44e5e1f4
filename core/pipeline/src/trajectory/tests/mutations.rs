//! What agents do to their own history, message by message: the rows of the mutation corpus that
//! concern matching. Each is a session of six turns with reasoning and a tool call in every answer;
//! from some turn on the agent sends its history changed.

use super::play::{Play, call, calls, result, said, system, thought, user};
use crate::id::TurnIndex;
use crate::record::HistoryMode::{Faithful, Sticky};
use crate::record::TurnRecord;
use crate::turn::{Message, Role, ToolCall};

const TURNS: usize = 6;
/// The turn from which on history is changed.
const FROM: usize = 3;

/// How a row's sessions differ from the plain one.
struct Row {
    agent: &'static str,
    /// Whether the template shows earlier reasoning.
    keeps_reasoning: bool,
    /// The answer of a turn.
    answer: fn(usize) -> Message,
    /// What the tools say to the answer of a turn.
    results: fn(usize) -> Vec<Message>,
    /// The history as it is sent in a turn.
    change: fn(usize, &mut Vec<Message>),
}

impl Default for Row {
    fn default() -> Self {
        Self {
            agent: "none",
            keeps_reasoning: true,
            answer,
            results: |turn| vec![result(&format!("call_{turn}"), &format!("out {turn}\r\nend"))],
            change: |_, _| {},
        }
    }
}

fn answer(turn: usize) -> Message {
    let arguments =
        format!(r#"{{"z": {turn}.0, "command": "curl -H 'key: sk-abcd1234{turn}wxyz'"}}"#);
    thought(
        &format!("thinking {turn}"),
        calls(&format!("step {turn}"), &[call(&format!("call_{turn}"), &arguments)]),
    )
}

fn first() -> Vec<Message> {
    vec![system("Be good.\nToday's date: 2026-11-28"), user("do it")]
}

fn play(mode: crate::record::HistoryMode, row: &Row) -> Play {
    let mut play = Play::of(mode, row.agent);
    play.model.keeps_reasoning = row.keeps_reasoning;
    let mut history = first();
    for turn in 0..TURNS {
        let mut sent = history.clone();
        (row.change)(turn, &mut sent);
        play.turn(&sent, (row.answer)(turn));
        history.push((row.answer)(turn));
        history.extend((row.results)(turn));
    }
    play.check();
    let before: Vec<_> = play.records.clone();
    play.reload();
    // A session that was loaded goes on where the other would.
    let mut sent = history.clone();
    (row.change)(TURNS, &mut sent);
    play.rules.strip(&mut sent);
    let loaded = play.resume(&sent);
    let mut live = Play::of(mode, row.agent);
    live.model.keeps_reasoning = row.keeps_reasoning;
    for record in &before {
        live.tree.insert(record).unwrap();
        live.resume(&sent);
    }
    assert_eq!(loaded, live.resume(&sent));
    play
}

/// Segments in both modes.
fn segments(row: &Row, sticky: u32, faithful: u32) -> [Play; 2] {
    let plays = [play(Sticky, row), play(Faithful, row)];
    assert_eq!(plays[0].tree.leaves(), sticky, "sticky");
    assert_eq!(plays[1].tree.leaves(), faithful, "faithful");
    plays
}

fn rules(play: &Play) -> Vec<String> {
    let mut rules: Vec<_> = play.records.iter().flat_map(|record| record.rules.clone()).collect();
    rules.sort();
    rules.dedup();
    rules
}

fn diffs(play: &Play) -> Vec<u32> {
    play.records.iter().map(|record: &TurnRecord| record.context_diff_tokens).collect()
}

fn each(messages: &mut [Message], role: Role, change: impl Fn(&mut Message)) {
    messages.iter_mut().filter(|message| message.role == role).for_each(change);
}

fn each_call(messages: &mut [Message], change: impl Fn(&mut ToolCall)) {
    messages.iter_mut().flat_map(|message| &mut message.tool_calls).for_each(change);
}

#[test]
fn m01_verbatim() {
    let [sticky, faithful] = segments(&Row::default(), 1, 1);
    assert_eq!((rules(&sticky), diffs(&sticky)), (vec![], vec![0; TURNS]));
    assert_eq!((rules(&faithful), diffs(&faithful)), (vec![], vec![0; TURNS]));
}

#[test]
fn m02_without_thinking() {
    let drop = |_, sent: &mut Vec<Message>| each(sent, Role::Assistant, |m| m.reasoning = None);
    let row = Row { change: drop, keeps_reasoning: false, ..Row::default() };
    let [sticky, faithful] = segments(&row, 1, 1);
    // "thinking N" is ten tokens here; each turn counts all that is missing.
    assert_eq!(diffs(&sticky), [0, 10, 20, 30, 40, 50]);
    assert_eq!(rules(&sticky), Vec::<String>::new());
    assert_eq!((rules(&faithful), diffs(&faithful)), (vec!["reads-as".into()], vec![0; TURNS]));
    // Where the template shows it, an engine that is to see what was sent must see it gone.
    segments(&Row { change: drop, ..Row::default() }, 1, TURNS as u32);
}

#[test]
fn m04_thinking_of_all_but_the_last_turn_dropped() {
    let drop = |_, sent: &mut Vec<Message>| {
        let last = sent.iter().rposition(|message| message.role == Role::Assistant);
        for (at, message) in sent.iter_mut().enumerate() {
            message.reasoning = message.reasoning.take().filter(|_| Some(at) == last);
        }
    };
    segments(&Row { change: drop, keeps_reasoning: false, ..Row::default() }, 1, 1);
}

#[test]
fn m05_to_m07_arguments_spelled_anew() {
    let compact = |_, sent: &mut Vec<Message>| {
        each_call(sent, |call| call.arguments = call.arguments.replace("\": ", "\":"));
    };
    let sorted = |turn, sent: &mut Vec<Message>| {
        if turn >= FROM {
            each_call(sent, |call| {
                let value: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
                call.arguments =
                    format!(r#"{{"command":{},"z":{}}}"#, value["command"], value["z"]);
            });
        }
    };
    let numbers = |turn, sent: &mut Vec<Message>| {
        if turn >= FROM {
            each_call(sent, |c| {
                c.arguments = c.arguments.replace(".0,", ",").replace('k', "\\u006b")
            });
        }
    };
    segments(&Row { change: compact, ..Row::default() }, 1, TURNS as u32);
    for change in [sorted, numbers] {
        // Every turn from then on finds its newest answer as it was sampled and changed since.
        let cuts = (TURNS - FROM) as u32 + 1;
        let [sticky, _] = segments(&Row { change, ..Row::default() }, 1, cuts);
        assert!(rules(&sticky).is_empty() && diffs(&sticky)[FROM] > 0);
    }
}

#[test]
fn m08_m09_tool_call_ids_rewritten() {
    for change in [
        |_, sent: &mut Vec<Message>| {
            each_call(sent, |call| call.id = call.id.replace('_', ""));
            each(sent, Role::Tool, |m| {
                m.tool_call_id = m.tool_call_id.take().map(|id| id.replace('_', ""));
            });
        },
        |_, sent: &mut Vec<Message>| {
            each_call(sent, |call| call.id = format!("own-{}", call.id.len()));
            each(sent, Role::Tool, |m| m.tool_call_id = Some("own-6".into()));
        },
    ] {
        segments(&Row { change, ..Row::default() }, 1, 1);
    }
}

#[test]
fn m12_the_attribution_line_changes_with_each_call() {
    let change = |turn, sent: &mut Vec<Message>| {
        let line = format!("x-anthropic-billing-header: cc_version=2.1.{turn}a{turn};\n");
        sent[0].content.insert_str(0, &line);
    };
    segments(&Row { agent: "claude-code", change, ..Row::default() }, 1, 1);
}

#[test]
fn m13_the_date_changes_once() {
    let change = |turn, sent: &mut Vec<Message>| {
        if turn >= FROM {
            sent[0].content = sent[0].content.replace("-28", "-29");
        }
    };
    let [sticky, _] = segments(&Row { change, ..Row::default() }, 1, 2);
    assert_eq!(rules(&sticky), ["date-line"]);
    assert_eq!(diffs(&sticky), [0, 0, 0, 1, 1, 1]);
}

#[test]
fn m14_a_transient_message_at_the_end() {
    let change = |turn: usize, sent: &mut Vec<Message>| {
        let open = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>";
        sent.push(user(&format!("{open}\n{turn}\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>")));
    };
    let row = Row { agent: "openclaw", change, ..Row::default() };
    let [sticky, _] = segments(&row, 1, TURNS as u32);
    assert_eq!(rules(&sticky), ["openclaw-internal-context"]);
    assert!(
        sticky.records.iter().all(|record| record
            .messages
            .last()
            .unwrap()
            .content
            .starts_with("<<<"))
    );
}

#[test]
fn m14_a_word_to_itself_at_the_end_after_a_failed_call() {
    let change = |turn: usize, sent: &mut Vec<Message>| {
        if turn >= FROM {
            let stamp = format!("[Mon 2026-11-30 00:{turn:02} UTC]");
            sent.push(user(&format!(
                "{stamp} Continue the current task from the existing transcript, and so on."
            )));
        }
    };
    let row = Row { agent: "openclaw", change, ..Row::default() };
    // Faithful: each later turn once, since the last one's vanishes.
    let [sticky, _] = segments(&row, 1, (TURNS - FROM) as u32);
    assert_eq!(rules(&sticky), ["openclaw-go-on", "openclaw-stamp"]);
}

#[test]
fn m15_a_reminder_moves_to_the_end() {
    let change = |turn: usize, sent: &mut Vec<Message>| {
        let reminder = "<system-reminder>mind the tests</system-reminder>\n";
        if turn < FROM {
            sent[1].content.insert_str(0, reminder);
        } else {
            sent.push(user(reminder));
        }
    };
    // Faithful: once for the move, and each turn once more since the last one vanishes again.
    let cuts = (TURNS - FROM) as u32 + 1;
    let [sticky, _] = segments(&Row { agent: "claude-code", change, ..Row::default() }, 1, cuts);
    assert_eq!(rules(&sticky), ["claude-code-reminders"]);
}

#[test]
fn m16_m17_secrets_masked_in_calls_and_results() {
    let in_calls = |turn: usize, sent: &mut Vec<Message>| {
        if turn >= FROM {
            each_call(&mut sent[..4], |call| {
                call.arguments = call.arguments.replace("sk-abcd12340wxyz", "***");
            });
        }
    };
    let in_results = |turn: usize, sent: &mut Vec<Message>| {
        if turn >= FROM {
            sent[3].content = sent[3].content.replace("ghp_0123456789abcd", "ghp_01...abcd");
        }
    };
    let results = |turn: usize| {
        vec![result(&format!("call_{turn}"), &format!("{turn} token=ghp_0123456789abcd; ok"))]
    };
    for row in [
        Row { change: in_calls, ..Row::default() },
        Row { change: in_results, results, ..Row::default() },
    ] {
        let [sticky, _] = segments(&row, 1, 2);
        assert_eq!(rules(&sticky), ["masked"]);
        let joined = sticky.records.iter().filter(|record| record.joined.is_some()).count();
        assert_eq!(joined, TURNS - FROM, "its own copy is known from then on");
        assert!(diffs(&sticky)[FROM] > 0);
        assert!(diffs(&sticky)[FROM..].windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn m18_m19_white_space() {
    let trimmed = |_, sent: &mut Vec<Message>| {
        each(sent, Role::Assistant, |m| m.content = m.content.trim_end().into());
    };
    let answer = |turn| {
        let mut message = answer(turn);
        message.content.push_str("\n\n");
        message
    };
    // The template trims: the engine would read the same.
    let row = Row { change: trimmed, answer, ..Row::default() };
    segments(&row, 1, 1);
    let lf = |turn, sent: &mut Vec<Message>| {
        if turn >= FROM {
            each(sent, Role::Tool, |m| m.content = m.content.replace('\r', ""));
        }
    };
    // Changed at once, and with every new result again.
    segments(&Row { change: lf, ..Row::default() }, 1, 2);
}

#[test]
fn m21_consecutive_assistant_messages_merged() {
    for glue in ["", "\n", "\n\n"] {
        let mut play = Play::sticky();
        play.turn(&[user("q")], "done");
        let two = play.turn(&[user("q"), said("done")], "and more");
        let merged = [user("q"), said(&format!("done{glue}and more")), user("r")];
        let resume = play.resume(&merged);
        assert_eq!(resume.parent, Some(two), "{glue:?}");
        let rule: &[&str] = if glue.is_empty() { &[] } else { &["joined-answers"] };
        assert_eq!(resume.rules, rule);
    }
}

#[test]
fn m22_parallel_results_in_another_order() {
    let answer = |turn: usize| {
        let id = |n: usize| format!("call_{turn}_{n}");
        calls("", &[call(&id(1), "{}"), call(&id(2), "{}")])
    };
    let results = |turn: usize| {
        let one = |n: usize| result(&format!("call_{turn}_{n}"), &format!("{turn} {n}"));
        vec![one(1), one(2)]
    };
    let change = |turn: usize, sent: &mut Vec<Message>| {
        if turn >= FROM {
            sent.swap(3, 4);
        }
    };
    let [sticky, _] = segments(&Row { answer, results, change, ..Row::default() }, 1, 2);
    assert_eq!(rules(&sticky), ["parallel-results-order"]);
}

#[test]
fn m22_results_in_another_order_under_ids_of_the_agents_own() {
    let answer = |turn: usize| {
        let id = |n: usize| format!("call_{turn}_{n}");
        calls("", &[call(&id(1), "{}"), call(&id(2), "{}"), call(&id(3), "{}")])
    };
    // More than 64 tokens apart: what is taken for another one has shrunk.
    let results = |turn: usize| {
        let one = |n: usize| {
            result(&format!("call_{turn}_{n}"), &format!("{turn} {n} {}", "x".repeat(n * 100)))
        };
        vec![one(1), one(2), one(3)]
    };
    // Its calls in the order of the model's, its results the other way round.
    let always: fn(usize, &mut Vec<Message>) = |_, sent| {
        each_call(sent, |call| call.id = call.id.replace("call", "own"));
        each(sent, Role::Tool, |m| {
            m.tool_call_id = m.tool_call_id.take().map(|id| id.replace("call", "own"));
        });
        for results in sent[2..].chunks_mut(4) {
            results[1..].reverse();
        }
    };
    let row = Row { answer, results, change: always, ..Row::default() };
    let [sticky, faithful] = segments(&row, 1, 1);
    for play in [&sticky, &faithful] {
        assert_eq!(diffs(play), [0; TURNS], "the agent's copy is what the engine saw");
    }
    assert!(sticky.records[1..].iter().all(|record| record.messages.len() == 3));
}

#[test]
fn m15_long_reminders_inside_of_messages_that_stay() {
    let long =
        |kind: &str| format!("<system-reminder>{kind} {}</system-reminder>", "w ".repeat(150));
    let mut play = Play::of(Sticky, "claude-code");
    let ask = |note: &str| vec![user(&format!("{note}do it"))];
    let one = play.turn(&ask(&long("first")), calls("", &[call("c", "{}")]));
    let with = |first: &str, second: &str| {
        [ask(first), vec![calls("", &[call("c", "{}")]), result("c", &format!("out{second}"))]]
            .concat()
    };
    let two = play.turn(&with("", &long("second")), "b");
    assert_eq!(play.tree.parent(two), Some(one), "gone from a person's message");
    let gone = [with("", ""), vec![said("b"), user("r")]].concat();
    for _ in 0..2 {
        let resume = play.resume(&gone);
        assert_eq!(resume.parent, Some(two), "gone from a result");
        assert_eq!(resume.rules, ["claude-code-reminders", "claude-code-result-reminders"]);
        assert_eq!(resume.context_diff_tokens, 0, "overlays are counted apart");
        play.reload();
    }
    play.turn(&gone, "c");
    assert_eq!(play.tree.leaves(), 1);
}

#[test]
fn m24_text_after_results_and_m44_a_person_speaks() {
    let results =
        |turn: usize| vec![result(&format!("call_{turn}"), "out"), user(&format!("go on {turn}"))];
    segments(&Row { results, ..Row::default() }, 1, 1);
}

#[test]
fn m27_an_old_result_replaced_by_a_stub() {
    let results =
        |turn: usize| vec![result(&format!("call_{turn}"), &"line of output\n".repeat(20))];
    let stub = |turn: usize, sent: &mut Vec<Message>| {
        if turn >= FROM {
            sent[3].content = "[old output removed]".into();
        }
    };
    segments(&Row { results, change: stub, ..Row::default() }, 2, 2);
    let masked = |turn: usize, sent: &mut Vec<Message>| {
        if turn >= FROM {
            sent[3].content = "line of ***".into();
        }
    };
    let [sticky, _] = segments(&Row { results, change: masked, ..Row::default() }, 1, 2);
    assert_eq!(rules(&sticky), ["masked"], "what a mask hides is not lost");
}

#[test]
fn m27_a_rule_does_not_join_what_shrank() {
    let rule: crate::rules::Rule = serde_json::from_str(
        r#"{"name": "any-output", "action": "same", "role": "tool", "pattern": "(?s)<out>.*</out>"}"#,
    )
    .unwrap();
    let mut play = Play::sticky();
    play.rules = crate::rules::RuleSet::for_session(None, &[], &[rule]).unwrap();
    let ask = |text: &str| vec![user("q"), said("a"), result("1", &format!("<out>{text}</out>"))];
    let behind = |text: &str| [ask(text), vec![said("b"), user("r")]].concat();
    play.turn(&[user("q")], "a");
    let two = play.turn(&ask(&"long ".repeat(20)), "b");
    let same = play.resume(&behind(&"else ".repeat(20)));
    assert_eq!((same.parent, same.rules), (Some(two), vec!["any-output".to_owned()]));
    assert_eq!(same.context_diff_tokens, 99);
    assert_eq!(play.resume(&behind("short")).parent, Some(TurnIndex(0)));
}

#[test]
fn m28_the_oldest_messages_cut_off() {
    let change = |turn: usize, sent: &mut Vec<Message>| {
        if turn >= FROM {
            sent.drain(1..4);
        }
    };
    segments(&Row { change, ..Row::default() }, 2, 2);
}

#[test]
fn m29_a_foreign_assistant_message_inserted() {
    let behind_result: fn(usize, &mut Vec<Message>) = |turn, sent| {
        if turn >= FROM {
            sent.insert(2 * FROM + 2, said("announced"));
        }
    };
    let behind_answer: fn(usize, &mut Vec<Message>) = |turn, sent| {
        if turn >= FROM {
            sent.insert(2 * FROM + 1, said("announced"));
        }
    };
    for change in [behind_result, behind_answer] {
        segments(&Row { change, ..Row::default() }, 1, 1);
    }
}

#[test]
fn m30_m31_an_answer_in_part() {
    let whole = [user("q"), said("one two three"), user("r")];
    let part = [user("q"), said("one two"), user("r")];
    for (mode, cut, expected) in [
        (Sticky, false, Some(0)),
        (Sticky, true, None),
        (Faithful, false, None),
        (Faithful, true, None),
    ] {
        let mut play = Play::of(mode, "none");
        let turn = play.turn(&whole[..1], "one two three");
        if cut {
            play.cut(turn);
        }
        for _ in 0..2 {
            let resume = play.resume(&part);
            assert_eq!(resume.parent.map(|parent| parent.0), expected, "{mode:?} {cut}");
            assert_eq!(resume.rules.len(), usize::from(expected.is_some()));
            play.reload();
        }
        assert_eq!(play.resume(&whole).parent, Some(turn));
    }
}

#[test]
fn m30_a_part_that_lost_much_is_another_answer() {
    let mut play = Play::sticky();
    let long = format!("one two {}", "three ".repeat(30));
    play.turn(&[user("q")], long.as_str());
    assert_eq!(play.resume(&[user("q"), said("one two"), user("r")]).parent, None);
}

#[test]
fn m32_an_answer_deleted_and_m33_a_rewind() {
    for mut play in [Play::sticky(), Play::faithful()] {
        let one = play.turn(&[user("q")], "no call");
        let two = play.turn(&[user("q"), user("use the format")], "call");
        assert_eq!(play.tree.parent(two), None);
        let more = [user("q"), user("use the format"), said("call"), user("r")];
        let three = play.turn(&more, "x");
        assert_eq!(play.tree.parent(three), Some(two));
        let other = [user("q"), said("no call"), user("another way")];
        let four = play.turn(&other, "y");
        assert_eq!(play.tree.parent(four), Some(one));
        assert_eq!(play.tree.leaves(), 2);
        play.check();
    }
}

#[test]
fn m42_a_review_extends_and_the_main_line_goes_on_beside_it() {
    for mut play in [Play::sticky(), Play::faithful()] {
        let main = play.turn(&[user("q")], "a");
        let review = play.turn(&[user("q"), said("a"), user("review")], "fine");
        let next = play.turn(&[user("q"), said("a"), user("r")], "b");
        assert_eq!([review, next].map(|turn| play.tree.parent(turn)), [Some(main); 2]);
    }
}

#[test]
fn m43_m45_other_tools_or_instructions_are_another_tree() {
    for mut play in [Play::sticky(), Play::faithful()] {
        play.turn(&[system("s"), user("q")], "a");
        let other = [system("t"), user("q"), said("a"), user("beat")];
        assert_eq!(play.resume(&other).parent, None);
        play.tools.push(super::play::tool("late"));
        assert_eq!(play.resume(&[system("s"), user("q"), said("a"), user("r")]).parent, None);
    }
}
