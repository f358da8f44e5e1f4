//! Requests and replies of the dialect, text in, text out.

mod faults;
mod replies;
mod requests;
mod tools;

use serde_json::{Value, json};

use crate::fault::{Fault, FaultKind};
use crate::protocol::Dialect;
use crate::turn::{Asked, Message, MessageFields, Role, ToolCall};

fn try_read(body: &Value) -> Result<Asked, Fault> {
    Dialect::Messages.read(body.to_string().as_bytes(), &())
}

fn read(body: &Value) -> Asked {
    try_read(body).unwrap_or_else(|fault| panic!("{fault:?}"))
}

/// A request with these keys besides a model and one message.
fn with(more: Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn messages(raw: Value) -> Vec<Message> {
    read(&with(json!({"messages": raw}))).messages
}

/// What a user message with this content is read as.
fn user(content: Value) -> Vec<Message> {
    messages(json!([{"role": "user", "content": content}]))
}

/// What an assistant message with this content is read as.
fn assistant(content: Value) -> Vec<Message> {
    messages(json!([{"role": "assistant", "content": content}]))
}

fn said(role: Role, text: &str) -> Message {
    Message::text(role, text)
}

fn result(id: &str, text: &str) -> Message {
    MessageFields { tool_call_id: Some(id.to_owned()), ..said(Role::Tool, text).into_fields() }
        .into()
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

fn calls(text: &str, tool_calls: &[ToolCall]) -> Message {
    MessageFields { tool_calls: tool_calls.to_vec(), ..said(Role::Assistant, text).into_fields() }
        .into()
}

/// The request is refused at this field, and no text of it is told.
fn check_bad(body: &Value, param: &str) {
    let fault = try_read(body).unwrap_err();
    let got = (fault.kind, fault.param.as_deref());
    assert_eq!(got, (FaultKind::BadRequest, Some(param)), "{body} {fault:?}");
    assert!(!fault.message.contains("secret"), "{fault:?}");
}
