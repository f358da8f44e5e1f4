//! Requests and replies of the dialect, text in, text out.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::fault::Fault;
use crate::protocol::{Dialect, Past, ReplyMeta};
use crate::turn::{
    Asked, Finish, Message, Purpose, Reply, ToolCall, Usage, WireForm, WireTool, WireTools,
};

mod compaction;
mod events;
mod past;
mod replies;
mod requests;
mod tools;

/// Ids of exchanges.
const X: &str = "0123456789abcdef0123456789abcdef";
const Y: &str = "fedcba9876543210fedcba9876543210";

/// Replies that a session keeps.
#[derive(Default)]
struct Kept(HashMap<String, Rc<Reply>>);

impl Kept {
    fn new<const N: usize>(replies: [(&str, Reply); N]) -> Self {
        Self(replies.into_iter().map(|(id, reply)| (id.to_owned(), Rc::new(reply))).collect())
    }
}

impl Past for Kept {
    fn reply(&self, id: &str) -> Option<Rc<Reply>> {
        self.0.get(id).cloned()
    }
}

fn try_read(body: &Value, past: &dyn Past) -> Result<Asked, Fault> {
    Dialect::Responses.read(body.to_string().as_bytes(), past)
}

fn read(body: &Value) -> Asked {
    try_read(body, &()).unwrap_or_else(|fault| panic!("{fault:?}"))
}

/// The messages of this input.
fn messages(input: Value) -> Vec<Message> {
    read(&json!({"model": "m", "input": input})).messages
}

/// A request with these keys besides a model and an input.
fn with(more: Value) -> Value {
    let mut body = json!({"model": "m", "input": "hi"});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn meta(finish: Finish) -> ReplyMeta {
    ReplyMeta {
        id: X.to_owned(),
        created_s: 9,
        model: "m".to_owned(),
        finish,
        stop_text: None,
        usage: Usage { prompt_tokens: 5, completion_tokens: 3, cached_tokens: Some(4) },
        wire_tools: WireTools::new(),
        purpose: Purpose::Turn,
        echo: Map::new(),
    }
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

fn reply(reasoning: Option<&str>, content: &str, tool_calls: &[ToolCall]) -> Reply {
    Reply {
        reasoning: reasoning.map(str::to_owned),
        content: content.to_owned(),
        tool_calls: tool_calls.to_vec(),
        ill_formed: false,
        remarks: Vec::new(),
    }
}

fn wire(namespace: Option<&str>, name: &str, form: WireForm) -> WireTool {
    WireTool { namespace: namespace.map(str::to_owned), name: name.to_owned(), form }
}

fn json_of(reply: &Reply, meta: &ReplyMeta) -> Value {
    serde_json::from_slice(&Dialect::Responses.reply(reply, meta)).unwrap()
}

/// The output items of a reply.
fn output_of(reply: &Reply, meta: &ReplyMeta) -> Vec<Value> {
    json_of(reply, meta)["output"].as_array().unwrap().clone()
}

fn user(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}
