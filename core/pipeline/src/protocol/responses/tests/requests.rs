//! Requests.

use serde_json::{Value, json};

use super::{call, messages, read, try_read, user, with};
use crate::fault::FaultKind;
use crate::protocol::Dialect;
use crate::turn::{Asked, Message, MessageFields, ReplyForm, Role, Sampling, ToolCall};

/// The request is refused at this field.
fn check_bad(body: &Value, param: &str) -> String {
    let fault = try_read(body, &()).unwrap_err();
    let got = (fault.kind, fault.param.as_deref());
    assert_eq!(got, (FaultKind::BadRequest, Some(param)), "{body} {fault:?}");
    assert!(!fault.message.contains("secret"), "{fault:?}");
    fault.message
}

fn assistant(reasoning: Option<&str>, content: &str, tool_calls: &[ToolCall]) -> Message {
    MessageFields {
        reasoning: reasoning.map(str::to_owned),
        tool_calls: tool_calls.to_vec(),
        ..MessageFields::text(Role::Assistant, content)
    }
    .into()
}

fn result(id: &str, content: &str) -> Message {
    MessageFields { tool_call_id: Some(id.to_owned()), ..MessageFields::text(Role::Tool, content) }
        .into()
}

fn said(text: &str) -> Message {
    Message::text(Role::User, text)
}

#[test]
fn the_least_request_is_read() {
    let want = Asked::plain("m".to_owned(), vec![said("hi")], ReplyForm::Json);
    assert_eq!(read(&with(json!({}))), want);
}

#[test]
fn explicit_nulls_are_absent() {
    let keys = "instructions tools tool_choice parallel_tool_calls stream max_output_tokens \
        temperature top_p text chat_template_kwargs sampling previous_response_id conversation \
        prompt background reasoning metadata truncation service_tier prompt_cache_key \
        safety_identifier user include store";
    let nulls: serde_json::Map<_, _> =
        keys.split_whitespace().map(|key| (key.to_owned(), Value::Null)).collect();
    assert_eq!(read(&with(Value::Object(nulls))), read(&with(json!({}))));
    let nulls = json!([{"type": null, "role": "user", "content": null, "id": null, "name": null,
        "summary": null, "encrypted_content": null, "call_id": null, "namespace": null,
        "arguments": null, "input": null, "output": null, "action": null, "author": null,
        "tools": null, "status": null}]);
    assert_eq!(messages(nulls), [said("")]);
}

#[test]
fn parameters_are_read_within_their_ranges() {
    let asked = read(&with(json!({
        "max_output_tokens": 4096.0, "temperature": 0.0, "top_p": 1, "stream": true,
        "sampling": {"extra": {"min_tokens": 3}}, "chat_template_kwargs": {"enable_thinking": false},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"},
        "parallel_tool_calls": false, "unknown": [1],
    })));
    let sampling = Sampling {
        max_tokens: Some(4096),
        temperature: Some(0.0),
        top_p: Some(1.0),
        extra: serde_json::from_value(json!({"min_tokens": 3})).unwrap(),
        ..Sampling::default()
    };
    assert_eq!((asked.sampling, asked.form), (sampling, ReplyForm::Events { usage: true }));
    assert_eq!(asked.format, Some(json!({"type": "json_schema", "name": "n", "schema": {}})));
    assert_eq!(asked.parallel_tool_calls, Some(false));
    assert_eq!(asked.template_kwargs["enable_thinking"], false);
    assert_eq!(read(&with(json!({"text": {"format": {"type": "text"}}}))).format, None);
    check_bad(&with(json!({"max_output_tokens": 0})), "max_output_tokens");
    check_bad(&with(json!({"max_output_tokens": -1})), "max_output_tokens");
    check_bad(&with(json!({"temperature": -0.1})), "temperature");
    check_bad(&with(json!({"top_p": 0})), "top_p");
    check_bad(&json!({"input": "hi"}), "model");
    check_bad(&json!({"model": "m"}), "input");
    check_bad(&json!({"model": "m", "input": []}), "input");
    check_bad(&with(json!({"background": true})), "background");
    check_bad(&with(json!({"conversation": "conv_1"})), "conversation");
    check_bad(&with(json!({"prompt": {"id": "pmpt_1"}})), "prompt");
}

#[test]
fn b01_ids_status_and_annotations_are_optional() {
    let input = json!([
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "message", "role": "assistant",
         "content": [{"type": "output_text", "text": "yo"}]},
        {"role": "user", "content": "again"},
    ]);
    let want = [said("hi"), assistant(None, "yo", &[]), said("again")];
    assert_eq!(messages(input), want);
}

#[test]
fn b02_an_assistant_item_of_nothing_does_no_harm() {
    let input = json!([
        user("q"),
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "message", "role": "assistant", "content": []},
        {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"},
    ]);
    let calls = [call("a", "f", "{}"), call("b", "g", "{}")];
    assert_eq!(messages(input), [said("q"), assistant(None, "", &calls)]);
}

#[test]
fn b03_parallel_calls_are_one_message() {
    let input = json!([
        user("q"),
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "function_call_output", "call_id": "b", "output": "2"},
    ]);
    let calls = [call("a", "f", "{}"), call("b", "g", "{}")];
    let want = [said("q"), assistant(None, "", &calls), result("a", "1"), result("b", "2")];
    assert_eq!(messages(input), want);
}

#[test]
fn b04_reasoning_text_and_calls_are_one_turn() {
    let turn = |id: &str| {
        json!([
            {"type": "reasoning", "summary": [],
             "content": [{"type": "reasoning_text", "text": "R"}]},
            {"type": "message", "role": "assistant",
             "content": [{"type": "output_text", "text": "T"}]},
            {"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"},
        ])
    };
    let want = |id: &str| assistant(Some("R"), "T", &[call(id, "f", "{}")]);
    assert_eq!(messages(turn("a")), [want("a")]);
    // Reasoning that follows a call begins another turn.
    let twice = [turn("a"), turn("b")].map(|turn| turn.as_array().unwrap().clone()).concat();
    assert_eq!(messages(twice.into()), [want("a"), want("b")]);
    // So does text, which no message holds behind its calls.
    let behind = json!([
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "message", "role": "assistant", "content": "T"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
    ]);
    let calls = [call("a", "f", "{}"), call("b", "f", "{}")];
    let want = [assistant(None, "", &calls[..1]), assistant(None, "T", &calls[1..])];
    assert_eq!(messages(behind), want);
    // A summary counts where there is no whole text.
    let summary = json!([
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "S"}]},
        {"type": "message", "role": "assistant", "content": "T"},
    ]);
    assert_eq!(messages(summary), [assistant(Some("S"), "T", &[])]);
}

#[test]
fn b05_instructions_come_first_then_developer_messages() {
    let body = json!({"model": "m", "instructions": "I0", "input": [
        {"role": "developer", "content": [{"type": "input_text", "text": "always say BANANA"}]},
        {"role": "user", "content": "capital of France?"},
    ]});
    let want = [
        Message::text(Role::System, "I0"),
        Message::text(Role::Developer, "always say BANANA"),
        said("capital of France?"),
    ];
    assert_eq!(read(&body).messages, want);
}

#[test]
fn b06_a_late_developer_message_stays_in_its_place() {
    let input = json!([
        user("u1"),
        {"role": "assistant", "content": "a1"},
        {"role": "developer", "content": "new rule"},
        user("u2"),
    ]);
    let want = [
        said("u1"),
        assistant(None, "a1", &[]),
        Message::text(Role::Developer, "new rule"),
        said("u2"),
    ];
    assert_eq!(messages(input), want);
}

#[test]
fn b11_outputs_are_texts_or_lists() {
    let output = |output: Value| {
        let item = json!({"type": "function_call_output", "call_id": "a", "output": output});
        messages(json!([item])).remove(0)
    };
    let list = json!([
        {"type": "input_text", "text": "a"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="},
    ]);
    let want = Message::from(MessageFields {
        media_dropped: 1,
        ..result("a", "a[image omitted]").into_fields()
    });
    assert_eq!(output(list), want);
    assert_eq!(output(json!("{\"t\":15}")), result("a", "{\"t\":15}"));
    assert_eq!(output(Value::Null), result("a", ""));
    let file = json!([{"type": "input_file", "filename": "a.txt",
        "file_data": "data:text/plain;base64,aGk="}]);
    assert_eq!(output(file), result("a", "hi"));
    let file = json!([{"type": "input_file", "file_data": "data:application/pdf;base64,aGk="}]);
    assert_eq!(
        output(file),
        Message::from(MessageFields {
            media_dropped: 1,
            ..result("a", "[file omitted]").into_fields()
        })
    );
}

#[test]
fn b11_an_output_of_another_kind_is_its_json_text() {
    for (output, want) in [
        (
            r#"{ "a": [1.50, 18446744073709551616],\n "b": "x  y" }"#,
            r#"{"a":[1.50,18446744073709551616],"b":"x  y"}"#,
        ),
        (r#"{"type": "error", "code": 7}"#, r#"{"type":"error","code":7}"#),
        (r#"{"text": "t", "more": 1}"#, r#"{"text":"t","more":1}"#),
        ("15", "15"),
        ("-1.50", "-1.50"),
        ("false", "false"),
        ("[1, {\"a\": 2}]", "[1,{\"a\":2}]"),
        (r#"{"type": "output_text", "text": "t"}"#, "t"),
        (r#"["a", {"type": "input_text", "text": "b"}]"#, "ab"),
        ("[]", ""),
        (r#""{ }""#, "{ }"),
    ] {
        let output = output.replace("\\n", "\n");
        let body = format!(
            r#"{{"model":"m","input":[{{"type":"function_call_output","call_id":"a","output":{output}}}]}}"#
        );
        let asked = Dialect::Responses.read(body.as_bytes(), &()).unwrap();
        assert_eq!(asked.messages, [result("a", want)]);
        assert!(asked.skipped.is_empty(), "{output}");
    }
    let hologram = json!([{"type": "function_call_output", "call_id": "a",
        "output": [{"type": "hologram"}, {"type": "input_text", "text": "t"}]}]);
    let asked = read(&json!({"model": "m", "input": hologram}));
    assert_eq!(asked.messages, [result("a", "t")]);
    assert_eq!(asked.skipped, [("hologram".to_owned(), 1)].into());
}

#[test]
fn b11_content_of_another_kind_is_left_out_and_counted() {
    for (content, kind) in [
        (json!(7), "number"),
        (json!(-7), "number"),
        (json!(0.5), "number"),
        (json!(true), "boolean"),
        (json!({"a": 1}), "object"),
        (json!([{"a": 1}]), "object"),
        (json!([{"type": "input_text", "content": "x"}]), "input_text"),
    ] {
        for role in ["user", "assistant"] {
            let input = json!([user("q"), {"role": role, "content": content}]);
            let asked = read(&json!({"model": "m", "input": input}));
            assert_eq!(asked.skipped, [(kind.to_owned(), 1)].into(), "{content}");
            assert_eq!(asked.messages[1].content, "");
        }
    }
}

#[test]
fn b12_agent_messages_are_text_and_unknown_items_are_refused() {
    let input = json!([
        user("go"),
        {"type": "agent_message", "author": "sub1",
         "content": [{"type": "input_text", "text": "done"}]},
        user("and?"),
    ]);
    assert_eq!(messages(input), [said("go"), said("[message of agent sub1]\ndone"), said("and?")]);
    let why = check_bad(
        &json!({"model": "m", "input": [user("secret"), {"type": "hologram", "data": "secret"}]}),
        "input[1].type",
    );
    assert!(why.contains("`hologram`"), "{why}");
    check_bad(&json!({"model": "m", "input": [{"content": "x"}]}), "input[0].type");
    check_bad(&json!({"model": "m", "input": [{"role": "wizard"}]}), "input[0].role");
    check_bad(&json!({"model": "m", "input": [{"type": "function_call"}]}), "input[0].name");
    let call = json!([{"type": "function_call", "name": "f"}]);
    check_bad(&json!({"model": "m", "input": call}), "input[0].call_id");
    check_bad(&json!({"model": "m", "input": [7]}), "input[0]");
}

#[test]
fn what_only_a_provider_can_run_is_left_out_and_counted() {
    let asked = read(&json!({"model": "m", "input": [
        user("q"),
        {"type": "web_search_call", "id": "ws_1", "status": "completed",
         "action": {"type": "search", "query": "x"}},
        {"type": "mcp_list_tools", "server_label": "s", "tools": [{"name": "t"}]},
        {"type": "tool_search_call", "execution": "server", "arguments": {"paths": ["n"]}},
        {"type": "tool_search_output", "execution": "server", "tools": []},
        {"type": "computer_call_output", "call_id": "c",
         "output": {"type": "computer_screenshot", "image_url": "data:,"}},
        {"type": "shell_call_output", "call_id": "c",
         "output": [{"stdout": "x", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
        {"type": "web_search_call", "id": "ws_2", "status": "completed"},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "hologram"}]},
    ]}));
    assert_eq!(asked.messages, [said("q"), said("a")]);
    let skipped = [
        ("computer_call_output", 1),
        ("hologram", 1),
        ("mcp_list_tools", 1),
        ("shell_call_output", 1),
        ("tool_search_call", 1),
        ("tool_search_output", 1),
        ("web_search_call", 2),
    ];
    assert_eq!(asked.skipped, skipped.map(|(kind, count)| (kind.to_owned(), count)).into());
}

#[test]
fn b14_a_previous_response_is_refused() {
    let why = check_bad(&with(json!({"previous_response_id": "resp_1"})), "previous_response_id");
    assert!(why.contains("send the whole conversation as `input`"), "{why}");
    assert!(why.contains("`store`"), "{why}");
}

#[test]
fn b16_lone_reasoning_is_a_turn_without_text() {
    let input = json!([
        user("q"),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        user("continue"),
    ]);
    assert_eq!(messages(input), [said("q"), assistant(Some("hm"), "", &[]), said("continue")]);
    let input = json!([user("q"), {"type": "reasoning", "summary": []}, user("continue")]);
    let asked = read(&json!({"model": "m", "input": input}));
    assert_eq!(asked.messages, [said("q"), said("continue")]);
    assert_eq!(asked.skipped, [("reasoning".to_owned(), 1)].into());
}

#[test]
fn calls_of_a_local_shell_are_calls() {
    let input = json!([
        {"type": "local_shell_call", "call_id": "c", "status": "completed",
         "action": {"type": "exec", "command": ["ls"], "env": {}}},
        {"type": "local_shell_call_output", "call_id": "c", "output": "a.txt"},
    ]);
    let want = assistant(None, "", &[call("c", "local_shell", r#"{"command":["ls"]}"#)]);
    assert_eq!(messages(input), [want, result("c", "a.txt")]);
}
