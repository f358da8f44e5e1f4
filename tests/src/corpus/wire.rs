//! An agent's HTTP: whole answers as JSON or put together from events, and connections that are cut.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::chat;

/// Where and how an agent asks.
#[derive(Clone, Debug)]
pub struct Wire {
    /// Base URL of the agents' port.
    pub agents: String,
    /// The session's key.
    pub key: String,
    /// As events, or as one JSON body.
    pub stream: bool,
}

impl Wire {
    fn path(scene: &str) -> String {
        let scene = if scene == "main" { String::new() } else { format!("/scene/{scene}") };
        format!("{scene}/v1/chat/completions")
    }

    /// The assistant message that answers this body. Anything but 200 is an error.
    pub fn ask(&self, scene: &str, body: &str) -> Result<Value, String> {
        let url = format!("{}{}", self.agents, Self::path(scene));
        let (status, text) = chat::send("POST", &url, Some(&self.key), Some(body));
        if status != 200 {
            return Err(format!("status {status}: {text:.600}"));
        }
        if self.stream { of_events(&text) } else { of_json(&text) }
    }

    /// Sends the request and closes the connection before an answer can have come.
    pub fn cut_before(&self, body: &str, after: Duration) {
        let stream = self.sent(body);
        std::thread::sleep(after);
        drop(stream);
    }

    /// Reads the first bytes of the answer and closes the connection with the rest unread, so that
    /// the other side is told that not all was taken.
    pub fn cut_within(&self, body: &str) -> String {
        let mut stream = self.sent(body);
        let mut head = [0; 400];
        stream.read_exact(&mut head).expect("an answer begins");
        let mut waiting = [0];
        let unread = stream.peek(&mut waiting).expect("the answer goes on");
        assert_eq!(unread, 1, "the answer must be longer than what is read of it");
        drop(stream);
        String::from_utf8_lossy(&head).into_owned()
    }

    fn sent(&self, body: &str) -> TcpStream {
        let host = self.agents.strip_prefix("http://").expect("an http address");
        let mut stream = TcpStream::connect(host).expect("the gateway listens");
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            Self::path("main"),
            self.key,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("it takes requests");
        stream
    }
}

fn of_json(text: &str) -> Result<Value, String> {
    let body: Value =
        serde_json::from_str(text).map_err(|error| format!("{error}: {text:.600}"))?;
    let message = body["choices"][0]["message"].clone();
    if message.is_object() { Ok(message) } else { Err(format!("no message: {text:.600}")) }
}

/// Puts a message together from chunks, as the SDKs do.
fn of_events(text: &str) -> Result<Value, String> {
    let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
    let mut calls: Vec<Value> = Vec::new();
    let (mut done, mut finished) = (false, false);
    for data in text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim) {
        if data == "[DONE]" {
            done = true;
            continue;
        }
        let chunk: Value = serde_json::from_str(data).map_err(|e| format!("{e}: {data:.300}"))?;
        if chunk.get("error").is_some() {
            return Err(format!("error event: {data:.600}"));
        }
        let Some(choice) = chunk["choices"].get(0) else { continue };
        finished |= choice["finish_reason"].is_string();
        let delta = &choice["delta"];
        for key in ["content", "reasoning_content"] {
            if let Some(more) = delta[key].as_str() {
                append(message.entry(key).or_insert(Value::Null), more);
            }
        }
        for part in delta["tool_calls"].as_array().into_iter().flatten() {
            add_call(&mut calls, part);
        }
    }
    if !done || !finished {
        return Err(format!("the events end too early: {text:.600}"));
    }
    message.entry("content").or_insert(Value::Null);
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    Ok(message.into())
}

fn append(value: &mut Value, more: &str) {
    *value = format!("{}{more}", value.as_str().unwrap_or_default()).into();
}

fn add_call(calls: &mut Vec<Value>, part: &Value) {
    let index = part["index"].as_u64().unwrap_or_default() as usize;
    while calls.len() <= index {
        calls.push(json!({"type": "function", "function": {"name": "", "arguments": ""}}));
    }
    let call = &mut calls[index];
    if let Some(id) = part["id"].as_str() {
        call["id"] = json!(id);
    }
    for key in ["name", "arguments"] {
        append(&mut call["function"][key], part["function"][key].as_str().unwrap_or_default());
    }
}
