//! What agents send.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fault::FaultKind;
use crate::protocol::Dialect;
use crate::turn::{Asked, Message, ReplyForm, Role, Sampling, ToolChoice};

fn read(body: &Value) -> Asked {
    Dialect::Chat.read(body.to_string().as_bytes(), &()).unwrap_or_else(|fault| panic!("{fault:?}"))
}

/// A request with these keys besides a model and one message.
fn with(more: Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn message(raw: Value) -> Message {
    let asked = read(&json!({"model": "m", "messages": [raw]}));
    asked.messages.into_iter().next().unwrap()
}

/// The request is refused at this field.
fn check_bad(body: &Value, param: &str) {
    let fault = Dialect::Chat.read(body.to_string().as_bytes(), &()).unwrap_err();
    let got = (fault.kind, fault.param.as_deref());
    assert_eq!(got, (FaultKind::BadRequest, Some(param)), "{body} {fault:?}");
    assert!(!fault.message.contains("secret"), "{fault:?}");
}

#[test]
fn the_least_request_is_read() {
    let asked = read(&with(json!({})));
    let messages = vec![Message::text(Role::User, "hi")];
    let want = Asked::plain("m".to_owned(), messages, ReplyForm::Json);
    assert_eq!(asked, want);
}

#[test]
fn explicit_nulls_are_absent() {
    let keys = "tools functions tool_choice function_call stream stream_options n stop seed \
        chat_template_kwargs max_tokens max_completion_tokens temperature top_p top_k min_p \
        presence_penalty frequency_penalty logit_bias sampling structured_outputs user metadata \
        response_format";
    let nulls: serde_json::Map<_, _> =
        keys.split_whitespace().map(|key| (key.to_owned(), Value::Null)).collect();
    assert_eq!(read(&with(Value::Object(nulls))), read(&with(json!({}))));
    let nulls = json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": null,
        "tool_call_id": null, "function_call": null, "reasoning": null, "reasoning_content": null,
        "name": null, "audio": null});
    assert_eq!(message(nulls), Message::text(Role::Assistant, ""));
}

#[test]
fn content_comes_in_many_shapes() {
    let content = |content: Value| {
        let message = message(json!({"role": "user", "content": content}));
        (message.content.clone(), message.media_dropped)
    };
    assert_eq!(content(json!("a")), ("a".to_owned(), 0));
    assert_eq!(content(json!([])), (String::new(), 0));
    assert_eq!(content(json!(null)), (String::new(), 0));
    assert_eq!(content(json!(["a", "b"])), ("ab".to_owned(), 0));
    let parts = json!([
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "refusal", "refusal": "b"},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"text": "c"},
        {"type": "file", "file": {"file_id": "f"}},
    ]);
    let text = "a[image omitted]b[audio omitted]c[file omitted]";
    assert_eq!(content(parts), (text.to_owned(), 3));
    assert_eq!(message(json!({"role": "user"})).content, "");
}

#[test]
fn unknown_parts_are_left_out_and_counted() {
    let parts = json!([
        {"type": "text", "text": "a"},
        {"type": "hologram", "hologram": {"data": "AAAA"}},
        {"type": "text", "text": "b"},
    ]);
    let messages = json!([{"role": "user", "content": parts}, {"role": "user", "content": parts}]);
    let asked = read(&json!({"model": "m", "messages": messages}));
    assert_eq!(asked.messages[0], Message::text(Role::User, "ab"));
    assert_eq!(asked.skipped, [("hologram".to_owned(), 2)].into());
}

#[test]
fn choices_of_tools_are_recorded() {
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let choice = |key: &str, choice: &Value| {
        let asked = read(&with(json!({"tools": tools, key: choice})));
        (asked.tool_choice, asked.tools.len())
    };
    let named = || ToolChoice::Named("f".to_owned());
    let cases = [
        ("tool_choice", json!("auto"), (ToolChoice::Auto, 1)),
        ("tool_choice", json!("none"), (ToolChoice::None, 0)),
        ("tool_choice", json!("required"), (ToolChoice::Required, 1)),
        ("tool_choice", json!({"type": "function", "function": {"name": "f"}}), (named(), 1)),
        (
            "tool_choice",
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}),
            (ToolChoice::Required, 1),
        ),
        ("function_call", json!("none"), (ToolChoice::None, 0)),
        ("function_call", json!({"name": "f"}), (named(), 1)),
    ];
    for (key, value, want) in cases {
        assert_eq!(choice(key, &value), want, "{key} {value}");
    }
    for value in [json!("any"), json!({"type": "function"}), json!(1)] {
        check_bad(&with(json!({"tools": tools, "tool_choice": value})), "tool_choice");
    }
    let asked =
        read(&with(json!({"parallel_tool_calls": false, "response_format": {"type": "x"}})));
    assert_eq!(asked.parallel_tool_calls, Some(false));
    assert_eq!(asked.format, Some(json!({"type": "x"})));
}

#[test]
fn roles_are_read() {
    for role in [Role::System, Role::Developer, Role::User, Role::Assistant, Role::Tool] {
        assert_eq!(message(json!({"role": role.name(), "content": "x"})).role, role);
    }
    let result = message(json!({"role": "tool", "tool_call_id": "c1", "content": "ok"}));
    assert_eq!(result.tool_call_id.as_deref(), Some("c1"));
}

#[test]
fn m05_tool_calls_keep_their_text_and_order() {
    let text = "{\"b\":1, \"a\":2,\"b\":3}";
    let calls = json!([
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": text}},
        {"id": "c2", "function": {"name": "g", "arguments": {"z": 1, "a": [1.0, "x"]}}},
        {"index": 2, "function": {"name": "h"}},
    ]);
    let message = message(json!({"role": "assistant", "tool_calls": calls}));
    let got: Vec<_> = message
        .tool_calls
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
        .collect();
    let want = [("c1", "f", text), ("c2", "g", "{\"z\":1,\"a\":[1.0,\"x\"]}"), ("", "h", "{}")];
    assert_eq!(got, want);
}

#[test]
fn the_older_form_of_calls_is_tied_by_name() {
    let call = json!({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}});
    let result = json!({"role": "function", "name": "f", "content": "ok"});
    let (call, result) = (message(call), message(result));
    assert_eq!(result.role, Role::Tool);
    assert_eq!(result.tool_call_id.as_ref(), Some(&call.tool_calls[0].id));
    let asked = read(&with(json!({"functions": [{"name": "f", "parameters": {}}]})));
    let want = json!({"type": "function", "function": {"name": "f", "parameters": {}}});
    assert_eq!(*asked.tools, [want]);
}

#[test]
fn e04_reasoning_is_read_under_either_name() {
    let cases = [
        (json!({"reasoning_content": "r"}), Some("r")),
        (json!({"reasoning": "r"}), Some("r")),
        (json!({"reasoning": "r", "reasoning_content": "r"}), Some("r")),
        (json!({"reasoning": "other", "reasoning_content": "r"}), Some("r")),
        (json!({"reasoning": "r", "reasoning_content": ""}), Some("r")),
        (json!({"reasoning_content": ""}), None),
        (json!({"reasoning": {"effort": "high"}}), None),
    ];
    for (mut raw, want) in cases {
        raw["role"] = "assistant".into();
        assert_eq!(message(raw.clone()).reasoning.as_deref(), want, "{raw}");
        raw["role"] = "user".into();
        assert_eq!(message(raw).reasoning, None);
    }
}

#[test]
fn m05_tools_are_untouched_and_in_order() {
    let tool = concat!(
        r#"{"type":"function","function":{"name":"f","#,
        r#""parameters":{"z":{},"a":{},"m":1.0},"strict":null}}"#
    );
    let messages = r#""model":"m","messages":[{"role":"user"}]"#;
    let body = |choice: &str| format!(r#"{{{messages},"tools":[{tool}],"tool_choice":{choice}}}"#);
    let named = r#"{"type":"function","function":{"name":"f"}}"#;
    for choice in ["null", "\"auto\"", "\"required\"", named] {
        let asked = Dialect::Chat.read(body(choice).as_bytes(), &()).unwrap();
        assert_eq!(asked.tools.len(), 1);
        assert_eq!(asked.tools[0].to_string(), tool);
    }
    let asked = Dialect::Chat.read(body("\"none\"").as_bytes(), &()).unwrap();
    assert!(asked.tools.is_empty());
}

#[test]
fn sampling_parameters_are_read() {
    let asked = read(&with(json!({
        "max_tokens": 5, "max_completion_tokens": 7.0, "temperature": 0, "top_p": 0.5, "top_k": -1,
        "min_p": 0.1, "presence_penalty": -2, "frequency_penalty": 2, "seed": -3,
        "stop": "END", "stream": true, "stream_options": {"include_usage": true, "x": 1},
        "chat_template_kwargs": {"enable_thinking": false}, "n": 1, "unknown": {"a": [1]},
        "logit_bias": {"5": 1}, "min_tokens": 2, "ignore_eos": true,
        "guided_json": {"type": "object"},
        "sampling": {"extra": {"min_tokens": 3, "anything": null}},
    })));
    let extra = json!({"guided_json": {"type": "object"}, "logit_bias": {"5": 1}, "min_tokens": 3,
        "ignore_eos": true, "anything": null});
    let want = Sampling {
        temperature: Some(0.0),
        top_p: Some(0.5),
        top_k: Some(-1),
        min_p: Some(0.1),
        presence_penalty: Some(-2.0),
        frequency_penalty: Some(2.0),
        max_tokens: Some(7),
        seed: Some(-3),
        stop: vec!["END".to_owned()],
        extra: extra.as_object().unwrap().clone(),
    };
    assert_eq!(asked.sampling, want);
    assert_eq!(asked.form, ReplyForm::Events { usage: true });
    assert_eq!(asked.template_kwargs["enable_thinking"], false);

    let asked = read(&with(json!({"stop": ["a", "", "b"], "max_tokens": 1e12, "stream": true})));
    assert_eq!(asked.sampling.stop, ["a", "b"]);
    assert_eq!(asked.sampling.max_tokens, Some(u32::MAX));
    assert_eq!(asked.form, ReplyForm::Events { usage: false });
}

#[test]
fn what_is_wrong_is_named_by_its_field() {
    check_bad(&json!({"messages": [{"role": "user"}]}), "model");
    check_bad(&json!({"model": "m"}), "messages");
    check_bad(&json!({"model": "m", "messages": []}), "messages");
    check_bad(&json!({"model": "m", "messages": "secret"}), "messages");
    let cases = [
        (json!({"n": 2}), "n"),
        (json!({"n": 0}), "n"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": -1}), "max_tokens"),
        (json!({"max_tokens": 1.5}), "max_tokens"),
        (json!({"max_completion_tokens": 0}), "max_completion_tokens"),
        (json!({"temperature": -0.1}), "temperature"),
        (json!({"temperature": "secret"}), "temperature"),
        (json!({"top_p": 0}), "top_p"),
        (json!({"top_p": 1.1}), "top_p"),
        (json!({"top_k": -2}), "top_k"),
        (json!({"presence_penalty": 3}), "presence_penalty"),
        (json!({"stop": [1]}), "stop"),
        (json!({"stream": "secret"}), "stream"),
        (json!({"tools": [{"type": "custom"}]}), "tools[0].type"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].function.name"),
        (json!({"tools": ["secret"]}), "tools[0].type"),
        (json!({"functions": [{}]}), "functions[0].name"),
        (json!({"stream_options": {"include_usage": 1}}), "stream_options.include_usage"),
    ];
    for (more, param) in cases {
        check_bad(&with(more), param);
    }
}

#[test]
fn what_is_wrong_in_a_message_is_named_by_its_field() {
    let user = json!({"role": "user", "content": "x"});
    let bad_arguments = json!({"function": {"name": "f", "arguments": 5}});
    let cases = [
        (json!({"content": "x"}), "messages[1].role"),
        (json!({"role": "secret"}), "messages[1].role"),
        (json!({"role": 5}), "messages[1].role"),
        (json!("secret"), "messages[1]"),
        (json!({"role": "user", "content": 5}), "messages[1].content"),
        (json!({"role": "user", "content": {"text": "secret"}}), "messages[1].content"),
        (json!({"role": "user", "content": ["x", {}]}), "messages[1].content[1]"),
        (json!({"role": "user", "content": [{"type": 5}]}), "messages[1].content[0].type"),
        (
            json!({"role": "assistant", "tool_calls": [{"id": "a"}]}),
            "messages[1].tool_calls[0].function",
        ),
        (
            json!({"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}),
            "messages[1].tool_calls[0].function.name",
        ),
        (
            json!({"role": "assistant", "tool_calls": [bad_arguments]}),
            "messages[1].tool_calls[0].function.arguments",
        ),
        (
            json!({"role": "assistant", "function_call": {"name": ""}}),
            "messages[1].function_call.name",
        ),
    ];
    for (message, param) in cases {
        check_bad(&json!({"model": "m", "messages": [user, message]}), param);
    }
}

#[test]
fn m05_a_key_that_is_there_twice_is_refused() {
    let body = br#"{"model":"a","model":"b","messages":[{"role":"user"}]}"#;
    let fault = Dialect::Chat.read(body, &()).unwrap_err();
    assert_eq!(fault.kind, FaultKind::BadRequest);
    assert!(fault.message.contains("duplicate field `model`"), "{fault}");
}

#[test]
fn m06_a_body_that_is_no_object_is_refused() {
    for body in ["null", "[]", "5", "\"secret\""] {
        let fault = Dialect::Chat.read(body.as_bytes(), &()).unwrap_err();
        assert_eq!(fault.kind, FaultKind::BadRequest, "{body}");
        assert!(!fault.message.contains("secret"), "{fault}");
    }
}

proptest! {
    /// A sound request with some bytes replaced is read or refused as the agent's fault.
    #[test]
    fn damaged_requests_are_read_or_refused(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let parts = json!([{"type": "text", "text": "\u{1f600}"}, {"type": "file"}]);
        let body = with(json!({
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "messages": [
                {"role": "user", "content": parts},
                {"role": "assistant", "reasoning": "r", "tool_calls": [
                    {"id": "c", "function": {"name": "f", "arguments": {"a": [1, {"b": null}]}}},
                ]},
                {"role": "tool", "tool_call_id": "c", "content": "ok"},
            ],
            "stop": ["a"], "max_tokens": 5, "temperature": 0.5, "stream": true,
        }));
        let mut body = body.to_string().into_bytes();
        for (place, byte) in damage {
            let at = place.index(body.len());
            body[at] = byte;
        }
        if let Err(fault) = Dialect::Chat.read(&body, &()) {
            prop_assert!(matches!(fault.kind, FaultKind::BadJson | FaultKind::BadRequest));
        }
    }
}

#[test]
fn integers_of_tools_are_exact() {
    let body = r#"{"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {"maximum": 36893488147419103232}}}
    ]}"#;
    let asked = Dialect::Chat.read(body.as_bytes(), &()).unwrap();
    let maximum = &asked.tools[0]["function"]["parameters"]["maximum"];
    let digits = crate::exact::digits(maximum.as_object().unwrap());
    assert_eq!(digits, Some("36893488147419103232"));
}
