//! Tables of good and broken output of Llama 3.1.

use serde_json::json;

use super::*;
use crate::parse::suite::{self, Expected};
use crate::render::Family;

fn check(output: &str, expected: Expected<'_>) {
    suite::dialect(Family::Llama31).check(output, expected);
}

const CALL: &str = r#"{"name": "f", "parameters": {"a":1}}"#;
const ONE: &[&str] = &["f {\"a\":1}"];
const TWO: &[&str] = &["f {\"a\":1}", "f {\"a\":1}"];

#[test]
fn good_output() {
    check("", (None, "", &[], ""));
    check(" hi \n<|eot_id|>", (None, " hi \n", &[], ""));
    check("hi<|eot_id|><|end_of_text|>", (None, "hi", &[], ""));
    check(&format!("{CALL}<|eot_id|>"), (None, "", ONE, ""));
    check(&format!("\n{CALL}\n<|eom_id|>"), (None, "", ONE, ""));
    check(&format!("<|python_tag|>{CALL}<|eom_id|>"), (None, "", ONE, ""));
    check(&CALL.replace("parameters", "arguments"), (None, "", ONE, ""));
    let typed = CALL.replace("{\"name\"", "{\"type\": \"function\", \"name\"");
    check(&typed, (None, "", ONE, ""));
    let text = CALL.replace("{\"a\":1}", "\"{\\\"a\\\":1}\"");
    check(&text, (None, "", ONE, "call_arguments_string"));
}

#[test]
fn several_calls() {
    for between in ["", ";", "; ", "\n", " ;\n"] {
        check(&format!("{CALL}{between}{CALL}"), (None, "", TWO, ""));
        check(&format!("<|python_tag|>{CALL}{between}{CALL}{between}"), (None, "", TWO, ""));
    }
    check(&format!("{CALL}<|python_tag|>{CALL}"), (None, "", TWO, ""));
    check(&format!("<|python_tag|>{CALL}<|python_tag|>{CALL}"), (None, "", TWO, ""));
    let semicolons = r#"{"name": "f", "parameters": {"s":"a; b;"}}"#;
    check(&format!("{semicolons};{CALL}"), (None, "", &["f {\"s\":\"a; b;\"}", ONE[0]], ""));
}

#[test]
fn text_around_calls() {
    check(&format!("Look.\n<|python_tag|>{CALL}"), (None, "Look.", ONE, ""));
    check(&format!("{CALL}\nDone; so."), (None, "Done; so.", ONE, ""));
    check(&format!("{CALL}; so."), (None, "; so.", ONE, ""));
    check(&format!("a <|python_tag|>{CALL} b"), (None, "a\nb", ONE, ""));
    // Behind prose it is an example.
    check(&format!("Write {CALL}"), (None, &format!("Write {CALL}"), &[], ""));
    let later = format!("{CALL} then {CALL}");
    check(&later, (None, &format!("then {CALL}"), ONE, ""));
}

#[test]
fn f14_json_that_is_no_call_is_content() {
    check("{\"x\":1}{\"name\":\"f\",\"arguments\":{}}", (None, "{\"x\":1}", &["f {}"], ""));
    check(&format!("{CALL}\n{{\"x\":1}}\n{CALL}"), (None, "{\"x\":1}", TWO, ""));
    for answer in [" {\"x\": 1}\n", "{\"name\": \"Bob\", \"age\": 7}", "{x}", "{", "[1]", "{} {}"] {
        check(answer, (None, answer, &[], ""));
    }
    let tagged = "<|python_tag|>{\"x\":1}";
    check(tagged, (None, tagged, &[], "!call_no_name"));
    let then = format!("{tagged}\n{CALL}");
    check(&then, (None, tagged, ONE, "!call_no_name"));
    let code = "<|python_tag|>print(1)";
    check(code, (None, code, &[], "!call_bad_json"));
    check("<|python_tag|>", (None, "<|python_tag|>", &[], "!call_bad_json"));
    let listed = r#"{"name": "f", "parameters": [1]}"#;
    check(listed, (None, listed, &[], "!call_bad_arguments"));
}

/// Bare JSON is an answer where no tool is on offer; a tag makes a call of it all the same.
#[test]
fn bare_json_without_tools_is_content() {
    let llama = suite::dialect(Family::Llama31);
    let parsed = llama.parse_with(llama.prompt, &[], CALL);
    suite::compare(Family::Llama31, CALL, &parsed, (None, CALL, &[], ""));
    let tagged = format!("<|python_tag|>{CALL}");
    let parsed = llama.parse_with(llama.prompt, &[], &tagged);
    suite::compare(Family::Llama31, &tagged, &parsed, (None, "", ONE, ""));
}

#[test]
fn broken_calls_are_content() {
    let check_both = |json: &str, remark: &str| {
        check(json, (None, json, &[], remark));
        let tagged = format!("<|python_tag|>{json}");
        check(&tagged, (None, &tagged, &[], remark));
        check(&format!("{CALL}{json}"), (None, json, ONE, remark));
    };
    check_both("{\"name\": \"f\", \"para", "!call_unclosed");
    check_both("{\"name\": \"f\", \"parameters\": {\"a\":1}", "!call_unclosed");
    check_both("{\"name\": \"f\", \"parameters\": {a:1}}", "!call_bad_json");
    // A brace too many is shown.
    check(&format!("{CALL}}}"), (None, "}", ONE, "!call_bad_json"));
}

#[test]
fn markers_out_of_place() {
    check("a<|eot_id|>b", (None, "a", &[], "!text_after_end"));
    check("a<|start_header_id|>b", (None, "ab", &[], "!control_token"));
    check(
        &format!("~<|python_tag|>{CALL}"),
        (None, &format!("<|python_tag|>{CALL}"), &[], "marker_as_text"),
    );
}

#[test]
fn stop_texts_are_cut_off() {
    let llama = suite::dialect(Family::Llama31);
    let stopped = |output: &str, expected| {
        suite::compare(Family::Llama31, output, &llama.stopped(output, "STOP"), expected);
    };
    stopped("STOP abSTOP", (None, "STOP ab", &[], ""));
    stopped(&format!("{CALL}STOP"), (None, "", ONE, ""));
    stopped(
        "<|python_tag|>{\"name\":STOP",
        (None, "<|python_tag|>{\"name\":", &[], "!call_unclosed"),
    );
}

#[test]
fn an_id_outside_the_vocabulary_is_said() {
    let llama = suite::dialect(Family::Llama31);
    let fake = llama.fake();
    let markers = fake.markers(llama.close);
    let tools = [json!({"type": "function", "function": {"name": "f"}})];
    let setting = Setting { markers: &markers, tokenizer: &fake, prompt_tail: &[], tools: &tools };
    let mut machine = Box::new(Llama31::new(setting));
    machine.push(u32::MAX);
    let reply = machine.finish(&End { stop_text: None, call_seed: "" }).reply;
    assert_eq!((reply.ill_formed, reply.remarks), (true, vec!["unknown_id".to_owned()]));
}
