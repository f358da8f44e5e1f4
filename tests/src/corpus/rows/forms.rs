//! Histories that mean the same and are written otherwise.

use serde_json::{Value, json};

use super::Row;
use crate::corpus::agent::{Agent, blocks};
use crate::corpus::dialect::KEPT;
use crate::corpus::script::{Script, bash, calls, content_of, text};

pub(super) const ROWS: &[Row] = &[
    Row::new("M01", "everything verbatim", |a| a.go(1..=7)),
    Row::new("M02", "one turn's thinking dropped", m02),
    Row::new("M03", "thinking with an empty signature", m03),
    Row::new("M04", "thinking of all but the last turn dropped", m04),
    Row::new("M05", "arguments re-serialised compactly", m05),
    Row::new("M06", "arguments with keys sorted", m06),
    Row::new("M07", "1.0 as 1, escapes as characters", m07).says(m07_script),
    Row::new("M08", "tool-call ids stripped to letters and digits", m08),
    Row::new("M09", "tool-call ids replaced by its own", m09),
    Row::new("M10", "content as one text block and back", m10),
    Row::new("M11", "cache_control moved every turn", m11),
    Row::new("M18", "trailing white space of an answer trimmed", m18).says(m18_script),
    Row::new("M19", "CRLF turned to LF in a tool result", m19),
    Row::new("M20", "empty assistant text dropped", m20),
    Row::new("M23", "parallel tool results one by one", m23).says(two_calls),
    Row::new("M24", "a text after tool results", m24),
    Row::new("M25", "`name` missing on tool messages after resume", m25),
    Row::new("M26", "item ids new after resume", m26),
];

fn m02(a: &mut Agent) {
    a.go(1..=4);
    forget(a.nth("assistant", 3), "reasoning_content");
    a.go(5..=7);
}

fn m03(a: &mut Agent) {
    a.go(1..=4);
    for message in a.messages.iter_mut().filter(|message| message["role"] == "assistant") {
        let signature = &mut message[KEPT]["signature"];
        assert!(signature.as_str().is_some_and(|text| !text.is_empty()), "it was signed");
        *signature = "".into();
    }
    a.go(5..=7);
}

fn m04(a: &mut Agent) {
    a.go(1..=4);
    (1..=3).for_each(|n| forget(a.nth("assistant", n), "reasoning_content"));
    a.go(5..=7);
}

fn forget(message: &mut Value, key: &str) {
    let fields = message.as_object_mut().expect("a message");
    fields.remove(key).unwrap_or_else(|| panic!("there was no {key}"));
}

/// Changes the arguments of the third answer's first call; they must change.
fn rewrite(a: &mut Agent, with: impl Fn(Value) -> String) {
    let arguments = &mut a.nth("assistant", 3)["tool_calls"][0]["function"]["arguments"];
    let before = arguments.as_str().expect("arguments are a text").to_owned();
    let value = serde_json::from_str(&before).expect("arguments are JSON");
    *arguments = with(value).into();
    assert_ne!(before, arguments.as_str().unwrap_or_default(), "nothing was changed");
}

fn m05(a: &mut Agent) {
    a.go(1..=4);
    rewrite(a, |value| value.to_string());
    a.go(5..=7);
}

fn m06(a: &mut Agent) {
    a.go(1..=4);
    rewrite(a, |value| {
        let mut fields: Vec<_> = value.as_object().expect("an object").iter().collect();
        fields.sort_by_key(|(key, _)| key.as_str());
        let sorted: serde_json::Map<_, _> =
            fields.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        Value::from(sorted).to_string()
    });
    a.go(5..=7);
}

fn m07_script(name: &str) -> Script {
    let raw = "<think>\nThe file has an accent in its name.\n</think>\n\n<tool_call>\n{\"name\": \"bash\", \
               \"arguments\": {\"timeout\": 1.0, \"command\": \"cat caf\\u00e9.txt\"}}\n</tool_call>";
    Script::usual(name).with("3", json!({"raw": raw, "non_canonical": 3}))
}

fn m07(a: &mut Agent) {
    a.go(1..=4);
    rewrite(a, |value| {
        assert_eq!(value["command"], "cat café.txt");
        json!({"timeout": 1, "command": value["command"]}).to_string()
    });
    a.go(5..=7);
}

/// Changes every tool-call id so far, on calls and results alike.
fn rename(a: &mut Agent, with: impl Fn(&str) -> String) {
    let change = |id: &mut Value| *id = with(id.as_str().expect("an id")).into();
    for message in &mut a.messages {
        if let Some(calls) = message["tool_calls"].as_array_mut() {
            calls.iter_mut().for_each(|call| change(&mut call["id"]));
        }
        if message["role"] == "tool" {
            change(&mut message["tool_call_id"]);
        }
    }
}

fn m08(a: &mut Agent) {
    a.go(1..=4);
    rename(a, |id| id.chars().filter(char::is_ascii_alphanumeric).collect());
    a.go(5..=7);
}

fn m09(a: &mut Agent) {
    a.go(1..=4);
    rename(a, |id| format!("own-{}", id.len() * 7 + usize::from(id.as_bytes()[id.len() - 1])));
    a.go(5..=7);
}

fn m10(a: &mut Agent) {
    a.go(1..=4);
    let before = a.messages.clone();
    for message in &mut a.messages {
        if message["content"].is_string() {
            let text = content_of(message);
            message["content"] = blocks("any", &[&text])["content"].clone();
        }
    }
    let count = a.messages.len();
    a.go(5..=5);
    a.messages[..count].clone_from_slice(&before);
    a.go(6..=7);
}

/// The mark on the last block of each request is gone in the next.
fn m11(a: &mut Agent) {
    a.habits.marks_cache = true;
    a.go(1..=7);
}

fn m18_script(name: &str) -> Script {
    Script::usual(name).with("3", text("I report half way.", "Three callers, one module.  \n\n"))
}

fn m18(a: &mut Agent) {
    a.go(1..=2);
    a.turn();
    let answer = a.nth("assistant", 3);
    let (sent, trimmed) = (content_of(answer), content_of(answer).trim_end().to_owned());
    assert_ne!(sent, trimmed, "the answer must end in white space");
    answer["content"] = trimmed.into();
    a.results("4", "Good, go on.");
    a.go(4..=7);
}

fn m19(a: &mut Agent) {
    a.go(1..=2);
    a.turn();
    a.results("4", "first line\r\nsecond line\r\nthird line\r\n");
    a.go(4..=4);
    let result = a.nth("tool", 3);
    result["content"] = content_of(result).replace("\r\n", "\n").into();
    a.go(5..=7);
}

/// The fourth answer has a call and no text.
fn m20(a: &mut Agent) {
    a.go(1..=3);
    a.turn();
    let answer = a.nth("assistant", 4);
    assert!(content_of(answer).is_empty());
    answer["content"] = blocks("any", &[""])["content"].clone();
    a.results("5", "ok");
    a.go(5..=5);
    forget(a.nth("assistant", 4), "content");
    a.go(6..=7);
}

/// The third answer has two calls.
pub(super) fn two_calls(name: &str) -> Script {
    let both = [bash("wc -l src/order.py", 5), bash("wc -l tests/test_order.py", 6)];
    Script::usual(name).with("3", calls("Both files at once.", &both))
}

fn m23(a: &mut Agent) {
    a.habits.results_apart = true;
    a.go(1..=7);
    let results = a.messages.iter().filter(|message| message["role"] == "tool").count();
    assert_eq!(results, 7, "one turn has two results");
}

fn m24(a: &mut Agent) {
    a.go(1..=2);
    a.turn();
    a.results("4", "exit status 0");
    a.user("By the way: keep the change small.");
    a.go(4..=7);
}

fn m25(a: &mut Agent) {
    for step in 1..=4 {
        a.turn();
        a.results(&(step + 1).to_string(), "exit status 0");
        a.nth("tool", step)["name"] = json!("bash");
    }
    a.messages.iter_mut().filter(|m| m["role"] == "tool").for_each(|m| forget(m, "name"));
    a.go(5..=7);
}

fn m26(a: &mut Agent) {
    a.go(1..=4);
    let mut count = 0;
    for message in a.messages.iter_mut().filter(|message| message["role"] == "assistant") {
        let kept = message[KEPT].as_object_mut().expect("items are kept");
        let calls = kept.remove("calls").expect("calls are kept");
        let calls = calls.as_array().expect("a list").clone();
        let mut renamed = |mut item: Value| {
            count += 1;
            let (kind, _) = item["id"].as_str().expect("an id").split_once('_').expect("a kind");
            item["id"] = json!(format!("{kind}_after-resume-{count}"));
            item
        };
        kept.values_mut().for_each(|item| *item = renamed(item.clone()));
        let calls = calls.into_iter().map(renamed).collect::<Value>();
        kept.insert("calls".to_owned(), calls);
    }
    assert!(count > 6, "{count} items have other ids");
    a.go(5..=7);
}
