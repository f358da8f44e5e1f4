//! Tables of good and broken output, over a vocabulary of single bytes, some longer words and the
//! markers. Every table entry is also parsed in each of its other spellings by ordinary tokens.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;

use crate::id::TokenId;
use crate::parse::fake::Fake;
use crate::parse::{End, Parsed, Setting, machine};
use crate::render::{Family, Markers};

const WORDS: [&str; 14] = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|vision_pad|>",
    "}}\n",
    "\n\n",
    "\"name\":",
    "END of",
    "<|>",
    "caf\u{e9}",
];
const ADDED: usize = 8;

static FAKE: LazyLock<Fake> = LazyLock::new(|| Fake::new(&WORDS[..ADDED], &WORDS[ADDED..]));
static MARKERS: LazyLock<Markers> = LazyLock::new(|| FAKE.markers("<|im_end|>"));

/// Ids of a text: the rest of it by bytes or, if `long`, by words where they fit.
fn ids(text: &[u8], long: bool) -> Vec<TokenId> {
    if long { FAKE.words(text) } else { FAKE.bytes(text) }
}

fn run(prompt: &[TokenId], ids: &[TokenId], stop: Option<&str>) -> Parsed {
    let tools = [json!({"type": "function", "function": {"name": "f"}})];
    let setting =
        Setting { markers: &MARKERS, tokenizer: &*FAKE, prompt_tail: prompt, tools: &tools };
    let mut machine = machine(Family::Qwen3, setting);
    ids.iter().for_each(|&id| machine.push(id));
    machine.finish(&End { stop_text: stop, call_seed: "seed" })
}

const PROMPT: &str = "<|im_start|>assistant\n";
const CALL: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call>";

/// What is expected of a reply: reasoning, content, calls as `name arguments`, remarks. A leading
/// `!` among the remarks stands for `ill_formed`.
type Expected<'a> = (Option<&'a str>, &'a str, &'a [&'a str], &'a str);

fn check_from(prompt: &str, output: &[u8], stop: Option<&str>, expected: Expected<'_>) -> bool {
    let prompt = ids(prompt.as_bytes(), false);
    let parsed = run(&prompt, &ids(output, false), stop);
    let shown = String::from_utf8_lossy(output);
    if stop.is_none() {
        assert_eq!(run(&prompt, &ids(output, true), stop), parsed, "cut otherwise: {shown}");
    }
    let reply = parsed.reply;
    let calls: Vec<String> =
        reply.tool_calls.iter().map(|c| format!("{} {}", c.name, c.arguments)).collect();
    let sign = if reply.ill_formed { "!" } else { "" };
    let remarks = format!("{sign}{}", reply.remarks.join(" "));
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let got = (reply.reasoning.as_deref(), reply.content.as_str(), &calls[..], remarks.as_str());
    assert_eq!(got, expected, "{shown}");
    parsed.reasoning_open
}

fn check(output: &str, expected: Expected<'_>) {
    check_from(PROMPT, output.as_bytes(), None, expected);
}

#[test]
fn good_output() {
    check("", (None, "", &[], ""));
    check("<|im_end|>", (None, "", &[], ""));
    check(" hi \n<|im_end|>", (None, " hi \n", &[], ""));
    check("hi<|im_end|><|endoftext|>", (None, "hi", &[], ""));
    check("<think>\nplan\n</think>\n\nhi<|im_end|>", (Some("plan"), "hi", &[], ""));
    check("<think>\n\n</think>\n\nhi", (None, "hi", &[], ""));
    check("<think> \n a\n\nb </think>  hi", (Some(" \n a\n\nb "), "  hi", &[], ""));
    check("x < y, <|> and caf\u{e9}", (None, "x < y, <|> and caf\u{e9}", &[], ""));
}

#[test]
fn f10_a_call_by_its_markers() {
    check(&format!("{CALL}<|im_end|>"), (None, "", &["f {\"a\":1}"], ""));
    let all = format!("<think>\nplan\n</think>\n\n{CALL}<|im_end|>");
    check(&all, (Some("plan"), "", &["f {\"a\":1}"], ""));
    let other = CALL.replace("\"f\"", "\"g\"");
    check(&other, (None, "", &["g {\"a\":1}"], "unknown_tool"));
    let text = CALL.replace("{\"a\":1}", "\"{\\\"a\\\":1}\"");
    check(&text, (None, "", &["f {\"a\":1}"], "call_arguments_string"));
}

#[test]
fn f01_f02_arguments_are_the_models_bytes() {
    let check = |json: &str, arguments: &str| {
        let output = format!("<tool_call>\n{json}\n</tool_call>");
        check(&output, (None, "", &[&format!("f {arguments}")], ""));
    };
    check(r#"{"name":"f","arguments":{"a":1}}"#, r#"{"a":1}"#);
    check(r#"{"name": "f", "arguments": {"s": "a\"b\\n"}}"#, r#"{"s": "a\"b\\n"}"#);
    check(r#"{"arguments": {"s": "a\"b\\n"}, "name": "f"}"#, r#"{"s": "a\"b\\n"}"#);
    // Markers spelled with ordinary tokens are letters of a JSON string.
    check(
        r#"{"name":"f","arguments":{"s":"~</tool_call>~<tool_call>"}}"#,
        r#"{"s":"</tool_call><tool_call>"}"#,
    );
}

#[test]
fn f09_an_unclosed_call_is_content() {
    let open = "<tool_call>\n{\"name\":\"f\",\"argu";
    check(open, (None, open, &[], "!call_unclosed"));
    check(
        &format!("ok \n{open}<|im_end|>"),
        (None, &format!("ok \n{open}"), &[], "!call_unclosed"),
    );
    check_from(
        PROMPT,
        open.as_bytes(),
        Some("\"argu"),
        (None, "<tool_call>\n{\"name\":\"f\",", &[], "!call_unclosed"),
    );
    // Whole JSON without the closing marker is not taken for a call either.
    let whole = CALL.strip_suffix("\n</tool_call>").unwrap();
    check(whole, (None, whole, &[], "!call_unclosed"));
    check(&format!("{whole}{CALL}"), (None, whole, &["f {\"a\":1}"], "!call_unclosed"));
}

#[test]
fn f11_f13_f18_markers_in_letters_are_text() {
    check(
        "~<tool_call>{}~</tool_call>",
        (None, "<tool_call>{}</tool_call>", &[], "marker_as_text"),
    );
    check("~<think>a~</think>b", (None, "<think>a</think>b", &[], ""));
    check("~<|im_end|> is it", (None, "<|im_end|> is it", &[], ""));
    let text = "<my-tag> x < y and <toolbox> </tool";
    check(text, (None, text, &[], ""));
    let prose = "Use `~<tool_call>{\"name\":\"rm\"}~</tool_call>` like this";
    check(prose, (None, &prose.replace('~', ""), &[], "marker_as_text"));
}

#[test]
fn f12_f19_text_around_calls_is_kept() {
    let calls: &[&str] = &["f {\"a\":1}", "f {\"a\":1}"];
    let both = format!("I will check both.\n{CALL}\n{CALL}");
    check(&both, (None, "I will check both.", calls, ""));
    check(&format!("{CALL}done"), (None, "done", &calls[..1], ""));
    check(&format!("a \n{CALL}\n b{CALL}\nc\n"), (None, "a\nb\nc\n", calls, ""));
}

#[test]
fn f14_json_that_is_no_call_is_content() {
    let bad = |inner: &str, remark: &str| {
        let text = format!("<tool_call>\n{inner}\n</tool_call>");
        check(&text, (None, &text, &[], &format!("!{remark}")));
        let then = format!("{text}\n{CALL}");
        check(&then, (None, &text, &["f {\"a\":1}"], &format!("!{remark}")));
    };
    bad(r#"{"x":1}"#, "call_no_name");
    bad(r#"{"name":"f"}"#, "call_no_arguments");
    bad(r#"{"name":"f","arguments":[]}"#, "call_bad_arguments");
    bad(r#"{"name":"f","arguments":{}"#, "call_bad_json");
    bad("", "call_bad_json");
    // Two objects in one pair of markers are not taken apart.
    bad(r#"{"x":1}{"name":"f","arguments":{}}"#, "call_bad_json");
}

#[test]
fn stray_markers_stay_visible() {
    check("a</think>b", (None, "a</think>b", &[], "!stray_marker"));
    check("a</tool_call>b", (None, "a</tool_call>b", &[], "!stray_marker"));
    check("<think>a<think>b</think>c", (Some("a<think>b"), "c", &[], "!stray_marker"));
    check("a<think>b</think>c", (Some("b"), "ac", &[], "!think_again"));
    check("a<|vision_pad|>b", (None, "ab", &[], "!control_token"));
    check("a<|im_end|>b", (None, "a", &[], "!text_after_end"));
}

#[test]
fn g01_g05_the_prompt_says_whether_a_thought_is_open() {
    let opened = format!("{PROMPT}<think>\n");
    let from = |prompt: &str, output: &str, expected| {
        check_from(prompt, output.as_bytes(), None, expected);
    };
    from(&opened, "plan</think>\n\nanswer", (Some("plan"), "answer", &[], ""));
    from(&opened, "<think>plan</think>answer", (Some("plan"), "answer", &[], "think_repeated"));
    let earlier = "<|im_start|>assistant\n<think>\nx\n</think>\n\ny<|im_end|>\n";
    from(&format!("{earlier}{opened}"), "p</think>q", (Some("p"), "q", &[], ""));
    let unclosed = "<|im_start|>assistant\n<think>\nx<|im_end|>\n";
    from(&format!("{unclosed}{PROMPT}"), "q", (None, "q", &[], ""));
    from(&format!("{opened}\n</think>\n\n"), "q", (None, "q", &[], ""));
    from(&format!("{PROMPT}~<think>"), "q", (None, "q", &[], ""));
}

#[test]
fn g02_no_thought_is_assumed() {
    let off = format!("{PROMPT}<think>\n\n</think>\n\n");
    check_from(&off, CALL.as_bytes(), None, (None, "", &["f {\"a\":1}"], ""));
}

#[test]
fn g03_a_thought_may_stay_open() {
    let open = |output: &str, expected| check_from(PROMPT, output.as_bytes(), None, expected);
    assert!(open("<think>\nplan", (Some("plan"), "", &[], "reasoning_unclosed")));
    assert!(open("<think>plan<|im_end|>", (Some("plan"), "", &[], "!reasoning_unclosed")));
    let prose =
        (Some("a <tool_call> b"), "", &[] as &[&str], "!marker_in_reasoning reasoning_unclosed");
    assert!(open("<think>a <tool_call> b<|im_end|>", prose));
    assert!(!open("<think>s</think>ANSWER", (Some("s"), "ANSWER", &[], "")));
    let stop = Some("STOP");
    let cut = (Some("plan "), "", &[] as &[&str], "reasoning_unclosed");
    assert!(check_from(PROMPT, b"<think>plan STOP", stop, cut));
}

/// Our choice where reports disagree: see the module's documentation.
#[test]
fn g04_a_call_in_an_open_thought() {
    let call = format!("<think>go\n{CALL}");
    check(&call, (Some("go"), "", &["f {\"a\":1}"], "call_ended_reasoning"));
    check(
        "<think>some models use <tool_call> tags</think>hi",
        (Some("some models use <tool_call> tags"), "hi", &[], "marker_in_reasoning"),
    );
    check(
        "<think>use <tool_call>x</tool_call> tags</think>hi",
        (Some("use <tool_call>x</tool_call> tags"), "hi", &[], "marker_in_reasoning"),
    );
    check(
        "<think>go\n<tool_call>\n{\"name\":",
        (Some("go"), "<tool_call>\n{\"name\":", &[], "!call_unclosed call_ended_reasoning"),
    );
    check(
        "<think>use <tool_call> tags",
        (Some("use <tool_call> tags"), "", &[], "marker_in_reasoning reasoning_unclosed"),
    );
}

#[test]
fn stop_texts_are_cut_off() {
    let stopped = |output: &[u8], stop, content: &str| {
        check_from(PROMPT, output, Some(stop), (None, content, &[], ""));
    };
    stopped(b"abSTOP", "STOP", "ab");
    stopped(b"STOP abSTOP", "STOP", "STOP ab");
    stopped(b"STOP ab", "STOP", "STOP ab");
    stopped(b"ab", "", "ab");
    // The last token goes on after the stop text.
    let long = run(&[], &ids(b"ab END of", true), Some("END"));
    assert_eq!(long.reply.content, "ab ");
}

#[test]
fn bytes_that_are_no_text_are_marked() {
    let text = |output: &[u8], content: &str, remarks: &str| {
        check_from(PROMPT, output, None, (None, content, &[], remarks));
    };
    text("h\u{e9}".as_bytes(), "h\u{e9}", "");
    text(b"h\xc3", "h\u{fffd}", "invalid_utf8");
    text(b"\xff!", "\u{fffd}!", "invalid_utf8");
    assert_eq!(run(&[], &[u32::MAX], None).reply.remarks, ["unknown_id"]);
}

#[test]
fn call_ids_depend_on_seed_and_place() {
    let two = ids(format!("{CALL}{CALL}").as_bytes(), false);
    let parsed = run(&[], &two, None);
    let [first, second] = &parsed.reply.tool_calls[..] else { panic!("two calls") };
    assert!(first.id.len() == 29 && first.id.starts_with("call_"), "{}", first.id);
    assert_ne!(first.id, second.id);
    assert_eq!(run(&[], &two, None), parsed, "a replay gives the same ids");
}

/// Pieces from which interesting output is made.
fn output() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        proptest::sample::select(&WORDS[..]).prop_map(str::to_owned),
        Just(CALL.to_owned()),
        Just("{\"name\":\"f\",\"arguments\":{}}".to_owned()),
        "[a-z{}\" \n]{0,6}",
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn the_cut_into_tokens_does_not_matter(output in output(), cuts: u64) {
        let short = ids(output.as_bytes(), false);
        let parsed = run(&[], &short, None);
        prop_assert_eq!(&run(&[], &ids(output.as_bytes(), true), None), &parsed);
        // A mixture: long spelling up to some place, bytes after it.
        let at = (cuts as usize) % (output.len() + 1);
        if output.is_char_boundary(at) && !inside_marker(&output, at) {
            let (head, tail) = output.as_bytes().split_at(at);
            let mixed = [ids(head, true), ids(tail, false)].concat();
            prop_assert_eq!(&run(&[], &mixed, None), &parsed);
        }
    }

    #[test]
    fn any_ids_give_a_reply(tail: Vec<u16>, ids in proptest::collection::vec(0_u32..280, 0..64)) {
        let tail: Vec<TokenId> = tail.into_iter().map(u32::from).collect();
        let parsed = run(&tail, &ids, Some("}"));
        prop_assert!(parsed.reply.content.len() <= 3 * 14 * ids.len() + 3);
    }

    /// Nothing is lost: without markers the content is the text.
    #[test]
    fn plain_text_is_content(text in "[^~]{0,40}") {
        let bytes: Vec<TokenId> = text.bytes().map(u32::from).collect();
        prop_assert_eq!(run(&[], &bytes, None).reply.content, text);
    }
}

/// Whether a cut at `at` would split a marker and so make it text.
fn inside_marker(output: &str, at: usize) -> bool {
    WORDS[..ADDED].iter().any(|word| {
        output.match_indices(word).any(|(start, _)| start < at && at < start + word.len())
    })
}
