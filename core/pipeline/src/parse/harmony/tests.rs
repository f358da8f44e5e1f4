//! Tables of good and broken output of gpt-oss.

use crate::parse::suite::{self, Expected};
use crate::render::Family;

fn check(output: &str, expected: Expected<'_>) {
    suite::dialect(Family::Harmony).check(output, expected);
}

const CALL: &str =
    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>";
const ONE: &[&str] = &["f {\"a\":1}"];
const FINAL: &str = "<|channel|>final<|message|>hi<|return|>";

#[test]
fn good_output() {
    check("", (None, "", &[], ""));
    check(FINAL, (None, "hi", &[], ""));
    check("<|channel|>final<|message|> hi \n<|end|>", (None, " hi \n", &[], ""));
    let thought = "<|channel|>analysis<|message|>plan<|end|><|start|>assistant";
    check(&format!("{thought}{FINAL}"), (Some("plan"), "hi", &[], ""));
    check(&format!("{thought}{CALL}"), (Some("plan"), "", ONE, ""));
    check(&format!("{thought}{thought}{CALL}"), (Some("plan\nplan"), "", ONE, ""));
    let words = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant";
    check(&format!("{thought}{words}{CALL}"), (Some("plan"), "I look.", ONE, ""));
    check(&format!("{words}{FINAL}"), (None, "I look.\nhi", &[], ""));
    check("<|channel|>final <|constrain|>JSON<|message|>{}<|return|>", (None, "{}", &[], ""));
    check(&format!("{FINAL}<|endoftext|>"), (None, "hi", &[], ""));
}

#[test]
fn the_recipient_stands_in_two_places() {
    let headers = [
        " to=functions.f<|channel|>commentary<|constrain|>json",
        " to=functions.f<|channel|>commentary json",
        "<|channel|>commentary to=functions.f code",
        "<|channel|>commentary to=functions.f",
        "<|channel|>analysis to=functions.f <|constrain|>json",
        " to=functions.f<|channel|>commentary to=functions.f <|constrain|>json",
    ];
    for header in headers {
        let output = format!("{header}<|message|>{{\"a\":1}}<|call|>");
        check(&output, (None, "", ONE, ""));
    }
}

#[test]
fn several_calls() {
    let two: &[&str] = &["f {\"a\":1}", "f {\"a\":1}"];
    check(&format!("{CALL}<|start|>assistant{CALL}"), (None, "", two, ""));
    let end = CALL.replace("<|call|>", "<|end|>");
    check(&format!("{end}<|start|>assistant{CALL}"), (None, "", two, "call_closed_oddly"));
}

#[test]
fn f17_headers_with_faults() {
    let call = |header: &str| {
        let output = format!("{header}<|message|>{{\"a\":1}}<|call|>");
        check(&output, (None, "", ONE, "!header_odd"));
    };
    call(" to=functions.f~<|channel|>commentary");
    call("<|channel|>commentary to=functions.f~<|channel|>commentary json");
    call(" to=functions.f<|channel|>commentary<|channel|>commentary json");
    call("<|channel|>commentary to=functions.f<|channel|>commentary <|constrain|>json");
    call("<|channel|>commentary to=f <|constrain|>json");
    call(" to=functions.f");
    call("<|channel|>commentary to=functions.f whatever");
    call("<|channel|>commentary to=functions.f <|constrain|>whatever");
    call("<|constrain|> whatever <|channel|>commentary to=functions.f <|constrain|>json");
    check("<|channel|><|message|>hi<|return|>", (None, "hi", &[], "!header_odd"));
    check("<|message|>hi<|return|>", (None, "hi", &[], "!header_odd"));
    check("<|channel|>commentary<|channel|>final<|message|>hi", (None, "hi", &[], "!header_odd"));
    let missing = format!("<|channel|>analysis<|message|>p<|end|>{FINAL}");
    check(&missing, (Some("p"), "hi", &[], "!header_odd"));
    check(&format!("<|start|>assistant{FINAL}"), (None, "hi", &[], "start_repeated"));
}

#[test]
fn f17_what_cannot_be_read_is_content() {
    let raw = |output: &str, remark: &str| {
        check(output, (None, output, &[], &format!("!{remark}")));
    };
    raw("Hello, world", "header_unclosed");
    raw("<|channel|>commentary to=func", "header_unclosed");
    raw("<|channel|>secret<|message|>x<|end|>", "header_unknown");
    raw("<|channel|>commentary to=python code<|message|>1<|end|>", "header_unknown");
    raw("<|channel|>commentary to=functions.<|message|>{}<|end|>", "header_unknown");
    raw("<|channel|>commentary to= <|message|>{}<|end|>", "header_unknown");
    raw("<|start|>user<|message|>x<|end|>", "start_repeated header_unknown");
    check(
        "<|channel|>nowhere<|message|>x<|return|>",
        (None, "<|channel|>nowhere<|message|>x", &[], "!header_unknown"),
    );
    check(
        "<|channel|>final<|message|>a<|end|>b",
        (None, "a\nb", &[], "!text_between header_unknown"),
    );
    check("<|channel|>final<|reserved_200013|><|message|>a", (None, "a", &[], "!control_token"));
}

#[test]
fn broken_calls_are_content() {
    let bad = |body: &str, close: &str, remark: &str| {
        let text = CALL.replace("{\"a\":1}<|call|>", &format!("{body}{close}"));
        let shown = text.replace("<|return|>", "");
        check(&text, (None, &shown, &[], &format!("!{remark}")));
    };
    bad("{\"a\":", "", "call_unclosed");
    bad("{\"a\":1}", "", "call_unclosed");
    bad("{\"a\":1}", "<|return|>", "call_unclosed");
    bad("{\"a\":", "<|call|>", "call_bad_json");
    bad("{\"a\":1}}", "<|call|>", "call_bad_json");
    bad("", "<|call|>", "call_bad_json");
    bad("[1]", "<|call|>", "call_bad_arguments");
    let followed = "<|channel|>commentary to=functions.f<|message|>{";
    check(
        &format!("{followed}<|start|>assistant{CALL}"),
        (None, followed, ONE, "!message_unclosed call_unclosed"),
    );
}

#[test]
fn markers_out_of_place() {
    check(
        "<|channel|>final<|message|>a<|channel|>b",
        (None, "a<|channel|>b", &[], "!stray_marker"),
    );
    check("<|channel|>final<|message|>a<|call|>", (None, "a", &[], "!stray_marker"));
    check("<|channel|>final<|message|>a<|end|><|end|>", (None, "a", &[], "!stray_marker"));
    check(&format!("{FINAL}b"), (None, "hi", &[], "!text_after_end"));
    check(&format!("{FINAL}<|start|>"), (None, "hi", &[], "!text_after_end"));
    check(
        "<|channel|>final<|message|>~<|channel|>x",
        (None, "<|channel|>x", &[], "marker_as_text"),
    );
}

#[test]
fn a_thought_may_stay_open() {
    let open = |output: &str, expected| {
        check(output, expected);
        suite::dialect(Family::Harmony).parse(output).reasoning_open
    };
    let cut = "<|channel|>analysis<|message|>plan";
    assert!(open(cut, (Some("plan"), "", &[], "reasoning_unclosed")));
    let ended = format!("{cut}<|endoftext|>");
    assert!(open(&ended, (Some("plan"), "", &[], "!reasoning_unclosed")));
    let returned = format!("{cut}<|return|>");
    assert!(!open(&returned, (Some("plan"), "", &[], "!return_in_reasoning")));
}

#[test]
fn the_prompt_says_what_is_open() {
    let from = |prompt: &str, output: &str, expected| {
        suite::dialect(Family::Harmony).check_from(prompt, output, expected);
    };
    from("", "<|start|>assistant<|channel|>final<|message|>a", (None, "a", &[], "start_repeated"));
    from(
        "<|start|>user<|message|>x<|end|>",
        &format!("<|start|>assistant{CALL}"),
        (None, "", ONE, ""),
    );
    let forced =
        "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>";
    from(forced, "{\"a\":1}<|call|>", (None, "", ONE, ""));
    from(forced, "{<|call|>", (None, "{<|call|>", &[], "!call_bad_json"));
    let answer = "<|start|>assistant<|channel|>final<|message|>begun";
    from(answer, " so<|return|>", (None, " so", &[], ""));
    from("<|start|>assistant<|channel|>", "final<|message|>a", (None, "a", &[], ""));
    from(
        "<|start|>user<|message|>x<|return|>",
        "<|start|>assistant<|message|>a",
        (None, "a", &[], "!header_odd"),
    );
}

#[test]
fn stop_texts_are_cut_off() {
    let harmony = suite::dialect(Family::Harmony);
    let stopped = |output: &str, expected| {
        suite::compare(Family::Harmony, output, &harmony.stopped(output, "STOP"), expected);
    };
    stopped("<|channel|>final<|message|>STOP abSTOP", (None, "STOP ab", &[], ""));
    stopped("<|channel|>analysis<|message|>abSTOP", (Some("ab"), "", &[], "reasoning_unclosed"));
    stopped("abSTOP", (None, "ab", &[], "!header_unclosed"));
}
