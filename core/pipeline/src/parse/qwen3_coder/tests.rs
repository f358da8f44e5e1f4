use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::parse::fake::{Case, Expected, Fake};
use crate::render::Family;

static TOOLS: LazyLock<[Value; 2]> = LazyLock::new(|| {
    let function = json!({"name": "f", "parameters": {"type": "object", "properties": {
        "zip": {"type": "string"},
        "n": {"type": "integer"},
        "b": {"type": "boolean"},
        "arr": {"type": "array"},
        "loc": {"anyOf": [{"type": "object"}, {"type": "null"}]},
        "limit": {"type": "integer"},
        "note": {"type": "string"},
    }}});
    [json!({"type": "function", "function": function}), json!({"name": "ls"})]
});

fn case(prompt: &'static str) -> Case<'static> {
    let added =
        ["<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_start|>", "<|im_end|>"];
    let words = ["</parameter>\n", "</", "parameter", "<function=", ">\n", "function>"];
    let fake = Fake::new(&added, &words);
    Case { family: Family::Qwen3Coder, fake, close: "<|im_end|>", prompt, tools: &*TOOLS }
}

fn check(output: &str, expected: Expected<'_>) {
    case("<|im_start|>assistant\n").check(output, expected);
}

/// A parameter as the template writes it.
fn parameter(key: &str, value: &str) -> String {
    format!("<parameter={key}>\n{value}\n</parameter>\n")
}

fn function(name: &str, parameters: &str) -> String {
    format!("<function={name}>\n{parameters}</function>")
}

fn call(parameters: &str) -> String {
    format!("<tool_call>\n{}\n</tool_call>", function("f", parameters))
}

#[test]
fn good_output() {
    check("hi<|im_end|>", (None, "hi", &[], ""));
    check(&format!("{}<|im_end|>", call("")), (None, "", &["f {}"], ""));
    check(
        &format!("<think>\nplan\n</think>\n\nok\n{}", call(&parameter("n", "1"))),
        (Some("plan"), "ok", &["f {\"n\":1}"], ""),
    );
    let two = format!("{}\n{}", call(&parameter("n", "1")), call(&parameter("n", "2")));
    check(&two, (None, "", &["f {\"n\":1}", "f {\"n\":2}"], ""));
    // Several functions between one pair of markers.
    let both = format!("<tool_call>{}\n{}</tool_call>", function("f", ""), function("ls", ""));
    check(&both, (None, "", &["f {}", "ls {}"], ""));
    // On one line, as some fine-tunes write it.
    let line = "<tool_call><function=f><parameter=n>1</parameter></function></tool_call>";
    check(line, (None, "", &["f {\"n\":1}"], ""));
}

#[test]
fn f03_text_is_typed_by_the_schema() {
    let all = [parameter("zip", "02134"), parameter("n", "5.0"), parameter("b", "True")].concat();
    check(&call(&all), (None, "", &[r#"f {"zip":"02134","n":5,"b":true}"#], ""));
    let other = [parameter("b", "false"), parameter("zip", "true")].concat();
    check(&call(&other), (None, "", &[r#"f {"b":false,"zip":"true"}"#], ""));
}

#[test]
fn f04_a_schema_without_type() {
    let loc = call(&parameter("loc", r#"{"city":"Paris"}"#));
    check(&loc, (None, "", &[r#"f {"loc":{"city":"Paris"}}"#], ""));
}

#[test]
fn f05_a_value_that_does_not_fit_stays() {
    let odd = [parameter("n", "next Tuesday"), parameter("arr", "[1, 2")].concat();
    let expected = r#"f {"n":"next Tuesday","arr":"[1, 2"}"#;
    check(&call(&odd), (None, "", &[expected], "call_value_unfit"));
    let unlisted = call(&parameter("other", "7"));
    check(&unlisted, (None, "", &[r#"f {"other":"7"}"#], ""));
    let unknown = format!("<tool_call>{}</tool_call>", function("g", &parameter("n", "7")));
    check(&unknown, (None, "", &[r#"g {"n":"7"}"#], "unknown_tool"));
}

/// Our choice: nothing is no number, but it is a text.
#[test]
fn f06_an_empty_parameter() {
    let limit = "<parameter=limit>\n</parameter>\n";
    let note = "<parameter=note>\n</parameter>\n";
    check(&call(limit), (None, "", &["f {}"], "call_value_empty"));
    check(&call(note), (None, "", &[r#"f {"note":""}"#], ""));
    let both = call(&format!("{limit}{note}"));
    check(&both, (None, "", &[r#"f {"note":""}"#], "call_value_empty"));
    check(&call("<parameter=note></parameter>"), (None, "", &[r#"f {"note":""}"#], ""));
}

#[test]
fn f07_one_newline_on_each_side_is_the_templates() {
    let note = |text: &str, value: &str| {
        let expected = format!("f {{\"note\":{}}}", Value::from(value));
        check(&call(&parameter("note", text)), (None, "", &[&expected], ""));
    };
    note("\nline1\nline2\n", "\nline1\nline2\n");
    note("", "");
    note("\n", "\n");
    note("  two  ", "  two  ");
    note("a\r", "a");
    note("caf\u{e9} \"q\" \\ \t", "caf\u{e9} \"q\" \\ \t");
}

/// Our choice: a closing tag counts where the next thing of the grammar follows it.
#[test]
fn f08_text_that_looks_like_a_tag() {
    let zip = |text: &str| {
        let expected = format!("f {{\"zip\":{},\"n\":1}}", Value::from(text));
        let both = [parameter("zip", text), parameter("n", "1")].concat();
        check(&call(&both), (None, "", &[&expected], ""));
    };
    zip("a</parameter>b");
    zip("a</parameter>\nb</parameter> c");
    zip("a\n</function>\nb");
    zip("a</parameter>\n</function>\nb");
    zip("<parameter=x>\n1");
    zip("a <parameter=n>");
    zip("<function=f>");
    check(
        &call(&parameter("zip", "~<tool_call>~</tool_call>")),
        (None, "", &[r#"f {"zip":"<tool_call></tool_call>"}"#], ""),
    );
    // The brackets of a thought are letters of a value, as tokens too.
    let thought = call(&parameter("zip", "<think>x</think>"));
    check(&thought, (None, "", &[r#"f {"zip":"<think>x</think>"}"#], ""));
}

#[test]
fn missing_tags_are_tolerated() {
    let missing = |inner: &str, expected: &str| {
        let output = format!("<tool_call>\n{inner}\n</tool_call>");
        check(&output, (None, "", &[expected], "call_tag_missing"));
    };
    let all = r#"f {"zip":"1","n":2}"#;
    missing(&function("f", "<parameter=zip>\n1\n<parameter=n>\n2\n</parameter>\n"), all);
    missing(&function("f", "<parameter=zip>\n1\n</parameter>\n<parameter=n>\n2\n"), all);
    missing(&function("f", "<parameter=zip>\n1\n<parameter=n>\n2\n"), all);
    missing("<function=f>\n<parameter=zip>\n1\n</parameter>\n<parameter=n>\n2\n</parameter>", all);
    missing("<function=f>\n<parameter=zip>\n1\n</parameter>\n<parameter=n>\n2", all);
    missing("<function=f>\n", "f {}");
    // A parameter that the tool does not have, or that was given already, is text.
    check(
        &call("<parameter=zip>\n1\n<parameter=x>\n2\n</parameter>\n"),
        (None, "", &[r#"f {"zip":"1\n<parameter=x>\n2"}"#], ""),
    );
}

#[test]
fn missing_outer_markers_are_tolerated() {
    let f = function("f", &parameter("n", "1"));
    let calls: &[&str] = &["f {\"n\":1}"];
    check(&format!("ok\n{f}\n</tool_call>"), (None, "ok", calls, "call_opener_missing"));
    check(&format!("ok: {f}</tool_call>"), (None, "ok:", calls, "call_opener_missing"));
    check(&format!("{f}<|im_end|>"), (None, "", calls, "call_opener_missing"));
    check(&f, (None, "", calls, "call_opener_missing"));
    check(&format!("<tool_call>\n{f}"), (None, "", calls, "call_close_missing"));
    check(&format!("<tool_call>\n{f}\n<|im_end|>"), (None, "", calls, "call_close_missing"));
    let twice: &[&str] = &["f {\"n\":1}", "f {\"n\":1}"];
    let both = format!("<tool_call>\n{f}\n<tool_call>\n{f}\n</tool_call>");
    check(&both, (None, "", twice, "call_close_missing"));
    check(&format!("{f}\n{f}"), (None, "", twice, "call_opener_missing"));
    let mixed = format!("{f}\n<tool_call>\n{f}\n</tool_call>");
    check(&mixed, (None, "", twice, "call_opener_missing"));
    let after = format!("{}\n{f}", call(""));
    check(&after, (None, "", &["f {}", "f {\"n\":1}"], "call_opener_missing"));
}

#[test]
fn f11_f13_f18_text_about_calls_is_text() {
    let f = function("f", "");
    let text = |text: &str| check(text, (None, text, &[], ""));
    text(&format!("Use {f}"));
    text(&format!("```\n{f}\n```"));
    text(&format!("{f}\nlike this"));
    text(&function("unknown", ""));
    text("<function=f>\nnot closed by a tag");
    text("<function=f>\n<parameter=n>\n1");
    let stray = format!("{f} or so</tool_call>");
    check(&stray, (None, &stray, &[], "!stray_marker"));
    text("x < y, <fun>, </function> and <function");
    let f = format!("~<tool_call>{f}~</tool_call>");
    check(&f, (None, &f.replace('~', ""), &[], "marker_as_text"));
}

#[test]
fn f12_f19_text_around_calls_is_kept() {
    let (one, two) = (call(&parameter("n", "1")), call(&parameter("n", "2")));
    let calls: &[&str] = &["f {\"n\":1}", "f {\"n\":2}"];
    let both = format!("I will check both.\n{one}\n{two}");
    check(&both, (None, "I will check both.", calls, ""));
    check(&format!("{one}done"), (None, "done", &calls[..1], ""));
    check(&format!("a \n{one}\n b{two}\nc\n"), (None, "a\nb\nc\n", calls, ""));
}

#[test]
fn f09_f14_what_is_no_call_is_content() {
    let bad = |inner: &str, remark: &str| {
        let text = format!("<tool_call>{inner}</tool_call>");
        check(&text, (None, &text, &[], &format!("!{remark}")));
        let then = format!("{text}\n{}", call(""));
        check(&then, (None, &text, &["f {}"], &format!("!{remark}")));
    };
    bad("", "call_bad_tags");
    bad("\n{\"name\":\"f\",\"arguments\":{}}\n", "call_bad_tags");
    bad("<function=>\n</function>", "call_no_name");
    bad("<function=f\n</function>", "call_bad_tags");
    bad("<function=f>text</function>", "call_bad_tags");
    bad("<function=f></function>text", "call_bad_tags");
    bad("text<function=f></function>", "call_bad_tags");
    bad("<function=f><parameter=n</function>", "call_bad_tags");
    let open = "<tool_call>\n<function=f>\n<parameter=n>\n1";
    check(open, (None, open, &[], "!call_unclosed"));
    check(&format!("{open}<|im_end|>"), (None, open, &[], "!call_unclosed"));
    let left =
        (None, "<tool_call>\n<function=f>\n<parameter=n>\n", &[] as &[&str], "!call_unclosed");
    case("").check_stopped(open, "1", left);
    check("a</tool_call>b", (None, "a</tool_call>b", &[], "!stray_marker"));
}

#[test]
fn keys_stay_in_order_and_the_last_value_wins() {
    let all = [parameter("n", "1"), parameter("zip", "z"), parameter("n", "2")].concat();
    check(&call(&all), (None, "", &[r#"f {"n":2,"zip":"z"}"#], "call_key_repeated"));
    let quoted = call(&parameter("a\"b", "x"));
    check(&quoted, (None, "", &[r#"f {"a\"b":"x"}"#], ""));
}

/// Our choice: an attempt at a call ends the thought, talk about calls does not.
#[test]
fn g04_a_call_in_an_open_thought() {
    let go = format!("<think>go\n{}", call(&parameter("n", "1")));
    check(&go, (Some("go"), "", &["f {\"n\":1}"], "call_ended_reasoning"));
    check(
        "<think>some models use <tool_call> tags</think>hi",
        (Some("some models use <tool_call> tags"), "hi", &[], "marker_in_reasoning"),
    );
    let closed = format!("<think>like {}", "<tool_call>\n<function=f></think>hi");
    let thought = Some("like <tool_call>\n<function=f>");
    check(&closed, (thought, "hi", &[], "marker_in_reasoning"));
    let f = function("f", "");
    check(
        &format!("<think>go\n<tool_call>{f}"),
        (Some("go"), "", &["f {}"], "call_ended_reasoning call_close_missing"),
    );
    // Without opener there is nothing to tell a call in a thought from a thought about calls.
    let bare = format!("a\n{f}");
    check(&format!("<think>{bare}</think>b"), (Some(&bare), "b", &[], ""));
}

#[test]
fn g01_g02_g03_g05_thoughts_by_the_prompt() {
    let opened = case("<|im_start|>assistant\n<think>\n");
    opened.check("plan</think>\n\nanswer", (Some("plan"), "answer", &[], ""));
    opened.check("plan", (Some("plan"), "", &[], "reasoning_unclosed"));
    let call = call("");
    let closed = case("<think>old</think><|im_start|>assistant\n<think>\n\n</think>\n\n");
    closed.check(&call, (None, "", &["f {}"], ""));
    check("<think>s</think>ANSWER", (Some("s"), "ANSWER", &[], ""));
}
