//! Changes that a rule lets pass.

use serde_json::json;

use super::Row;
use super::forms::two_calls;
use crate::corpus::agent::{Agent, blocks, message};
use crate::corpus::script::{Script, bash, calls, content_of};

pub(super) const ROWS: &[Row] = &[
    Row::new("M12", "attribution line of the system prompt changes each call", m12)
        .of("claude-code"),
    Row::new("M13", "a date line in the system prompt changes once", m13).of("hermes"),
    Row::new("M14", "a trailing transient user message vanishes each time", m14).of("openclaw"),
    Row::new("M15", "a reminder moves to the end", m15).of("claude-code"),
    Row::new("M16", "a secret in its own call masked ***", m16).of("hermes").says(m16_script),
    Row::new("M17", "a secret in a tool result masked first6...last4", m17).of("hermes"),
    Row::new("M22", "parallel tool results in another order", m22).says(two_calls),
];

fn m12(a: &mut Agent) {
    let system = content_of(&a.messages[0]);
    for step in 1..=7 {
        let line = format!(
            "x-anthropic-billing-header: cc_version=2.1.{step}.a{step}f; cc_entrypoint=cli; cch=0{step}c;\n"
        );
        a.messages[0] = blocks("system", &[&line, &system]);
        a.go(step..=step);
    }
}

fn m13(a: &mut Agent) {
    let system = content_of(&a.messages[0]);
    let dated =
        |date: &str| message("system", &format!("{system}\n\nConversation started: {date}"));
    a.messages[0] = dated("Sunday, November 29, 2026");
    a.go(1..=3);
    a.messages[0] = dated("Monday, November 30, 2026");
    a.go(4..=7);
}

fn m14(a: &mut Agent) {
    for step in 1..=7 {
        let at = a.messages.len();
        a.user(&format!(
            "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nTurn {step}: {} steps are left.\n\
             <<<END_OPENCLAW_INTERNAL_CONTEXT>>>",
            7 - step
        ));
        a.turn();
        a.messages.remove(at);
        if step < 7 {
            a.results(&(step + 1).to_string(), "exit status 0");
        }
    }
}

fn m15(a: &mut Agent) {
    let reminder =
        "<system-reminder>\nThe todo list has two open items: test, commit.\n</system-reminder>";
    a.go(1..=2);
    let at = a.messages.len();
    a.user(reminder);
    a.go(3..=4);
    a.messages.remove(at);
    a.user(reminder);
    a.go(5..=7);
}

const SECRET: &str = "sk-proj-9aB3xYz71LmQw0Rt5Uv8";

fn m16_script(name: &str) -> Script {
    let call = bash(&format!("OPENAI_API_KEY={SECRET} python -m pytest tests -q"), 33);
    Script::usual(name).with("3", calls("The tests want a key.", &[call]))
}

fn m16(a: &mut Agent) {
    a.go(1..=4);
    let arguments = &mut a.nth("assistant", 3)["tool_calls"][0]["function"]["arguments"];
    let text = arguments.as_str().expect("a text").to_owned();
    assert!(text.contains(SECRET));
    *arguments = json!(text.replace(SECRET, "***"));
    a.go(5..=7);
}

fn m17(a: &mut Agent) {
    a.go(1..=2);
    a.turn();
    a.results("4", "GITHUB_TOKEN=ghp_16C7e42F292c6912E7710c838347Ae178B4a\nHOME=/root");
    a.go(4..=4);
    let result = a.nth("tool", 3);
    let masked =
        content_of(result).replace("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "ghp_16...8B4a");
    result["content"] = masked.into();
    a.go(5..=7);
}

fn m22(a: &mut Agent) {
    a.go(1..=2);
    a.turn();
    let last = a.messages.len();
    a.results("4", "exit status 0");
    for (at, text) in [(last, "112 src/order.py"), (last + 1, "87 tests/test_order.py")] {
        let mark = a.script.mark("4");
        a.messages[at]["content"] = json!(format!("{text} {mark}"));
    }
    a.go(4..=4);
    a.messages.swap(last, last + 1);
    a.go(5..=7);
}
