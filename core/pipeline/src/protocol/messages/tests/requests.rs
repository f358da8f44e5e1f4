//! What agents send: roles, content, calls and results.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::turn::ReplyForm;

#[test]
fn the_least_request_is_read() {
    let want = Asked::plain("m".to_owned(), vec![said(Role::User, "hi")], ReplyForm::Json);
    assert_eq!(read(&with(json!({}))), want);
}

#[test]
fn a01_system_in_the_middle_stays_where_it_is() {
    let body = |middle: Value| {
        with(json!({"max_tokens": 16, "system": "S0", "messages": [
            {"role": "user", "content": "hi"},
            {"role": "system", "content": middle, "output_config": {"effort": "low"}},
            {"role": "user", "content": "go"},
        ]}))
    };
    let want = [
        said(Role::System, "S0"),
        said(Role::User, "hi"),
        said(Role::System, "plan mode is on"),
        said(Role::User, "go"),
    ];
    assert_eq!(read(&body(json!("plan mode is on"))).messages, want);
    assert_eq!(read(&body(json!([{"type": "text", "text": "plan mode is on"}]))).messages, want);
    let without = [want[0].clone(), want[1].clone(), want[3].clone()];
    for empty in [json!([]), json!(""), json!(null), json!([{"type": "text", "text": ""}])] {
        assert_eq!(read(&body(empty)).messages, without);
    }
}

#[test]
fn instructions_are_lines_of_their_own() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let cases = [
        (json!([text("a"), text("b")]), "a\nb"),
        (json!([text("a\n"), text("b")]), "a\nb"),
        (json!([text("a"), text(""), text("b\n\n"), text("")]), "a\nb\n\n"),
        (json!(["a"]), ""),
        (json!([{"type": "image"}, text("b")]), "[image omitted]\nb"),
    ];
    for (system, want) in cases {
        match try_read(&with(json!({"system": system}))) {
            Ok(asked) => assert_eq!(asked.messages[0].content, want),
            Err(fault) => assert_eq!((want, fault.param.as_deref()), ("", Some("system[0]"))),
        }
    }
}

#[test]
fn a02_text_before_results_comes_after_them() {
    let read = messages(json!([
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
            {"type": "tool_use", "id": "t2", "name": "f", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "text", "text": "note"},
            {"type": "tool_result", "tool_use_id": "t1", "content": "A"},
            {"type": "text", "text": "mid"},
            {"type": "tool_result", "tool_use_id": "t2", "content": "B"},
        ]},
    ]));
    let want = [
        calls("", &[call("t1", "f", "{}"), call("t2", "f", "{}")]),
        result("t1", "A"),
        result("t2", "B"),
        said(Role::User, "note\nmid"),
    ];
    assert_eq!(read, want);
}

#[test]
fn texts_are_joined_unless_results_stand_between() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let answer = json!({"type": "tool_result", "tool_use_id": "t", "content": "A"});
    let joined = |content: Value| user(content).pop().unwrap().into_fields().content;
    assert_eq!(joined(json!([text("a"), text("b")])), "ab");
    assert_eq!(joined(json!([answer, text("a"), text("b")])), "ab");
    assert_eq!(joined(json!([text("a"), answer, answer, text("b"), text("c")])), "a\nbc");
    assert_eq!(joined(json!([text("a"), answer, text(""), text("b")])), "a\nb");
    assert_eq!(user(json!([answer])), [result("t", "A")]);
    assert_eq!(user(json!([answer, text("")])), [result("t", "A")]);
}

#[test]
fn a03_an_image_leaves_a_placeholder() {
    let image = json!({"type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let answer =
        |content: Value| json!([{"type": "tool_result", "tool_use_id": "t", "content": content}]);
    let dropped =
        |text| Message::from(MessageFields { media_dropped: 1, ..result("t", text).into_fields() });
    let shot = json!([{"type": "text", "text": "shot"}, image]);
    assert_eq!(user(answer(shot)), [dropped("shot[image omitted]")]);
    assert_eq!(user(answer(json!([image]))), [dropped("[image omitted]")]);
    let seen = Message::from(MessageFields {
        media_dropped: 2,
        ..said(Role::User, "[image omitted]x[image omitted]").into_fields()
    });
    assert_eq!(user(json!([image, {"type": "text", "text": "x"}, image])), [seen]);
    // Beside a result it is text of the user's.
    let beside = Message::from(MessageFields {
        media_dropped: 1,
        ..said(Role::User, "[image omitted]").into_fields()
    });
    let mut both = answer(json!("ok"));
    both.as_array_mut().unwrap().push(image);
    assert_eq!(user(both), [result("t", "ok"), beside]);
}

#[test]
fn a04_thinking_is_reasoning() {
    let content = json!([
        {"type": "thinking", "thinking": "look first", "signature": "x"},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"p": "a"}},
    ]);
    let want = Message::from(MessageFields {
        reasoning: Some("look first".to_owned()),
        ..calls("", &[call("t1", "Read", r#"{"p":"a"}"#)]).into_fields()
    });
    assert_eq!(assistant(content), [want]);
    let thoughts = json!([
        {"type": "thinking", "thinking": "", "signature": "x"},
        {"type": "thinking", "thinking": "a"},
        {"type": "thinking", "thinking": "b", "signature": null},
        {"type": "text", "text": "c"},
    ]);
    let want = Message::from(MessageFields {
        reasoning: Some("a\nb".to_owned()),
        ..said(Role::Assistant, "c").into_fields()
    });
    assert_eq!(assistant(thoughts), [want]);
}

#[test]
fn a05_redacted_thinking_is_left_out_and_counted() {
    let content =
        json!([{"type": "redacted_thinking", "data": "AAAA"}, {"type": "text", "text": "ok"}]);
    let asked = read(&with(json!({"messages": [{"role": "assistant", "content": content}]})));
    assert_eq!(asked.messages, [said(Role::Assistant, "ok")]);
    assert_eq!(asked.skipped, [("redacted_thinking".to_owned(), 1)].into());
}

#[test]
fn a06_a_pdf_is_refused_by_block_and_index() {
    let pdf = json!({"type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}});
    let text = json!({"type": "text", "text": "summarise"});
    let body = |content: Value| with(json!({"messages": [{"role": "user", "content": content}]}));
    check_bad(&body(json!([pdf, text])), "messages[0].content[0]");
    check_bad(&body(json!([text, text, pdf])), "messages[0].content[2]");
    let nested = json!([text, {"type": "tool_result", "tool_use_id": "t", "content": [pdf]}]);
    check_bad(&body(nested), "messages[0].content[1].content[0]");
    let fault = try_read(&body(json!([text, pdf]))).unwrap_err();
    let error = String::from_utf8(Dialect::Messages.error(&fault)).unwrap();
    let start = concat!(
        r#"{"type":"error","error":{"type":"invalid_request_error","#,
        r#""message":"messages[0].content[1]: this `document` block "#
    );
    assert!(error.starts_with(start), "{error}");
}

#[test]
fn a06_documents_of_text_are_read() {
    let text = |source: Value| user(json!([{"type": "document", "source": source}]));
    let plain = json!({"type": "text", "media_type": "text/plain", "data": "D"});
    assert_eq!(text(plain.clone()), [said(Role::User, "D")]);
    assert_eq!(
        user(json!([{"type": "document", "title": "T", "context": "C", "source": plain,
            "citations": {"enabled": true}}])),
        [said(Role::User, "T\nC\nD")]
    );
    assert_eq!(text(json!({"type": "content", "content": "E"})), [said(Role::User, "E")]);
    let blocks = json!([{"type": "text", "text": "F"}, {"type": "image"}]);
    let want = Message::from(MessageFields {
        media_dropped: 1,
        ..said(Role::User, "F[image omitted]").into_fields()
    });
    assert_eq!(text(json!({"type": "content", "content": blocks})), [want]);
    let encoded = json!({"type": "base64", "media_type": "text/plain", "data": "SGk="});
    assert_eq!(text(encoded), [said(Role::User, "Hi")]);
}

#[test]
fn search_results_are_text() {
    let found = json!([{"type": "search_result", "title": "T", "source": "https://x",
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]);
    assert_eq!(user(found.clone()), [said(Role::User, "T\nhttps://x\nab")]);
    let inside = json!([{"type": "tool_result", "tool_use_id": "t", "content": found}]);
    assert_eq!(user(inside), [result("t", "T\nhttps://x\nab")]);
}

#[test]
fn a07_a08_cache_marks_are_not_looked_at_and_keys_of_that_name_are_kept() {
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    let body = |marked: bool| {
        let mark = if marked { mark.clone() } else { Value::Null };
        with(json!({
            "system": [{"type": "text", "text": "S", "cache_control": mark}],
            "tools": [{"name": "f", "cache_control": mark, "input_schema":
                {"type": "object", "properties": {"cache_control": {"type": "string"}}}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "q", "cache_control": mark}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f",
                    "input": {"cache_control": "no-store"}, "cache_control": mark}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
                    "content": "ok", "cache_control": mark}]},
            ],
        }))
    };
    let asked = read(&body(true));
    assert_eq!(asked, read(&body(false)));
    assert_eq!(asked.messages[2].tool_calls[0].arguments, r#"{"cache_control":"no-store"}"#);
    let properties = &asked.tools[0]["function"]["parameters"]["properties"];
    assert_eq!(properties, &json!({"cache_control": {"type": "string"}}));
}

#[test]
fn a08_one_text_block_is_the_text() {
    let block = json!([{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]);
    for role in ["user", "assistant", "system"] {
        let form = |content: &Value| messages(json!([{"role": role, "content": content}]));
        assert_eq!(form(&block), form(&json!("x")));
    }
    let system = |system: &Value| read(&with(json!({"system": system}))).messages;
    assert_eq!(system(&block), system(&json!("x")));
}

#[test]
fn a09_explicit_nulls_are_absent() {
    let keys = "system tools tool_choice stream stop_sequences metadata max_tokens temperature \
        top_p top_k thinking output_config output_format context_management container";
    let nulls: serde_json::Map<_, _> =
        keys.split_whitespace().map(|key| (key.to_owned(), Value::Null)).collect();
    assert_eq!(read(&with(Value::Object(nulls))), read(&with(json!({}))));
    let text = json!([{"type": "text", "text": "x", "cache_control": null, "citations": null}]);
    assert_eq!(user(text), [said(Role::User, "x")]);
    for nothing in [json!([{"type": "text", "text": null}]), json!(null)] {
        let empty = json!({"role": "user", "content": nothing});
        let read = messages(json!([empty, {"role": "user", "content": "x"}]));
        assert_eq!(read, [said(Role::User, "x")]);
    }
    let call_of = json!([{"type": "tool_use", "id": "t", "name": "f", "input": null}]);
    assert_eq!(assistant(call_of), [calls("", &[call("t", "f", "{}")])]);
}

#[test]
fn a13_empty_texts_vanish_and_white_space_stays() {
    let body = with(json!({
        "system": [{"type": "text", "text": ""}],
        "messages": [
            {"role": "assistant", "content": [
                {"type": "text", "text": ""},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
                "content": [{"type": "text", "text": " \n"}]}]},
            {"role": "assistant", "content": [{"type": "text", "text": " a \n"}]},
            {"role": "user", "content": ""},
            {"role": "user", "content": []},
            {"role": "user", "content": [{"type": "text", "text": ""}]},
            {"role": "assistant", "content": ""},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": "s"},
                {"type": "text", "text": ""},
            ]},
        ],
    }));
    let want =
        [calls("", &[call("t1", "f", "{}")]), result("t1", " \n"), said(Role::Assistant, " a \n")];
    assert_eq!(read(&body).messages, want);
    // An answer of ours that was empty.
    assert_eq!(assistant(json!([])), [said(Role::Assistant, "")]);
}

#[test]
fn a14_a_result_without_its_call_is_kept() {
    let read = messages(json!([
        {"role": "user", "content": "summary: ..."},
        {"role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "gone", "content": "42"}]},
        {"role": "user", "content": "continue"},
    ]));
    let want =
        [said(Role::User, "summary: ..."), result("gone", "42"), said(Role::User, "continue")];
    assert_eq!(read, want);
}

#[test]
fn a15_a_call_without_a_result_stays_open() {
    let read = messages(json!([
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
            {"type": "tool_use", "id": "t2", "name": "f", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "A"},
            {"type": "text", "text": "stop"},
        ]},
    ]));
    let both = calls("", &[call("t1", "f", "{}"), call("t2", "f", "{}")]);
    assert_eq!(read, [both, result("t1", "A"), said(Role::User, "stop")]);
}

#[test]
fn a16_text_behind_a_call_is_a_message_of_its_own() {
    let use_of = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let first = calls("A", &[call("t1", "f", "{}")]);
    assert_eq!(
        assistant(json!([text("A"), use_of("t1"), text("B"), text("C")])),
        [first.clone(), said(Role::Assistant, "BC")]
    );
    assert_eq!(
        assistant(json!([text("A"), use_of("t1"), text("B"), use_of("t2")])),
        [first.clone(), calls("B", &[call("t2", "f", "{}")])]
    );
    let thought = json!({"type": "thinking", "thinking": "r"});
    let thinking = Message::from(MessageFields {
        reasoning: Some("r".to_owned()),
        ..calls("", &[call("t2", "f", "{}")]).into_fields()
    });
    assert_eq!(
        assistant(json!([text("A"), use_of("t1"), thought, use_of("t2")])),
        [first.clone(), thinking]
    );
    assert_eq!(assistant(json!([text("A"), use_of("t1"), text("")])), [first]);
    let thought = |text: &str| json!({"type": "thinking", "thinking": text});
    let mused = |r: &str, text: &str| {
        Message::from(MessageFields {
            reasoning: Some(r.to_owned()),
            ..said(Role::Assistant, text).into_fields()
        })
    };
    assert_eq!(
        assistant(json!([
            thought("r"),
            text("A"),
            thought(""),
            text("B"),
            thought("s"),
            text("C")
        ])),
        [mused("r", "AB"), mused("s", "C")]
    );
    assert_eq!(
        assistant(json!([text("A"), thought("r")])),
        [said(Role::Assistant, "A"), mused("r", "")]
    );
}

#[test]
fn a17_results_come_in_many_shapes() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let cases = [
        (json!({"content": "str"}), "str"),
        (json!({"is_error": true}), ""),
        (json!({"content": null, "is_error": false}), ""),
        (json!({"content": []}), ""),
        (json!({"content": [text("a"), text("b")]}), "ab"),
        (json!({"content": [text("a")], "is_error": true}), "a"),
    ];
    for (mut block, want) in cases {
        block["type"] = "tool_result".into();
        block["tool_use_id"] = "t".into();
        assert_eq!(user(json!([block])), [result("t", want)], "{block}");
    }
}

#[test]
fn arguments_are_the_object_to_the_letter() {
    let inputs = [
        r#"{"z":1,"a":[1.0, 1e3],"m":{}}"#,
        r#"{ "n" : 123456789012345678901234567890 }"#,
        "{\"b\":1,\"a\":2,\"b\":3,\"s\":\"\\u0041é\"}",
    ];
    for input in inputs {
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"assistant","content":[
                {{"type":"tool_use","id":"t","name":"f","input":{input}}}]}}]}}"#
        );
        let asked = Dialect::Messages.read(body.as_bytes(), &()).unwrap();
        assert_eq!(asked.messages[0].tool_calls, [call("t", "f", input)]);
    }
}

#[test]
fn blocks_that_nobody_knows_are_counted_and_never_looked_into() {
    let asked = read(&with(json!({"messages": [
        {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": 5, "name": {}, "input": []},
            {"type": "web_search_tool_result", "content": {"type": "error"}},
            {"type": "mcp_tool_use", "text": 5},
            {"type": "text", "text": "a"},
        ]},
        {"role": "user", "content": [
            {"type": "container_upload", "file_id": "f"},
            {"type": "tool_result", "tool_use_id": "t", "content":
                [{"type": "brand_new", "content": 7}, {"type": "text", "text": "b"}]},
            {"type": "mcp_tool_use"},
            {"type": "x".repeat(100)},
        ]},
    ]})));
    let file = Message::from(MessageFields {
        media_dropped: 1,
        ..said(Role::User, "[file omitted]").into_fields()
    });
    assert_eq!(asked.messages, [said(Role::Assistant, "a"), result("t", "b"), file]);
    let long = "x".repeat(64);
    let want = json!({"brand_new": 1, "mcp_tool_use": 2, "server_tool_use": 1,
        "web_search_tool_result": 1, long: 1});
    assert_eq!(json!(asked.skipped), want);
}

#[test]
fn what_is_wrong_is_named_by_its_field() {
    check_bad(&json!({"messages": [{"role": "user"}]}), "model");
    check_bad(&json!({"model": "m"}), "messages");
    let cases = [
        (json!({"messages": []}), "messages"),
        (json!({"messages": [{"role": "system", "content": ""}]}), "messages"),
        (json!({"messages": "secret"}), "messages"),
        (json!({"messages": ["secret"]}), "messages[0]"),
        (json!({"messages": [{"content": "x"}]}), "messages[0].role"),
        (json!({"messages": [{"role": "tool", "content": "x"}]}), "messages[0].role"),
        (json!({"system": 5}), "system"),
        (json!({"system": [{"text": "x"}]}), "system[0]"),
        (json!({"system": ["secret"]}), "system[0]"),
        (json!({"stream": "secret"}), "stream"),
    ];
    for (more, param) in cases {
        check_bad(&with(more), param);
    }
    let cases = [
        ("user", json!(5), "messages[0].content"),
        ("user", json!({"text": "secret"}), "messages[0].content"),
        ("user", json!([{"type": "text", "text": 5}]), "messages[0].content[0].text"),
        ("user", json!([{"type": 5}]), "messages[0].content[0].type"),
        ("user", json!([{"type": "tool_use", "name": "f"}]), "messages[0].content[0]"),
        ("user", json!([{"type": "tool_result"}]), "messages[0].content[0].tool_use_id"),
        (
            "user",
            json!([{"type": "tool_result", "tool_use_id": "t", "content": 5}]),
            "messages[0].content[0].content",
        ),
        ("user", json!([{"type": "document"}]), "messages[0].content[0].source"),
        ("assistant", json!([{"type": "tool_result"}]), "messages[0].content[0]"),
        ("assistant", json!([{"type": "tool_use", "id": "t"}]), "messages[0].content[0].name"),
        (
            "assistant",
            json!([{"type": "tool_use", "name": "f", "input": "secret"}]),
            "messages[0].content[0].input",
        ),
    ];
    for (role, content, param) in cases {
        check_bad(&with(json!({"messages": [{"role": role, "content": content}]})), param);
    }
}

proptest! {
    /// A sound request with some bytes replaced is read or refused as the agent's fault.
    #[test]
    fn damaged_requests_are_read_or_refused(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let body = with(json!({
            "system": [{"type": "text", "text": "s"}],
            "tools": [{"name": "f", "input_schema": {"type": "object"}, "defer_loading": true}],
            "messages": [
                {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "\u{1f600}"}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "r", "signature": ""},
                    {"type": "tool_use", "id": "c", "name": "f", "input": {"a": [1, {"b": null}]}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c",
                        "content": [{"type": "tool_reference", "tool_name": "f"}]},
                    {"type": "document", "source": {"type": "text", "data": "d"}},
                ]},
            ],
            "tool_choice": {"type": "tool", "name": "f"},
            "stop_sequences": ["a"], "max_tokens": 5, "temperature": 0.5, "stream": true,
        }));
        let mut body = body.to_string().into_bytes();
        for (place, byte) in damage {
            let at = place.index(body.len());
            body[at] = byte;
        }
        if let Err(fault) = Dialect::Messages.read(&body, &()) {
            prop_assert!(matches!(fault.kind, FaultKind::BadJson | FaultKind::BadRequest));
        }
    }
}
