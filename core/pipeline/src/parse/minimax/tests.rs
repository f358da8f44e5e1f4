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
    [json!({"type": "function", "function": function}), json!({"name": "ls"})]
});

fn case(prompt: &'static str) -> Case<'static> {
    let call = ["<minimax:tool_call>", "</minimax:tool_call>"];
    let added = [&["<think>", "</think>", "]~!b[", "]~b]", "[e~["][..], &call].concat();
    let words = ["<invoke", " name=\"", "\">", "</parameter>\n", "</in", "voke>\n"];
    let fake = Fake::new(&added, &words);
    Case { family: Family::MiniMaxM2, fake, close: "[e~[", prompt, tools: &*TOOLS }
}

fn check(output: &str, expected: Expected<'_>) {
    case("]~b]ai\n").check(output, expected);
}

fn parameter(key: &str, value: &str) -> String {
    format!("<parameter name=\"{key}\">{value}</parameter>\n")
}

fn invoke(name: &str, parameters: &str) -> String {
    format!("<invoke name=\"{name}\">\n{parameters}</invoke>\n")
}

fn section(invokes: &str) -> String {
    format!("<minimax:tool_call>\n{invokes}</minimax:tool_call>")
}

fn call(parameters: &str) -> String {
    section(&invoke("f", parameters))
}

#[test]
fn good_output() {
    check("hi[e~[", (None, "hi", &[], ""));
    let one = call(&parameter("n", "1"));
    check(&format!("{one}[e~["), (None, "", &["f {\"n\":1}"], ""));
    let all = format!("<think>\nplan\n</think>\n\nok\n\n{one}[e~[");
    check(&all, (Some("plan"), "ok", &["f {\"n\":1}"], ""));
    let two = section(&[invoke("f", &parameter("n", "1")), invoke("ls", "")].concat());
    check(&two, (None, "", &["f {\"n\":1}", "ls {}"], ""));
    check(&format!("{one}\n{one}"), (None, "", &["f {\"n\":1}", "f {\"n\":1}"], ""));
}

#[test]
fn names_in_other_quotes() {
    for quote in ["'", ""] {
        let other = call(&parameter("n", "1")).replace('"', quote);
        check(&other, (None, "", &["f {\"n\":1}"], ""));
    }
    check(&call("").replace("\"f\"", "\"f\" "), (None, "", &["f {}"], ""));
}

#[test]
fn f03_f04_f05_text_is_typed_by_the_schema() {
    let all = [parameter("zip", "02134"), parameter("n", "5.0"), parameter("b", "True")].concat();
    check(&call(&all), (None, "", &[r#"f {"zip":"02134","n":5,"b":true}"#], ""));
    let loc = call(&parameter("loc", r#"{"city": "Paris"}"#));
    check(&loc, (None, "", &[r#"f {"loc":{"city": "Paris"}}"#], ""));
    let odd = call(&parameter("n", "next Tuesday"));
    check(&odd, (None, "", &[r#"f {"n":"next Tuesday"}"#], "call_value_unfit"));
    let unknown = section(&invoke("g", &parameter("n", "7")));
    check(&unknown, (None, "", &[r#"g {"n":"7"}"#], "unknown_tool"));
}

#[test]
fn f06_f07_empty_values_and_newlines() {
    check(&call(&parameter("n", "")), (None, "", &["f {}"], "call_value_empty"));
    check(&call(&parameter("zip", "")), (None, "", &[r#"f {"zip":""}"#], ""));
    check(&call(&parameter("zip", "\na\n")), (None, "", &[r#"f {"zip":"\na\n"}"#], ""));
    check(&call(&parameter("n", "\n1\n")), (None, "", &["f {\"n\":1}"], ""));
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
    zip("a</parameter>\n</invoke>\nb");
    zip("\n<parameter name=\"x\">1");
    zip("<parameter name=\"n\">");
    zip("</invoke>");
}

#[test]
fn missing_tags_are_tolerated() {
    let missing = |inner: &str, expected: &str| {
        check(&section(inner), (None, "", &[expected], "call_tag_missing"));
    };
    let all = r#"f {"zip":"1","n":2}"#;
    let (zip, n) = (parameter("zip", "1"), parameter("n", "2"));
    let open = |parameter: &str| parameter.replace("</parameter>", "");
    missing(&invoke("f", &[open(&zip), n.clone()].concat()), all);
    missing(&invoke("f", &[zip.clone(), open(&n)].concat()), all);
    missing(&invoke("f", &[zip.clone(), n.clone()].concat()).replace("</invoke>", ""), all);
    missing("<invoke name=\"f\">", "f {}");
}

#[test]
fn f09_f14_what_is_no_call_is_content() {
    let bad = |inner: &str, remark: &str| {
        let text = section(inner);
        check(&text, (None, &text, &[], &format!("!{remark}")));
        let then = format!("{text}\n{}", call(""));
        check(&then, (None, &text, &["f {}"], &format!("!{remark}")));
    };
    bad("", "call_bad_tags");
    bad("{\"name\":\"f\",\"arguments\":{}}", "call_bad_tags");
    bad("<invoke name=\"\"></invoke>", "call_no_name");
    bad("<invoke f></invoke>", "call_bad_tags");
    // Calls between one pair of markers count together.
    bad(&[invoke("f", ""), "then\n".to_owned()].concat(), "call_bad_tags");
    bad(&[invoke("f", ""), invoke("f", "text")].concat(), "call_bad_tags");
    let open = "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"n\">1";
    check(open, (None, open, &[], "!call_unclosed"));
    check(&format!("ok \n{open}[e~["), (None, &format!("ok \n{open}"), &[], "!call_unclosed"));
    let whole = "<minimax:tool_call>\n<invoke name=\"f\">\n</invoke>";
    check(whole, (None, whole, &[], "!call_unclosed"));
    check(&format!("{whole}{}", call("")), (None, whole, &["f {}"], "!call_unclosed"));
    let left = "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"n\">";
    case("").check_stopped(open, "1", (None, left, &[], "!call_unclosed"));
}

#[test]
fn f11_f12_f18_f19_text_around_calls_is_kept() {
    let one = call(&parameter("n", "1"));
    let calls: &[&str] = &["f {\"n\":1}", "f {\"n\":1}"];
    check(&format!("a \n{one}\n b{one}\nc\n"), (None, "a\nb\nc\n", calls, ""));
    check(&format!("{one}done"), (None, "done", &calls[..1], ""));
    let bare = invoke("f", "");
    check(&bare, (None, &bare, &[], ""));
    let prose = "Use ~<minimax:tool_call>x~</minimax:tool_call>";
    check(prose, (None, &prose.replace('~', ""), &[], "marker_as_text"));
}

#[test]
fn stray_markers_stay_visible() {
    let stray = "a</minimax:tool_call>b";
    check(stray, (None, stray, &[], "!stray_marker"));
    check("a</think>b", (None, "a</think>b", &[], "!stray_marker"));
    check("a[e~[b", (None, "a", &[], "!text_after_end"));
}

#[test]
fn keys_stay_in_order_and_the_last_value_wins() {
    let all = [parameter("n", "1"), parameter("zip", "z"), parameter("n", "2")].concat();
    check(&call(&all), (None, "", &[r#"f {"n":2,"zip":"z"}"#], "call_key_repeated"));
}

#[test]
fn a_model_may_think_again() {
    let one = call("");
    let output = format!("<think>a</think>b\n<think>c</think>{one}");
    check(&output, (Some("a\nc"), "b", &["f {}"], "think_again"));
    let after = format!("<think>a</think>{one}<think>c</think>d");
    check(&after, (Some("a\nc"), "d", &["f {}"], "think_again"));
}

/// Our choice: an attempt at a call ends the thought, talk about calls does not.
#[test]
fn g04_a_call_in_an_open_thought() {
    let go = format!("<think>go\n{}", call(&parameter("n", "1")));
    check(&go, (Some("go"), "", &["f {\"n\":1}"], "call_ended_reasoning"));
    let talk = |thought: &str| {
        let output = format!("<think>{thought}</think>hi");
        check(&output, (Some(thought), "hi", &[], "marker_in_reasoning"));
    };
    talk("some models use <minimax:tool_call> tags");
    talk("like <minimax:tool_call><invoke name=\"f\">");
}

#[test]
fn g01_g02_g03_g05_thoughts_by_the_prompt() {
    let opened = case("<think>x</think>y[e~[\n]~b]ai\n<think>\n");
    opened.check("plan</think>\n\nanswer", (Some("plan"), "answer", &[], ""));
    opened.check("plan[e~[", (Some("plan"), "", &[], "!reasoning_unclosed"));
    opened.check("plan", (Some("plan"), "", &[], "reasoning_unclosed"));
    let unclosed = case("]~b]ai\n<think>x[e~[\n]~b]ai\n");
    unclosed.check(&call(""), (None, "", &["f {}"], ""));
}
