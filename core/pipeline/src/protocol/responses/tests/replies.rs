//! Replies as JSON.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{X, call, json_of, meta, output_of, read, reply, wire};
use crate::turn::{Finish, Message, MessageFields, Reply, Role, ToolCall, WireForm};

#[test]
fn a_response_has_the_known_keys_only() {
    let text = json_of(&reply(Some("r"), "hi", &[call("call_1", "f", "{}")]), &meta(Finish::Stop));
    let want = json!({
        "id": format!("resp_{X}"), "object": "response", "created_at": 9, "status": "completed",
        "background": false, "error": null, "incomplete_details": null, "instructions": null,
        "model": "m",
        "output": [
            {"type": "reasoning", "id": format!("rs_{X}"), "summary": [],
             "content": [{"type": "reasoning_text", "text": "r"}],
             "encrypted_content": format!("rg1_{X}"), "status": "completed"},
            {"type": "message", "id": format!("msg_{X}"), "status": "completed",
             "role": "assistant", "content": [
                {"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}]},
            {"type": "function_call", "id": format!("fc_{X}_0"), "call_id": "call_1", "name": "f",
             "arguments": "{}", "status": "completed"},
        ],
        "previous_response_id": null, "store": false, "tools": [],
        "usage": {"input_tokens": 5,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
            "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 8},
        "max_output_tokens": null, "metadata": {}, "parallel_tool_calls": true,
        "reasoning": {"effort": null, "summary": null}, "temperature": null,
        "text": {"format": {"type": "text"}}, "tool_choice": "auto", "top_p": null,
        "truncation": "disabled",
    });
    assert_eq!(text, want);
}

#[test]
fn what_was_asked_is_repeated_but_for_long_texts() {
    let asked = read(&json!({
        "model": "m", "input": "hi", "instructions": "be brief", "metadata": {"k": "v"},
        "temperature": 0.5, "max_output_tokens": 7, "tool_choice": "required",
        "tools": [{"type": "function", "name": "f", "parameters": {}}], "user": "u",
        "parallel_tool_calls": false, "reasoning": {"effort": "high"}, "truncation": "auto",
    }));
    let meta = super::ReplyMeta { echo: asked.echo, ..meta(Finish::Stop) };
    let got = json_of(&reply(None, "hi", &[]), &meta);
    assert_eq!(got["metadata"], json!({"k": "v"}));
    assert_eq!((&got["temperature"], &got["max_output_tokens"]), (&json!(0.5), &json!(7)));
    assert_eq!((&got["tool_choice"], &got["user"]), (&json!("required"), &json!("u")));
    assert_eq!((&got["parallel_tool_calls"], &got["truncation"]), (&json!(false), &json!("auto")));
    assert_eq!(got["reasoning"], json!({"effort": "high"}));
    assert_eq!((&got["instructions"], &got["tools"]), (&Value::Null, &json!([])));
}

#[test]
fn calls_go_back_in_the_form_of_their_tools() {
    let mut meta = meta(Finish::Stop);
    meta.wire_tools = [
        ("fs__read".to_owned(), wire(Some("fs"), "read", WireForm::Function)),
        ("apply_patch".to_owned(), wire(None, "apply_patch", WireForm::Custom)),
        ("tool_search".to_owned(), wire(None, "tool_search", WireForm::ToolSearch)),
        ("local_shell".to_owned(), wire(None, "local_shell", WireForm::LocalShell)),
    ]
    .into();
    let check = |name: &str, arguments: &str, want: Value| {
        let got = output_of(&reply(None, "", &[call("c", name, arguments)]), &meta).remove(0);
        let mut want = want;
        want["call_id"] = "c".into();
        want["status"] = "completed".into();
        assert_eq!(got, want);
    };
    let id = |prefix: &str| format!("{prefix}_{X}_0");
    check(
        "fs__read",
        r#"{"p": 1.0}"#,
        json!({"type": "function_call", "id": id("fc"),
        "name": "read", "namespace": "fs", "arguments": r#"{"p": 1.0}"#}),
    );
    check(
        "apply_patch",
        r#"{"input":"*** Begin\n"}"#,
        json!({"type": "custom_tool_call",
        "id": id("ctc"), "name": "apply_patch", "input": "*** Begin\n"}),
    );
    check(
        "apply_patch",
        r#"{"patch":"x"}"#,
        json!({"type": "custom_tool_call",
        "id": id("ctc"), "name": "apply_patch", "input": r#"{"patch":"x"}"#}),
    );
    check(
        "tool_search",
        r#"{"query": "q"}"#,
        json!({"type": "tool_search_call",
        "id": id("tsc"), "execution": "client", "arguments": {"query": "q"}}),
    );
    check(
        "local_shell",
        r#"{"command":["ls"]}"#,
        json!({"type": "local_shell_call",
        "id": id("lsh"), "action": {"type": "exec", "env": {}, "command": ["ls"]}}),
    );
    check(
        "local_shell",
        r#"{"command":"ls"}"#,
        json!({"type": "function_call",
        "id": id("fc"), "name": "local_shell", "arguments": r#"{"command":"ls"}"#}),
    );
}

#[test]
fn d03_truncation_is_incomplete() {
    for finish in [Finish::Length, Finish::Abort] {
        let got = json_of(&reply(Some("r"), "", &[]), &meta(finish));
        assert_eq!(got["status"], "incomplete");
        assert_eq!(got["incomplete_details"], json!({"reason": "max_output_tokens"}));
        assert_eq!(got["usage"]["total_tokens"], 8);
        let output = got["output"].as_array().unwrap();
        assert_eq!(output.len(), 1, "no empty message");
        assert_eq!(output[0]["status"], "incomplete");
    }
    let output = output_of(&reply(Some("r"), "t", &[]), &meta(Finish::Length));
    assert_eq!(
        (&output[0]["status"], &output[1]["status"]),
        (&json!("completed"), &json!("incomplete"))
    );
    let output = output_of(&reply(None, "t", &[call("c", "f", "{}")]), &meta(Finish::Length));
    assert_eq!(
        (&output[0]["status"], &output[1]["status"]),
        (&json!("completed"), &json!("completed"))
    );
}

#[test]
fn d04_white_space_beside_a_call_is_no_message() {
    let types = |reply: &Reply| {
        let output = output_of(reply, &meta(Finish::Stop));
        output.iter().map(|item| item["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let calls = [call("c", "f", "{}")];
    assert_eq!(types(&reply(Some("r"), "\n\n", &calls)), ["reasoning", "function_call"]);
    assert_eq!(types(&reply(None, "\n\n", &calls)), ["function_call"]);
    assert_eq!(types(&reply(Some("r"), "\n\n", &[])), ["reasoning"]);
    assert_eq!(types(&reply(None, "", &[])), ["message"]);
}

pub(super) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z\"\\\\\n\r\u{0}\u{7f}\u{2028}\u{1f600}\u{5317}]{0,20}",
        (4_080_usize..4_100).prop_map(|count| format!("{}\u{1f600}y", "x".repeat(count))),
    ]
}

pub(super) fn any_reply() -> impl Strategy<Value = Reply> {
    let call = ("[a-z0-9_]{1,9}", "[a-z]{1,9}", text())
        .prop_map(|(id, name, arguments)| ToolCall { id, name, arguments });
    (prop::option::of(text()), text(), prop::collection::vec(call, 0..4)).prop_map(
        |(reasoning, content, tool_calls)| Reply {
            reasoning,
            content,
            tool_calls,
            ill_formed: false,
            remarks: Vec::new(),
        },
    )
}

/// A call as it is told.
fn told(call: &ToolCall) -> ToolCall {
    ToolCall { arguments: call.readable_arguments().to_owned(), ..call.clone() }
}

proptest! {
    /// What we sent, echoed back, is read as what we sent, whether the session is remembered or not.
    #[test]
    fn an_echoed_reply_reads_as_it_was_sent(reply in any_reply()) {
        let sent = output_of(&reply, &meta(Finish::Stop));
        let asked = read(&json!({"model": "m", "input": sent}));
        let [message] = &asked.messages[..] else { panic!("{:?}", asked.messages) };
        let whole = Message::from(MessageFields {
            reasoning: reply.reasoning.clone().filter(|text| !text.is_empty()),
            tool_calls: reply.tool_calls.iter().map(told).collect(),
            ..MessageFields::text(Role::Assistant, reply.content.as_str()) });
        if reply.content.trim().is_empty() {
            prop_assert_eq!(message.content.trim(), "");
            prop_assert_eq!(&Message::from(MessageFields { content: whole.content.clone(), ..message.clone().into_fields() }), &whole);
        } else {
            prop_assert_eq!(message, &whole);
        }
        let past = super::Kept::new([(X, reply.clone())]);
        let asked = super::try_read(&json!({"model": "m", "input": sent}), &past).unwrap();
        prop_assert_eq!(&asked.messages[0], &whole);
    }
}
