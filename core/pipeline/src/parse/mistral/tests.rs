//! Tables of good and broken output of Mistral.

use super::*;
use crate::parse::suite::{self, Expected};
use crate::render::Family;

fn check(output: &str, expected: Expected<'_>) {
    suite::dialect(Family::Mistral).check(output, expected);
}

const NEW: &str = "[TOOL_CALLS]f[ARGS]{\"a\":1}";
const ITEM: &str = r#"{"name": "f", "arguments": {"a":1}}"#;
const ONE: &[&str] = &["f {\"a\":1}"];
const TWO: &[&str] = &["f {\"a\":1}", "f {\"a\":1}"];

#[test]
fn good_output() {
    check("", (None, "", &[], ""));
    check(" hi \n</s>", (None, " hi \n", &[], ""));
    check("[THINK]\nplan\n[/THINK]\n\nhi</s>", (Some("plan"), "hi", &[], ""));
    check("[THINK]\n[/THINK]hi", (None, "hi", &[], ""));
    check(&format!("{NEW}</s>"), (None, "", ONE, ""));
    check(&format!("[THINK]plan[/THINK]Look.\n{NEW}{NEW}</s>"), (Some("plan"), "Look.", TWO, ""));
    check("[TOOL_CALLS]f{\"a\":1}[TOOL_CALLS]f{\"a\":1}", (None, "", TWO, ""));
    check(&format!("[TOOL_CALLS][{ITEM}]</s>"), (None, "", ONE, ""));
    check(&format!("[TOOL_CALLS] [{ITEM}, {ITEM}]"), (None, "", TWO, ""));
    check(&format!("[TOOL_CALLS]{ITEM}"), (None, "", ONE, ""));
    check("[TOOL_CALLS]f [ARGS] {\"a\":1}\n", (None, "", ONE, ""));
    check("[TOOL_CALLS]f[ARGS]\"{\\\"a\\\":1}\"", (None, "", ONE, "call_arguments_string"));
    check("[ and ] and [X] [TOOL", (None, "[ and ] and [X] [TOOL", &[], ""));
}

#[test]
fn call_ids_are_nine_letters_and_digits() {
    let ids = |output: &str| -> Vec<String> {
        let parsed = suite::dialect(Family::Mistral).parse(output);
        parsed.reply.tool_calls.into_iter().map(|call| call.id).collect()
    };
    let made = ids(&format!("{NEW}{NEW}"));
    assert_ne!(made[0], made[1]);
    assert!(made.iter().all(|id| id.len() == 9 && is_plain(id)), "{made:?}");
    assert_eq!(ids("[TOOL_CALLS]f[CALL_ID]aB3dE6gH9[ARGS]{}"), ["aB3dE6gH9"]);
    let item = |id: &str| format!(r#"{{"name":"f","arguments":{{}},"id":"{id}"}}"#);
    assert_eq!(ids(&format!("[TOOL_CALLS][{}]", item("aB3dE6gH9"))), ["aB3dE6gH9"]);
    // Too long, or taken already.
    assert_eq!(ids(&format!("[TOOL_CALLS]{}", item("aB3dE6gH90")))[0], made[0]);
    let twice = format!("[TOOL_CALLS][{0},{0}]", item("aB3dE6gH9"));
    assert_eq!(ids(&twice), ["aB3dE6gH9", made[1].as_str()]);
}

#[test]
fn text_behind_a_call_is_content() {
    check(&format!("{NEW} done"), (None, "done", ONE, ""));
    check(&format!("[TOOL_CALLS][{ITEM}]\ndone"), (None, "done", ONE, ""));
    check(&format!("a{NEW}b{NEW}c"), (None, "a\nb\nc", TWO, ""));
    check(&format!("{NEW}}}"), (None, "}", ONE, "!call_bad_json"));
}

#[test]
fn broken_calls_are_content() {
    let bad = |text: &str, remark: &str| {
        check(text, (None, text, &[], remark));
        check(&format!("{NEW}{text}"), (None, text, ONE, remark));
        check(&format!("{text}{NEW}"), (None, text, ONE, remark));
    };
    bad("[TOOL_CALLS]", "!call_unclosed");
    bad("[TOOL_CALLS]f", "!call_unclosed");
    bad("[TOOL_CALLS]f[ARGS]", "!call_unclosed");
    bad("[TOOL_CALLS]f[ARGS]{\"a\":", "!call_unclosed");
    bad("[TOOL_CALLS]f[CALL_ID]x{}", "!call_no_arguments");
    bad("[TOOL_CALLS]f[ARGS]ls", "!call_bad_json");
    bad("[TOOL_CALLS]f[ARGS][1]", "!call_bad_arguments");
    bad("[TOOL_CALLS][ARGS]{}", "!call_no_name");
    bad("[TOOL_CALLS]f g[ARGS]{}", "!call_no_name");
    bad("[TOOL_CALLS]f[ARGS]{[ARGS]}", "!call_unclosed stray_marker");
    bad("[TOOL_CALLS][{\"name\":\"f\"}]", "!call_no_arguments");
    bad("[TOOL_CALLS][]", "!call_no_name");
    bad("[TOOL_CALLS]{\"x\":1}", "!call_no_name");
    // A list counts whole or not at all.
    bad(&format!("[TOOL_CALLS][{ITEM},{{\"x\":1}}]"), "!call_no_name");
    bad(&format!("[TOOL_CALLS][{ITEM}"), "!call_unclosed");
}

#[test]
fn markers_out_of_place() {
    check("a[/THINK]b", (None, "a[/THINK]b", &[], "!stray_marker"));
    check("a[ARGS]b", (None, "a[ARGS]b", &[], "!stray_marker"));
    check("a[THINK]b[/THINK]c", (Some("b"), "ac", &[], "!think_again"));
    check("a[INST]b", (None, "ab", &[], "!control_token"));
    check("a</s>b", (None, "a", &[], "!text_after_end"));
    check("~[TOOL_CALLS]f", (None, "[TOOL_CALLS]f", &[], "marker_as_text"));
    check(&format!("{NEW}[THINK]b[/THINK]"), (Some("b"), "", ONE, "!think_again"));
}

/// The templates explain the brackets in the instructions: that says nothing about the answer.
#[test]
fn g05_the_instructions_open_no_thought() {
    let mistral = suite::dialect(Family::Mistral);
    let explained = "First [THINK]...[/SYSTEM_PROMPT][INST]go[/INST]";
    mistral.check_from(explained, "hi", (None, "hi", &[], ""));
    mistral.check_from("[THINK]", "p[/THINK]q", (Some("p"), "q", &[], ""));
    mistral.check_from("[THINK]", "[THINK]p[/THINK]q", (Some("p"), "q", &[], "think_repeated"));
}

#[test]
fn g04_a_call_in_an_open_thought() {
    check(&format!("[THINK]go\n{NEW}"), (Some("go"), "", ONE, "call_ended_reasoning"));
    check(&format!("[THINK]go\n{NEW}{NEW}x"), (Some("go"), "x", TWO, "call_ended_reasoning"));
    check(
        &format!("[THINK]go {NEW}[/THINK]hi"),
        (Some(&format!("go {NEW}")), "hi", &[], "marker_in_reasoning"),
    );
    check(
        "[THINK]a [TOOL_CALLS] b",
        (Some("a [TOOL_CALLS] b"), "", &[], "marker_in_reasoning reasoning_unclosed"),
    );
    check(
        "[THINK]go\n[TOOL_CALLS][{\"na",
        (Some("go"), "[TOOL_CALLS][{\"na", &[], "!call_ended_reasoning call_unclosed"),
    );
}

#[test]
fn stop_texts_are_cut_off() {
    let mistral = suite::dialect(Family::Mistral);
    let stopped = |output: &str, stop: &str, expected| {
        suite::compare(Family::Mistral, output, &mistral.stopped(output, stop), expected);
    };
    stopped("STOP abSTOP", "STOP", (None, "STOP ab", &[], ""));
    stopped("[THINK]abSTOP", "STOP", (Some("ab"), "", &[], "reasoning_unclosed"));
    stopped(&format!("{NEW}STOP"), "STOP", (None, "", ONE, ""));
    let cut = (None, "[TOOL_CALLS]f[ARGS]{\"a\":1", &[] as &[&str], "!call_unclosed");
    stopped(NEW, "}", cut);
    stopped("[TOOL_CALLS]f[ARGS]", "f[ARGS]", (None, "[TOOL_CALLS]", &[], "!call_unclosed"));
}
