//! Histories that are cut, edited, and gone back in.

use serde_json::json;

use super::Row;
use crate::corpus::agent::{Agent, blocks, message};
use crate::corpus::script::{Script, bash, calls, content_of, text};

pub(super) const ROWS: &[Row] = &[
    Row::new("M21", "consecutive assistant messages merged", m21).says(m21_script),
    Row::new("M27", "an old tool result replaced by a stub", m27),
    Row::new("M28", "the oldest messages cut off", m28),
    Row::new("M29", "a foreign assistant message inserted", m29),
    Row::new("M30", "the last answer replayed only in part", m30).says(report),
    Row::new("M31", "an answer cut in mid-stream, partial replayed plus a note", m31).says(report),
    Row::new("M32", "an answer without call deleted, a reminder instead", m32).says(report),
    Row::new("M33", "rewind to turn 3 and another way on", m33).says(m33_script),
];

const REPORT: &str = "There are three callers, and all of them live in one module. The first sorts the \
    orders for the invoice. The second one prints them for people. The third writes them to a file.";

/// The third answer is a report without a call.
fn report(name: &str) -> Script {
    Script::usual(name).with("3", text("A short report is in order.", REPORT))
}

/// The third answer asks by itself for the fourth.
fn m21_script(name: &str) -> Script {
    let script = Script::usual(name);
    let said = format!("There are three callers. {}", script.mark("4"));
    script.with("3", text("I say so first.", &said)).with(
        "4",
        json!({
            "reasoning": "Now the call.", "content": " Now I look at the tests.",
            "tool_calls": [bash("ls tests", 9)],
        }),
    )
}

fn m21(a: &mut Agent) {
    a.go(1..=2);
    a.turn();
    a.turn();
    a.results("5", "test_order.py");
    let at = a.place("assistant", 3);
    let (first, second) = (a.messages[at].clone(), a.messages.remove(at + 1));
    let text = [content_of(&first), content_of(&second)];
    let mut merged = blocks("assistant", &[&text[0], &text[1]]);
    let thought =
        |m: &serde_json::Value| m["reasoning_content"].as_str().unwrap_or_default().to_owned();
    merged["reasoning_content"] = json!(format!("{}\n{}", thought(&first), thought(&second)));
    merged["tool_calls"] = second["tool_calls"].clone();
    a.messages[at] = merged;
    a.go(5..=7);
}

fn m27(a: &mut Agent) {
    a.go(1..=1);
    a.turn();
    let lines: Vec<String> =
        (1..60).map(|n| format!("def order_{n}(a): return sorted(a)[{n}]")).collect();
    a.results("3", &lines.join("\n"));
    a.go(3..=4);
    let mark = a.script.mark("3");
    a.nth("tool", 2)["content"] = json!(format!("[Old tool result content cleared] {mark}"));
    a.tip = None;
    a.go(5..=7);
}

fn m28(a: &mut Agent) {
    a.go(1..=4);
    let (from, to) = (a.place("assistant", 1), a.place("assistant", 3));
    a.messages.drain(from..to);
    a.tip = None;
    a.go(5..=7);
}

fn m29(a: &mut Agent) {
    a.go(1..=2);
    a.turn();
    a.results("4", "exit status 0");
    a.messages.push(message("assistant", "A subagent reports: the invoice module is untouched."));
    a.user("Good to know. Go on.");
    a.go(4..=7);
}

/// The first half of a text.
fn half(text: &str) -> String {
    text.chars().take(text.chars().count() / 2).collect()
}

fn m30(a: &mut Agent) {
    a.go(1..=2);
    a.turn();
    let answer = a.nth("assistant", 3);
    answer["content"] = half(&content_of(answer)).into();
    a.results("4", "Your report breaks off. Go on all the same.");
    a.go(4..=7);
}

fn m31(a: &mut Agent) {
    a.go(1..=2);
    let cut = a.unanswered(a.next());
    a.wire.cut_within(&a.body());
    a.note(cut);
    a.messages.push(message("assistant", &half(REPORT)));
    let note =
        format!("[The connection was lost. Go on where you stopped.] {}", a.script.mark("4"));
    a.user(&note);
    a.go(4..=7);
}

fn m32(a: &mut Agent) {
    a.go(1..=2);
    let before = a.tip;
    a.turn();
    a.messages.pop();
    let note =
        format!("Your last answer had no tool call. Each answer needs one. {}", a.script.mark("4"));
    a.user(&note);
    a.tip = before;
    a.go(4..=7);
}

fn m33_script(name: &str) -> Script {
    let mut script = Script::usual(name);
    for step in ["4b", "5b"] {
        let call = bash(&format!("git log -{} --oneline", step.len()), 8);
        script = script.with(step, calls(&format!("Another way, {step}."), &[call]));
    }
    script.with("6b", text("That is it.", "I went another way and it works."))
}

fn m33(a: &mut Agent) {
    a.go(1..=3);
    let (third, length) = (a.tip, a.messages.len());
    a.go(4..=5);
    a.messages.truncate(length - 1);
    a.tip = third;
    a.results("4b", "exit status 1");
    for next in [Some("5b"), Some("6b"), None] {
        a.turn();
        if let Some(next) = next {
            a.results(next, "exit status 0");
        }
    }
}
