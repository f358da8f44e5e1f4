use serde_json::{Value, json};

use crate::parse::Parsed;
use crate::parse::fake::{Case, Expected, Fake};
use crate::render::Family;

const END: &str = "<|im_end|>";
const SINGULAR: (&str, &str) = ("<|tool_call_section_begin|>", "<|tool_call_section_end|>");

fn case<'a>(prompt: &'a str, tools: &'a [Value]) -> Case<'a> {
    let added = [
        "<think>",
        "</think>",
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        "<|tool_call_begin|>",
        "<|tool_call_end|>",
        "<|tool_call_argument_begin|>",
        "<|im_system|>",
        "<|im_user|>",
        "<|im_assistant|>",
        "<|im_middle|>",
        "[EOS]",
        END,
    ];
    let fake = Fake::new(&added, &["functions.", "<|tool_call_section", "_end|>", "}\n", ":0"]);
    Case { family: Family::KimiK2, fake, close: END, prompt, tools }
}

fn exec() -> Vec<Value> {
    vec![json!({"type": "function", "function": {"name": "exec"}})]
}

/// A text with markers in short: `⟦⟧` around a section, `⟨⟩` around a call, `¦` between.
fn spelled(short: &str) -> String {
    short
        .replace('⟦', "<|tool_calls_section_begin|>")
        .replace('⟧', "<|tool_calls_section_end|>")
        .replace('⟨', "<|tool_call_begin|>")
        .replace('⟩', "<|tool_call_end|>")
        .replace('¦', "<|tool_call_argument_begin|>")
        .replace('∎', END)
}

fn check_with(tools: &[Value], output: &str, expected: Expected<'_>) -> Parsed {
    let (content, reasoning) = (spelled(expected.1), expected.0.map(spelled));
    let expected = (reasoning.as_deref(), content.as_str(), expected.2, expected.3);
    case("<|im_assistant|>assistant<|im_middle|>", tools).check(&spelled(output), expected)
}

fn check(output: &str, expected: Expected<'_>) -> Parsed {
    check_with(&exec(), output, expected)
}

/// The ids of the calls.
fn ids(parsed: &Parsed) -> Vec<&str> {
    parsed.reply.tool_calls.iter().map(|call| call.id.as_str()).collect()
}

const CALL: &str = "⟨functions.exec:0¦{\"c\":\"ls\"}⟩";
const READ: &str = "exec {\"c\":\"ls\"}";

#[test]
fn good_output() {
    check("hi∎", (None, "hi", &[], ""));
    check("hi[EOS]", (None, "hi", &[], ""));
    check(&format!("⟦{CALL}⟧∎"), (None, "", &[READ], ""));
    let two = format!("ok\n⟦{CALL}\n⟨functions.exec:1¦ {{\"b\": 1}} ⟩⟧∎");
    check(&two, (None, "ok", &[READ, "exec {\"b\": 1}"], ""));
    check(&format!("<think>plan</think>⟦{CALL}⟧∎"), (Some("plan"), "", &[READ], ""));
    check(&format!("⟦{CALL}⟧done"), (None, "done", &[READ], ""));
    let dotted = check("⟦⟨functions.a.b:12¦{}⟩⟧", (None, "", &["a.b {}"], "unknown_tool"));
    assert_eq!(ids(&dotted), ["functions.a.b:12"]);
}

#[test]
fn the_models_id_is_the_calls_id() {
    let two = "⟦⟨functions.exec:7¦{}⟩⟨ functions.exec:8\n¦{}⟩⟧";
    let parsed = check(two, (None, "", &["exec {}"; 2], ""));
    assert_eq!(ids(&parsed), ["functions.exec:7", "functions.exec:8"]);
    let same = check(&format!("⟦{CALL}{CALL}⟧"), (None, "", &[READ; 2], "call_id_repeated"));
    assert_eq!(ids(&same)[0], "functions.exec:0");
    assert!(ids(&same)[1].starts_with("call_"), "{same:?}");
}

#[test]
fn f01_f02_f03_arguments_are_the_models_bytes() {
    for json in [r#"{"s": "a\"b\\n", "zip":"02134"}"#, r#"{"b":1.50,"a":{"x":[1, 2]},"b":2}"#] {
        let output = format!("⟦⟨functions.exec:0¦{json}⟩⟧");
        check(&output, (None, "", &[&format!("exec {json}")], ""));
    }
}

#[test]
fn f16_odd_headers_are_read_where_one_tool_fits() {
    let read = |header: &str| {
        let output = format!("⟦⟨{header}¦{{\"c\":\"ls\"}}⟩⟧");
        let parsed = check(&output, (None, "", &[READ], "call_header_odd"));
        assert_eq!(ids(&parsed), [header]);
    };
    for header in ["functionsexec5", "functions.exec", "exec:3", "exec", "functions:exec:1"] {
        read(header);
    }
    for counter in ["call00003", "3", "functions:3", "functions.3", "call_2"] {
        read(counter);
    }
    // Without a section, as in the report.
    let glued = "⟨functionsexec5¦{\"c\":\"ls\"}⟩";
    check(glued, (None, "", &[READ], "section_missing call_header_odd"));
}

#[test]
fn f16_headers_that_fit_no_tool_or_several_are_content() {
    let none = |tools: &[Value], header: &str| {
        let output = format!("⟦⟨{header}¦{{\"c\":\"ls\"}}⟩⟧");
        check_with(tools, &output, (None, &output, &[], "!call_no_name"));
    };
    none(&exec(), "functionsread5");
    none(&exec(), "execute");
    none(&exec(), "");
    none(&[], "functionsexec5");
    let two = [json!({"name": "exec"}), json!({"name": "exec5"})];
    none(&two, "functionsexec5");
    none(&two, "call00003");
    let tools = [
        json!({"name": "read", "parameters": {"properties": {"path": {}}, "required": ["path"]}}),
        json!({"name": "exec", "parameters": {"properties": {"c": {}, "t": {}}}}),
        json!({"name": "need", "parameters": {"properties": {"c": {}, "t": {}}, "required": ["t"]}}),
    ];
    let output = "⟦⟨call00003¦{\"c\":\"ls\"}⟩⟧";
    check_with(&tools, output, (None, "", &[READ], "call_header_odd"));
    let other = "⟦⟨call00003¦{\"x\":1}⟩⟧";
    check_with(&tools, other, (None, other, &[], "!call_no_name"));
}

#[test]
fn the_singular_spelling_of_a_section() {
    let (open, close) = SINGULAR;
    let remark = "section_misspelt";
    check(&format!("{open}{CALL}{close}"), (None, "", &[READ], remark));
    check(&format!("ok\n{open}\n{CALL}\n{close}\ndone"), (None, "ok\ndone", &[READ], remark));
    check(
        &format!("{open}{CALL}{CALL}⟧"),
        (None, "", &[READ; 2], "section_misspelt call_id_repeated"),
    );
    check(&format!("⟦{CALL}{close}∎"), (None, "", &[READ], remark));
    check(
        &format!("<think>go{open}{CALL}{close}"),
        (Some("go"), "", &[READ], "section_misspelt call_ended_reasoning"),
    );
    // Away from calls it is text.
    let text = format!("{open} and {close}");
    check(&text, (None, &text, &[], "marker_as_text"));
    let bad = format!("{open}⟨x y¦{{}}⟩{close}");
    check(&bad, (None, &bad, &[], "!section_misspelt call_no_name"));
}

#[test]
fn f09_f14_what_is_no_call_is_content() {
    let bad = |inner: &str, remark: &str| {
        let text = format!("⟦⟨{inner}⟩⟧");
        check(&text, (None, &text, &[], &format!("!{remark}")));
        let then = format!("⟦⟨{inner}⟩{CALL}⟧");
        let shown = format!("⟦⟨{inner}⟩\n⟧");
        check(&then, (None, &shown, &[READ], &format!("!{remark}")));
    };
    bad("", "call_no_arguments");
    bad("functions.exec:0", "call_no_arguments");
    bad("functions.exec:0¦", "call_bad_json");
    bad("functions.exec:0¦{\"c\"", "call_bad_json");
    bad("functions.exec:0¦7", "call_bad_arguments");
    bad("functions.exec:0¦{}¦{}", "call_bad_json");
    bad("functions.exec:x¦{}", "call_no_name");
    let ended = "!call_unclosed section_unclosed";
    for open in ["⟦⟨functions.exec:0¦{\"c\":", "⟦⟨functions.ex", "⟦⟨"] {
        check(open, (None, open, &[], ended));
        check(&format!("{open}∎"), (None, open, &[], ended));
    }
}

#[test]
fn sections_that_are_not_as_they_should_be() {
    check(CALL, (None, "", &[READ], "section_missing"));
    check(&format!("⟦{CALL}"), (None, "", &[READ], "section_unclosed"));
    check(&format!("⟦{CALL}∎"), (None, "", &[READ], "!section_unclosed"));
    check("⟦⟧", (None, "⟦⟧", &[], "!section_empty"));
    check("a⟧b", (None, "a⟧b", &[], "!stray_marker"));
    check(&format!("⟦text{CALL}⟧"), (None, "⟦text\n⟧", &[READ], "!text_in_section"));
    check("a<|im_middle|>b", (None, "ab", &[], "!control_token"));
}

#[test]
fn f11_f12_f18_f19_text_around_calls_is_kept() {
    check(&format!("a \n⟦{CALL}⟧\n b"), (None, "a\nb", &[READ], ""));
    let prose = "Use ~<|tool_call_begin|>functions.exec:0";
    check(prose, (None, &prose.replace('~', ""), &[], "marker_as_text"));
}

/// Our choice: a call ends the thought, talk about calls does not.
#[test]
fn g04_a_call_in_an_open_thought() {
    let ended = "call_ended_reasoning";
    check(&format!("<think>go\n⟦{CALL}⟧"), (Some("go"), "", &[READ], ended));
    let talk = |thought: &str| {
        let output = format!("<think>{thought}</think>hi");
        check(&output, (Some(thought), "hi", &[], "marker_in_reasoning"));
    };
    talk("some use ⟦ tags");
    talk("some use ⟨ tags here");
    talk("some use ⟦⟨functions.exec:0¦{}");
}

#[test]
fn g01_g02_g03_g05_thoughts_by_the_prompt() {
    let tools = exec();
    let call = spelled(&format!("⟦{CALL}⟧"));
    let opened = case("<think>x</think><|im_user|>y<|im_assistant|><think>", &tools);
    opened.check("plan</think>\n\nanswer", (Some("plan"), "answer", &[], ""));
    opened
        .check("plan∎".replace('∎', END).as_str(), (Some("plan"), "", &[], "!reasoning_unclosed"));
    let closed = case("<think>x<|im_user|>y<|im_assistant|>", &tools);
    closed.check(&call, (None, "", &[READ], ""));
    let off = case("<|im_assistant|>assistant<|im_middle|><think></think>", &tools);
    off.check(&call, (None, "", &[READ], ""));
}
