//! F01 to F19: calls.

use serde_json::{Value, json};

use super::dialects::ALL;
use super::{Dialect, Values, around, compare, tools, valued, written};
use crate::parse::Parsed;
use crate::render::Family;

/// One call of `f` with these arguments, in every family.
fn each_call(arguments: &Value, check: impl Fn(&Dialect, &str, &Parsed)) {
    for dialect in ALL {
        let output = dialect.call("f", arguments.clone());
        check(dialect, &output, &dialect.parse(&output));
    }
}

/// The arguments come back with these values, and nothing is wrong. The remarks are those about
/// values that are plain text.
fn round_trip(arguments: &Value, remarks: &[&str]) {
    each_call(arguments, |dialect, output, parsed| {
        let (family, reply) = (dialect.family, &parsed.reply);
        assert_eq!(valued(parsed), [("f".to_owned(), arguments.clone())], "{family:?}: {output}");
        let remarks = if dialect.values == Values::Text { remarks } else { &[] };
        let rest = (&reply.reasoning, reply.content.as_str(), reply.ill_formed);
        assert_eq!(rest, (&None, "", false), "{family:?}: {output}");
        assert_eq!(reply.remarks, remarks, "{family:?}: {output}");
    });
}

#[test]
fn f01_the_last_brace_is_kept_in_every_cut() {
    round_trip(&json!({"a": 1}), &[]);
    round_trip(&json!({}), &[]);
}

#[test]
fn f02_arguments_are_the_models_bytes() {
    let arguments = json!({"s": "a\"b\\n \u{e9}\u{4e16}", "a": 1});
    round_trip(&arguments, &[]);
    each_call(&arguments, |dialect, _, parsed| {
        if dialect.values == Values::Json {
            assert_eq!(written(parsed), [format!("f {arguments}")], "{:?}", dialect.family);
        }
    });
    let reversed = [
        (Family::Llama31, r#"{"parameters": {"a" : 1.50}, "name": "f"}"#),
        (Family::Llama31, r#"<|python_tag|>{"arguments": {"a" : 1.50}, "name": "f"}"#),
        (Family::Mistral, r#"[TOOL_CALLS][{"arguments": {"a" : 1.50}, "name": "f"}]"#),
        (
            Family::Qwen3,
            "<tool_call>\n{\"arguments\": {\"a\" : 1.50}, \"name\": \"f\"}\n</tool_call>",
        ),
    ];
    for (family, output) in reversed {
        let Some(dialect) = ALL.iter().find(|dialect| dialect.family == family) else { continue };
        dialect.check(output, (None, "", &["f {\"a\" : 1.50}"], ""));
    }
}

/// Plain text is typed by the schema; JSON has types of its own.
#[test]
fn f03_text_that_looks_like_a_number() {
    for dialect in ALL {
        let (b, n) = match dialect.values {
            Values::Text => (json!("True"), json!("5.0")),
            Values::Json => (json!(true), json!(5)),
        };
        let output = dialect.call("f", json!({"zip": "02134", "n": n, "b": b}));
        let parsed = dialect.parse(&output);
        let expected = json!({"zip": "02134", "n": 5, "b": true});
        assert_eq!(valued(&parsed), [("f".to_owned(), expected)], "{:?}", dialect.family);
        assert!(!parsed.reply.ill_formed);
    }
}

#[test]
fn f04_a_schema_without_a_type() {
    let arguments = json!({"loc": {"city": "Paris"}, "either": 7});
    round_trip(&arguments, &[]);
}

#[test]
fn f05_a_value_that_does_not_fit_is_a_string() {
    let arguments = json!({"n": "next Tuesday", "arr": "[1, 2"});
    round_trip(&arguments, &["call_value_unfit"]);
}

/// Our choice: a value that cannot be empty is left out. JSON says itself what it means.
#[test]
fn f06_an_empty_parameter() {
    for dialect in ALL {
        let expected = match dialect.values {
            Values::Text => json!({"note": ""}),
            Values::Json => json!({"limit": "", "note": ""}),
        };
        let output = dialect.call("f", json!({"limit": "", "note": ""}));
        assert_eq!(
            valued(&dialect.parse(&output)),
            [("f".to_owned(), expected)],
            "{:?}: {output}",
            dialect.family
        );
    }
}

#[test]
fn f07_newlines_of_a_value_are_kept() {
    let arguments = json!({"s": "\nline1\nline2\n"});
    round_trip(&arguments, &[]);
}

/// In JSON a value may hold any text. Where values are plain text, our choice is that a closing tag
/// ends one only if the next thing of the grammar follows.
#[test]
fn f08_text_like_a_delimiter() {
    let text = "a</parameter>b</tool_call>[/THINK]</arg_value>c</function>d</invoke>e";
    for dialect in ALL {
        let output = dialect.call("f", json!({"s": dialect.in_letters(text), "note": "n"}));
        let parsed = dialect.parse(&output);
        let expected = json!({"s": text, "note": "n"});
        assert_eq!(valued(&parsed), [("f".to_owned(), expected)], "{:?}", dialect.family);
        assert!(!parsed.reply.ill_formed, "{:?}", dialect.family);
    }
    // As a token of its own, too.
    let glm = super::dialect(Family::Glm45);
    let output = glm.call("f", json!({"s": "a</arg_value>b"}));
    glm.check(&output, (None, "", &["f {\"s\":\"a</arg_value>b\"}"], ""));
}

#[test]
fn f09_an_unfinished_call_is_content() {
    for dialect in ALL {
        let cut = dialect.cut;
        let check = |output: &str, content: &str, parsed: &Parsed| {
            let reply = &parsed.reply;
            let got = (reply.content.as_str(), reply.tool_calls.len(), reply.ill_formed);
            assert_eq!(got, (content, 0, true), "{:?}: {output}", dialect.family);
        };
        check(cut, cut, &dialect.parse(cut));
        let closed = format!("{cut}{}", dialect.close);
        check(&closed, cut, &dialect.parse(&closed));
        let stop = &cut[cut.len() - 3..];
        check(cut, &cut[..cut.len() - 3], &dialect.stopped(cut, stop));
    }
}

#[test]
fn f10_markers_are_never_shown() {
    for dialect in ALL {
        let call = dialect.call("f", json!({"a": 1}));
        let output = format!("{call}{}", dialect.close);
        let parsed = dialect.parse(&output);
        compare(dialect.family, &output, &parsed, (None, "", &["f {\"a\":1}"], ""));
    }
}

/// Our choice: letters are text, whoever reads them; the reply says so.
#[test]
fn f11_markers_in_letters_are_text() {
    for dialect in ALL {
        let call = dialect.call("f", json!({"a": 1}));
        let spelled = dialect.in_letters(&call);
        if spelled == call {
            continue;
        }
        let output = dialect.text(&spelled);
        dialect.check(&output, (None, &call, &[], "marker_as_text"));
    }
}

#[test]
fn f12_text_behind_a_call_is_content() {
    for dialect in ALL {
        let call = dialect.call("f", json!({"a": 1}));
        let output = format!("{call}{}", around(dialect.behind, "done"));
        dialect.check(&output, (None, "done", &["f {\"a\":1}"], ""));
    }
}

#[test]
fn f13_text_like_the_start_of_a_marker() {
    let text = "<my-tag> x < y and <toolbox> [TOOL <|py </tool [/ ";
    for dialect in ALL {
        dialect.check(&dialect.text(text), (None, text, &[], ""));
    }
}

#[test]
fn f14_json_before_a_call_is_content() {
    for dialect in ALL {
        let before = around(dialect.before, "{\"x\":1}");
        let output = format!("{before}{}", dialect.call("f", json!({})));
        dialect.check(&output, (None, "{\"x\":1}", &["f {}"], ""));
        dialect.check(&dialect.text("{\"x\":1}"), (None, "{\"x\":1}", &[], ""));
    }
}

/// The parser does not know what was forced: a call is what the model wrote. Only bare JSON is no
/// call where no tool is on offer.
#[test]
fn f15_a_call_does_not_depend_on_what_was_offered() {
    for dialect in ALL {
        let output = dialect.call("g", json!({"s": "1"}));
        let bare = output.starts_with('{');
        for (tools, remarks) in [(tools(), "unknown_tool"), (Vec::new(), "")] {
            let parsed = dialect.parse_with(dialect.prompt, &tools, &output);
            let expected = match bare && tools.is_empty() {
                true => (None, output.as_str(), &[] as &[&str], ""),
                false => (None, "", &["g {\"s\":\"1\"}"] as &[&str], remarks),
            };
            compare(dialect.family, &output, &parsed, expected);
        }
    }
}

#[test]
fn f16_headers_of_kimi_in_odd_shapes() {
    let Some(kimi) = ALL.iter().find(|dialect| dialect.family == Family::KimiK2) else { return };
    let call = |head: &str| {
        format!(
            "<|tool_calls_section_begin|><|tool_call_begin|>{head}<|tool_call_argument_begin|>\
             {{\"c\":\"ls\"}}<|tool_call_end|><|tool_calls_section_end|>"
        )
    };
    for head in ["functions.exec:5", "functionsexec5", "exec:5", "functions.exec"] {
        let parsed = kimi.parse(&call(head));
        assert_eq!(written(&parsed), ["exec {\"c\":\"ls\"}"], "{head}");
    }
    // A bare counter is the one tool that takes these arguments, if there is one.
    assert_eq!(written(&kimi.parse(&call("call00003"))), ["exec {\"c\":\"ls\"}"]);
    let nobodys = call("call00003").replace("\"c\"", "\"zz\"");
    let parsed = kimi.parse(&nobodys);
    assert_eq!((parsed.reply.content.as_str(), written(&parsed).len()), (nobodys.as_str(), 0));
}

#[test]
fn f17_headers_of_harmony_with_surprises() {
    let harmony = super::dialect(Family::Harmony);
    let body = "<|message|>{\"c\":\"ls\"}<|call|>";
    let early = format!(" to=functions.exec<|channel|>commentary{body}");
    harmony.check(&early, (None, "", &["exec {\"c\":\"ls\"}"], ""));
    let glued = format!(" to=functions.exec~<|channel|>commentary{body}");
    harmony.check(&glued, (None, "", &["exec {\"c\":\"ls\"}"], "!header_odd"));
}

#[test]
fn f18_prose_about_calls_is_no_call() {
    for dialect in ALL {
        let call = dialect.call("rm", json!({"s": "x"}));
        let prose = |call: &str| format!("Use\n```\n{call}\n```\nlike this");
        let output = dialect.text(&prose(&dialect.in_letters(&call)));
        let parsed = dialect.parse(&output);
        let reply = &parsed.reply;
        let got = (reply.content.as_str(), reply.tool_calls.len(), reply.ill_formed);
        assert_eq!(got, (prose(&call).as_str(), 0, false), "{:?}", dialect.family);
    }
}

#[test]
fn f19_text_and_all_calls_are_kept() {
    for dialect in ALL {
        // Bare JSON behind prose is an example, see the family's documentation.
        if dialect.family == Family::Llama31 && dialect.open.is_none() {
            continue;
        }
        let calls = (dialect.calls)(&[("f", json!({"a": 1})), ("exec", json!({"c": "ls"}))]);
        let output = format!("{}{calls}", around(dialect.before, "I will check both."));
        let expected = &["f {\"a\":1}", "exec {\"c\":\"ls\"}"];
        dialect.check(&output, (None, "I will check both.", expected, ""));
    }
}
