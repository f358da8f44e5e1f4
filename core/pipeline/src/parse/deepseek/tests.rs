use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::parse::fake::{Case, Expected, Fake};
use crate::render::Family;

static TOOLS: LazyLock<[Value; 1]> = LazyLock::new(|| [json!({"name": "f"})]);

const END: &str = "<｜end▁of▁sentence｜>";

fn case(family: Family, prompt: &'static str) -> Case<'static> {
    let added = [
        "<think>",
        "</think>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>",
        "<｜tool▁outputs▁begin｜>",
        "<｜User｜>",
        "<｜Assistant｜>",
        END,
    ];
    let fake = Fake::new(&added, &["```json\n", "function", "\n```", "}\n", "<｜"]);
    Case { family, fake, close: END, prompt, tools: &*TOOLS }
}

/// A text with markers in short: `⟦⟧` around a section, `⟨⟩` around a call, `¦` between, `∎` at the end.
fn spelled(short: &str) -> String {
    let mut text = String::new();
    for character in short.chars() {
        match character {
            '⟦' => text.push_str("<｜tool▁calls▁begin｜>"),
            '⟧' => text.push_str("<｜tool▁calls▁end｜>"),
            '⟨' => text.push_str("<｜tool▁call▁begin｜>"),
            '⟩' => text.push_str("<｜tool▁call▁end｜>"),
            '¦' => text.push_str("<｜tool▁sep｜>"),
            '∎' => text.push_str(END),
            other => text.push(other),
        }
    }
    text
}

fn check_as(family: Family, output: &str, expected: Expected<'_>) {
    let content = spelled(expected.1);
    let reasoning = expected.0.map(spelled);
    let expected = (reasoning.as_deref(), content.as_str(), expected.2, expected.3);
    case(family, "<｜Assistant｜>").check(&spelled(output), expected);
}

/// A call of V3.1.
fn call(json: &str) -> String {
    format!("⟨f¦{json}⟩")
}

fn v31(output: &str, expected: Expected<'_>) {
    check_as(Family::DeepSeekV31, output, expected);
}

fn v3(output: &str, expected: Expected<'_>) {
    check_as(Family::DeepSeekV3, output, expected);
}

/// A call of V3.
fn fenced(json: &str) -> String {
    format!("⟨function¦f\n```json\n{json}\n```⟩")
}

#[test]
fn good_output_of_v3() {
    v3("hi∎", (None, "hi", &[], ""));
    v3(&format!("⟦{}⟧∎", fenced("{}")), (None, "", &["f {}"], ""));
    let two = format!("ok\n⟦{}\n{}⟧∎", fenced("{\"a\": 1}"), fenced("{\"a\":\n2}"));
    v3(&two, (None, "ok", &["f {\"a\": 1}", "f {\"a\":\n2}"], ""));
    let all = format!("<think>\nplan\n</think>\n\n⟦{}⟧∎", fenced("{}"));
    v3(&all, (Some("plan"), "", &["f {}"], ""));
    v3(&format!("⟦{}⟧", fenced("{\"s\":\"```\"}")), (None, "", &["f {\"s\":\"```\"}"], ""));
    v3(&format!("⟦{}⟧", fenced("{}").replace("```json", "```")), (None, "", &["f {}"], ""));
}

#[test]
fn good_output_of_v31() {
    v31("hi∎", (None, "hi", &[], ""));
    v31(&format!("⟦{}⟧∎", call("{}")), (None, "", &["f {}"], ""));
    let two = format!("ok\n⟦{}\n{}⟧∎", call("{\"a\": 1}"), call(" {\"a\":2}\n"));
    v31(&two, (None, "ok", &["f {\"a\": 1}", "f {\"a\":2}"], ""));
    v31(&format!("⟦\n{}\n⟧done", call("{}")), (None, "done", &["f {}"], ""));
    v31(&format!("⟦{}⟧", call("{}").replace('f', "g")), (None, "", &["g {}"], "unknown_tool"));
    // A tool may be called `function`.
    let named = call("{}").replace('f', "function");
    v31(&format!("⟦{named}⟧"), (None, "", &["function {}"], "unknown_tool"));
}

#[test]
fn each_reads_the_others_form() {
    v3(&format!("⟦{}⟧", call("{}")), (None, "", &["f {}"], "call_other_form"));
    v31(&format!("⟦{}⟧", fenced("{}")), (None, "", &["f {}"], "call_other_form"));
    v3("⟦⟨function¦f\n{\"a\":1}⟩⟧", (None, "", &["f {\"a\":1}"], "call_fence_missing"));
}

#[test]
fn f01_f02_f03_arguments_are_the_models_bytes() {
    let same = |json: &str| {
        v31(&format!("⟦{}⟧", call(json)), (None, "", &[&format!("f {json}")], ""));
        v3(&format!("⟦{}⟧", fenced(json)), (None, "", &[&format!("f {json}")], ""));
    };
    same(r#"{"s": "a\"b\\n", "zip":"02134"}"#);
    same(r#"{"b":1.50,"a":{"x":[1, 2]},"b":2}"#);
    same(r#"{"s":"</think>"}"#);
}

#[test]
fn f09_f14_what_is_no_call_is_content() {
    let bad = |inner: &str, remark: &str| {
        let text = format!("⟦⟨{inner}⟩⟧");
        v31(&text, (None, &text, &[], &format!("!{remark}")));
        // A good call keeps its place; what is not, keeps the section's markers.
        let then = format!("⟦⟨{inner}⟩\n{}⟧", call("{}"));
        let shown = format!("⟦⟨{inner}⟩\n⟧");
        v31(&then, (None, &shown, &["f {}"], &format!("!{remark}")));
        let before = format!("⟦{}\n⟨{inner}⟩⟧", call("{}"));
        let shown = format!("⟨{inner}⟩⟧");
        v31(&before, (None, &shown, &["f {}"], &format!("!{remark}")));
    };
    bad("", "call_no_arguments");
    bad("f", "call_no_arguments");
    bad("f {}", "call_no_arguments");
    bad("f¦", "call_bad_json");
    bad("f¦{", "call_bad_json");
    bad("f¦[]", "call_bad_arguments");
    bad("f¦{}{}", "call_bad_json");
    bad("¦{}", "call_no_name");
    bad("function¦\n```json\n{}\n```", "call_no_name");
    bad("function¦f", "call_no_arguments");
    bad("function¦f\n```json\n{}", "call_bad_json");
    bad("function¦f\n```yaml\n{}\n```", "call_bad_json");
    let ended = "!call_unclosed section_unclosed";
    for open in ["⟦⟨f¦{\"a\":", "⟦⟨f", "⟦⟨", "⟦ \n⟨f¦{}"] {
        v31(open, (None, open, &[], ended));
        v31(&format!("{open}∎"), (None, open, &[], ended));
    }
    let left = spelled("⟦⟨f¦{\"a\":");
    let stopped = spelled("⟦⟨f¦{\"a\":1");
    let expected: Expected<'_> = (None, &left, &[], ended);
    case(Family::DeepSeekV31, "").check_stopped(&stopped, "1", expected);
}

#[test]
fn sections_that_are_not_as_they_should_be() {
    let one = call("{}");
    v31(&one, (None, "", &["f {}"], "section_missing"));
    v31(&format!("a{one}b"), (None, "a\nb", &["f {}"], "section_missing"));
    v31(&format!("{one}⟧"), (None, "⟧", &["f {}"], "!section_missing stray_marker"));
    v31(&format!("⟦{one}"), (None, "", &["f {}"], "section_unclosed"));
    v31(&format!("⟦{one}∎"), (None, "", &["f {}"], "!section_unclosed"));
    v31("⟦⟧", (None, "⟦⟧", &[], "!section_empty"));
    v31("a⟦ \n⟧b", (None, "a⟦ \n⟧b", &[], "!section_empty"));
    v31("⟦", (None, "⟦", &[], "!section_unclosed"));
    v31("⟦ ∎", (None, "⟦ ", &[], "!section_unclosed"));
    v31("⟦a⟧b", (None, "⟦a⟧b", &[], "!text_in_section"));
    v31(&format!("⟦a{one}⟧b"), (None, "⟦a\n⟧b", &["f {}"], "!text_in_section"));
    v31(&format!("⟦{one}a{one}⟧b"), (None, "a\nb", &["f {}"; 2], "!text_in_section"));
    v31(&format!("⟦⟦{one}⟧"), (None, "⟦", &["f {}"], "!section_unclosed"));
    v31(
        &format!("⟦<think>a</think>{one}⟧"),
        (
            Some("a"),
            "⟦\n⟧",
            &["f {}"],
            "!section_unclosed think_again section_missing stray_marker",
        ),
    );
    v31(&format!("⟦⟨f¦{{⟧{one}"), (None, "⟦⟨f¦{⟧", &["f {}"], "!call_unclosed section_missing"));
    v31(&format!("⟦⟨f¦{{⟦{one}⟧"), (None, "⟦⟨f¦{", &["f {}"], "!call_unclosed section_unclosed"));
    v31(&format!("⟦{one}⟩⟧"), (None, "⟩", &["f {}"], "!stray_marker"));
    v31("a¦b", (None, "a¦b", &[], "!stray_marker"));
    v31("a<｜tool▁outputs▁begin｜>b", (None, "ab", &[], "!control_token"));
    v31("a∎b", (None, "a", &[], "!text_after_end"));
}

#[test]
fn f11_f12_f18_f19_text_around_calls_is_kept() {
    let one = call("{}");
    v31(&format!("Both.\n⟦{one}{one}⟧done"), (None, "Both.\ndone", &["f {}"; 2], ""));
    let prose = "Use ~<｜tool▁calls▁begin｜>~<｜tool▁call▁begin｜>f";
    v31(prose, (None, &prose.replace('~', ""), &[], "marker_as_text"));
}

/// Our choice: a call ends the thought, talk about calls does not.
#[test]
fn g04_a_call_in_an_open_thought() {
    let one = call("{}");
    let go = |output: &str, remarks: &str| {
        v31(&format!("<think>go\n{output}"), (Some("go"), "", &["f {}"], remarks));
    };
    go(&format!("⟦{one}⟧"), "call_ended_reasoning");
    go(&one, "call_ended_reasoning section_missing");
    v31(&format!("<think>go⟦{one}⟧a"), (Some("go"), "a", &["f {}"], "call_ended_reasoning"));
    let talk = |thought: &str, remarks: &str| {
        v31(&format!("<think>{thought}</think>hi"), (Some(thought), "hi", &[], remarks));
    };
    talk("use ⟦ and ⟧ tags", "!marker_in_reasoning stray_marker");
    talk("use ⟦ tags", "marker_in_reasoning");
    talk("use ⟦", "marker_in_reasoning");
    talk("use ⟦⟧", "marker_in_reasoning");
    talk("use ⟦⟨ then a name⟩", "marker_in_reasoning");
    talk("use ⟦⟨f¦{}", "marker_in_reasoning");
    talk("use ⟨ then a name", "marker_in_reasoning");
    let cut = (Some("go"), "⟦⟨f¦", &[] as &[&str]);
    let remarks = "!call_unclosed call_ended_reasoning section_unclosed";
    v31("<think>go⟦⟨f¦", (cut.0, cut.1, cut.2, remarks));
    let remarks = "!section_unclosed call_ended_reasoning";
    v31("<think>go⟦", (Some("go"), "⟦", &[], remarks));
}

#[test]
fn g01_g02_g03_g05_thoughts_by_the_prompt() {
    let from = |prompt| case(Family::DeepSeekV31, prompt);
    let call = spelled(&format!("⟦{}⟧", call("{}")));
    from("<｜Assistant｜></think>").check(&call, (None, "", &["f {}"], ""));
    let opened = from("<｜Assistant｜></think>x<｜User｜>y<｜Assistant｜><think>\n");
    opened.check("plan</think>\n\nanswer", (Some("plan"), "answer", &[], ""));
    opened.check("plan", (Some("plan"), "", &[], "reasoning_unclosed"));
    from("<think>x<｜User｜>y<｜Assistant｜>").check("hi", (None, "hi", &[], ""));
    v31("a</think>b", (None, "a</think>b", &[], "!stray_marker"));
}
