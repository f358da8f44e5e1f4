//! G01 to G06: thoughts.

use serde_json::json;

use super::dialects::ALL;
use super::{Dialect, around};
use crate::render::Family;

const ONE: &[&str] = &["f {\"a\":1}"];

/// Families that write thoughts, with what stands around one.
fn thinking() -> impl Iterator<Item = (&'static Dialect, [&'static str; 2])> {
    ALL.iter().filter_map(|dialect| Some((dialect, dialect.thought?)))
}

#[test]
fn g01_the_prompt_may_have_opened_the_thought() {
    for (dialect, [_, close]) in thinking() {
        let Some(prompt) = dialect.thinking_prompt else { continue };
        let output = format!("plan{close}{}", dialect.text("answer"));
        dialect.check_from(prompt, &output, (Some("plan"), "answer", &[], ""));
        let newlines = format!("plan\n{close}{}", dialect.text("answer"));
        dialect.check_from(prompt, &newlines, (Some("plan"), "answer", &[], ""));
        let call = format!("plan{close}{}", dialect.call("f", json!({"a": 1})));
        dialect.check_from(prompt, &call, (Some("plan"), "", ONE, ""));
    }
}

#[test]
fn g02_no_thought_is_assumed() {
    for dialect in ALL {
        let call = dialect.call("f", json!({"a": 1}));
        dialect.check(&call, (None, "", ONE, ""));
        dialect.check(&dialect.text("answer"), (None, "answer", &[], ""));
    }
    for (dialect, thought) in thinking() {
        let off = format!("{}{}", dialect.prompt, around(thought, "\n"));
        let call = dialect.call("f", json!({"a": 1}));
        dialect.check_from(&off, &call, (None, "", ONE, ""));
    }
}

#[test]
fn g03_the_close_of_a_thought_in_every_cut() {
    for (dialect, thought) in thinking() {
        let output = format!("{}{}", around(thought, "s"), dialect.text("ANSWER"));
        dialect.check(&output, (Some("s"), "ANSWER", &[], ""));
        let open = format!("{}s", thought[0]);
        dialect.check(&open, (Some("s"), "", &[], "reasoning_unclosed"));
        assert!(dialect.parse(&open).reasoning_open, "{:?}", dialect.family);
    }
}

/// Our choice: a call ends an open thought, a word about calls does not.
#[test]
fn g04_a_call_in_an_open_thought() {
    for (dialect, [open, close]) in thinking() {
        let call = dialect.call("f", json!({"a": 1}));
        if dialect.family == Family::Harmony {
            // A call begins a message, and that ends the one before.
            let output = format!("{open}go<|start|>assistant{call}");
            dialect.check(&output, (Some("go"), "", ONE, "!message_unclosed"));
            continue;
        }
        dialect.check(&format!("{open}go\n{call}"), (Some("go"), "", ONE, "call_ended_reasoning"));
        let Some(marker) = dialect.open else { continue };
        let prose = format!("some models use {marker} tags");
        let output = format!("{open}{prose}{close}hi");
        dialect.check(&output, (Some(&prose), "hi", &[], "marker_in_reasoning"));
    }
}

#[test]
fn g05_thoughts_of_earlier_turns_say_nothing() {
    for (dialect, [_, close]) in thinking() {
        let Some([finished, unfinished]) = dialect.past else { continue };
        let answer = dialect.text("q");
        for past in [finished, unfinished] {
            let closed = format!("{past}{}", dialect.prompt);
            dialect.check_from(&closed, &answer, (None, "q", &[], ""));
            let Some(prompt) = dialect.thinking_prompt else { continue };
            let open = format!("{past}{prompt}");
            let output = format!("p{close}{answer}");
            dialect.check_from(&open, &output, (Some("p"), "q", &[], ""));
        }
    }
}

/// Our choice: the parser hands every thought on; what an agent is shown is a dialect's matter.
#[test]
fn g06_a_thought_nobody_asked_for_is_handed_on() {
    for (dialect, thought) in thinking() {
        let call = dialect.call("f", json!({"a": 1}));
        let output = format!("{}{call}", around(thought, "plan"));
        dialect.check(&output, (Some("plan"), "", ONE, ""));
    }
}
