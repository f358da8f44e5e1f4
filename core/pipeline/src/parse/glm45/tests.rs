use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::parse::fake::{Case, Expected, Fake};
use crate::render::Family;

static TOOLS: LazyLock<[Value; 2]> = LazyLock::new(|| {
    let function = json!({"name": "f", "parameters": {"type": "object", "properties": {
        "zip": {"type": "string"},
        "n": {"type": "integer"},
        "b": {"type": "boolean"},
        "loc": {"anyOf": [{"type": "object"}, {"type": "null"}]},
    }}});
    [json!({"type": "function", "function": function}), json!({"name": "get_time"})]
});

const OUTER: [&str; 9] = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<|assistant|>",
    "<|user|>",
    "<|observation|>",
    "<|system|>",
    "<|endoftext|>",
];
const INNER: [&str; 4] = ["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"];

/// A vocabulary with the tags in a call as tokens, or without.
fn case(prompt: &'static str, tags: bool) -> Case<'static> {
    let inner = if tags { &INNER[..] } else { &[] };
    let fake = Fake::new(&[&OUTER, inner].concat(), &["arg_", "value>", "\n<", "</"]);
    Case { family: Family::Glm45, fake, close: "<|endoftext|>", prompt, tools: &*TOOLS }
}

/// What holds whether or not the tags in a call are tokens.
fn check(output: &str, expected: Expected<'_>) {
    case("<|assistant|>\n", true).check(output, expected);
    case("<|assistant|>\n", false).check(output, expected);
}

fn pair(key: &str, value: &str) -> String {
    format!("\n<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>")
}

fn call(pairs: &str) -> String {
    format!("<tool_call>f{pairs}\n</tool_call>")
}

#[test]
fn good_output() {
    check("hi<|user|>", (None, "hi", &[], ""));
    check("hi<|endoftext|>", (None, "hi", &[], ""));
    let one = call(&pair("n", "1"));
    check(&format!("{one}<|observation|>"), (None, "", &["f {\"n\":1}"], ""));
    let all = format!("\n<think>plan</think>\nok\n{one}<|observation|>");
    check(&all, (Some("plan"), "ok", &["f {\"n\":1}"], ""));
    let two = format!("{one}\n{}", call(&pair("n", "2")));
    check(&two, (None, "", &["f {\"n\":1}", "f {\"n\":2}"], ""));
    // Later versions write no newlines, and nothing at all where there are no arguments.
    let flat = pair("n", "1").replace('\n', "");
    check(&format!("<tool_call>f{flat}</tool_call>"), (None, "", &["f {\"n\":1}"], ""));
    check("<tool_call>get_time</tool_call>", (None, "", &["get_time {}"], ""));
    check("<tool_call>get_time\n</tool_call>", (None, "", &["get_time {}"], ""));
}

#[test]
fn f03_f04_f05_text_is_typed_by_the_schema() {
    let all = [pair("zip", "02134"), pair("n", "5.0"), pair("b", "True")].concat();
    check(&call(&all), (None, "", &[r#"f {"zip":"02134","n":5,"b":true}"#], ""));
    let loc = call(&pair("loc", r#"{"city": "Paris"}"#));
    check(&loc, (None, "", &[r#"f {"loc":{"city": "Paris"}}"#], ""));
    let odd = call(&pair("n", "next Tuesday"));
    check(&odd, (None, "", &[r#"f {"n":"next Tuesday"}"#], "call_value_unfit"));
    let unknown = format!("<tool_call>g{}</tool_call>", pair("n", "7"));
    check(&unknown, (None, "", &[r#"g {"n":"7"}"#], "unknown_tool"));
}

#[test]
fn f06_f07_empty_values_and_newlines() {
    check(&call(&pair("n", "")), (None, "", &["f {}"], "call_value_empty"));
    check(&call(&pair("zip", "")), (None, "", &[r#"f {"zip":""}"#], ""));
    check(&call(&pair("zip", "\na\n")), (None, "", &[r#"f {"zip":"\na\n"}"#], ""));
    check(&call(&pair("zip", " a ")), (None, "", &[r#"f {"zip":" a "}"#], ""));
}

/// Our choice: a closing tag counts where the next key or nothing follows it.
#[test]
fn f08_text_that_looks_like_a_tag() {
    let zip = |text: &str| {
        let expected = format!("f {{\"zip\":{},\"n\":1}}", Value::from(text));
        check(&call(&[pair("zip", text), pair("n", "1")].concat()), (None, "", &[&expected], ""));
    };
    zip("a</arg_value>b");
    zip("a</arg_value>\nb</arg_value> c");
    zip("<arg_key>x</arg_key>");
    zip("<arg_key>n</arg_key");
    zip("<arg_value>");
    // Letters are no tags where tags are tokens.
    let letters = call(&pair("zip", "~</arg_value>\n~<arg_key>"));
    let expected = r#"f {"zip":"</arg_value>\n<arg_key>"}"#;
    case("", true).check(&letters, (None, "", &[expected], ""));
}

#[test]
fn missing_tags_are_tolerated() {
    let missing = |pairs: &str, expected: &str| {
        check(&call(pairs), (None, "", &[expected], "call_tag_missing"));
    };
    let all = r#"f {"zip":"1","n":2}"#;
    let (zip, n) = (pair("zip", "1"), pair("n", "2"));
    missing(&format!("{}{n}", zip.replace("<arg_value>", "")), all);
    missing(&format!("{zip}{}", n.replace("<arg_value>", "")), all);
    missing(&format!("{}{n}", zip.replace("</arg_value>", "")), all);
    missing(&format!("{zip}{}", n.replace("</arg_value>", "")), all);
    missing("\n<arg_key>zip</arg_key>", r#"f {"zip":""}"#);
}

#[test]
fn f09_f14_what_is_no_call_is_content() {
    let bad = |inner: &str, remark: &str| {
        let text = format!("<tool_call>{inner}</tool_call>");
        check(&text, (None, &text, &[], &format!("!{remark}")));
        let then = format!("{text}\n{}", call(""));
        check(&then, (None, &text, &["f {}"], &format!("!{remark}")));
    };
    bad("", "call_no_name");
    bad(&pair("n", "1"), "call_no_name");
    bad("\n{\"name\":\"f\",\"arguments\":{}}\n", "call_bad_name");
    bad("two words", "call_bad_name");
    bad("f<arg_value>1</arg_value>", "call_bad_tags");
    bad("f<arg_key></arg_key><arg_value>1</arg_value>", "call_bad_tags");
    bad("f<arg_key>n<arg_value>1</arg_value>", "call_bad_tags");
    let open = "<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>1";
    check(open, (None, open, &[], "!call_unclosed"));
    check(&format!("ok \n{open}<|user|>"), (None, &format!("ok \n{open}"), &[], "!call_unclosed"));
    check(&format!("{open}{}", call("")), (None, open, &["f {}"], "!call_unclosed"));
    let left = "<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>";
    case("", true).check_stopped(open, "1", (None, left, &[], "!call_unclosed"));
}

#[test]
fn f11_f12_f18_f19_text_around_calls_is_kept() {
    let (one, two) = (call(&pair("n", "1")), call(&pair("n", "2")));
    let calls: &[&str] = &["f {\"n\":1}", "f {\"n\":2}"];
    check(&format!("Both.\n{one}\n{two}"), (None, "Both.", calls, ""));
    check(&format!("{one}done"), (None, "done", &calls[..1], ""));
    let prose = "Use `~<tool_call>f~</tool_call>` like this";
    check(prose, (None, &prose.replace('~', ""), &[], "marker_as_text"));
}

#[test]
fn stray_markers_stay_visible() {
    check("a</tool_call>b", (None, "a</tool_call>b", &[], "!stray_marker"));
    case("", true).check("a<arg_key>b", (None, "a<arg_key>b", &[], "!stray_marker"));
    check("a<|assistant|>b", (None, "ab", &[], "!control_token"));
    check("a<|user|>b", (None, "a", &[], "!text_after_end"));
}

#[test]
fn keys_stay_in_order_and_the_last_value_wins() {
    let all = [pair("n", "1"), pair("zip", "z"), pair("n", "2")].concat();
    check(&call(&all), (None, "", &[r#"f {"n":2,"zip":"z"}"#], "call_key_repeated"));
}

/// Our choice: a key, or the name of a tool on offer, ends the thought.
#[test]
fn g04_a_call_in_an_open_thought() {
    let ended = "call_ended_reasoning";
    let go = format!("<think>go\n{}", call(&pair("n", "1")));
    check(&go, (Some("go"), "", &["f {\"n\":1}"], ended));
    check("<think>go<tool_call>get_time</tool_call>", (Some("go"), "", &["get_time {}"], ended));
    let talk = |thought: &str| {
        let output = format!("<think>{thought}</think>hi");
        check(&output, (Some(thought), "hi", &[], "marker_in_reasoning"));
    };
    talk("some models use <tool_call> tags");
    talk("use <tool_call>NAME</tool_call> tags");
    talk("use <tool_call>f\n<arg_key>n</arg_key>");
    let open = "<tool_call>f\n<arg_key>n";
    let expected = (Some("go"), open, &[] as &[&str], "!call_unclosed call_ended_reasoning");
    check(&format!("<think>go{open}"), expected);
}

#[test]
fn g01_g02_g03_g05_thoughts_by_the_prompt() {
    let opened = case("<think>x</think>y<|user|>\nz<|assistant|>\n<think>", true);
    opened.check("plan</think>\n\nanswer", (Some("plan"), "answer", &[], ""));
    let unclosed = case("<think>x<|user|>\nz<|assistant|>\n", true);
    unclosed.check("hi", (None, "hi", &[], ""));
    let off = case("<|assistant|>\n<think></think>\n", true);
    off.check(&call(""), (None, "", &["f {}"], ""));
    check("<think>plan<|user|>", (Some("plan"), "", &[], "!reasoning_unclosed"));
}
