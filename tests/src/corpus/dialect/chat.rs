//! Chat Completions: the form in which histories are kept.

use serde_json::{Map, Value, json};

use super::{append, parsed};
use crate::corpus::agent::Ask;

pub(super) fn body(ask: &Ask) -> Value {
    let mut body = json!({"messages": ask.messages});
    if !ask.tools.is_empty() {
        body["tools"] = json!(ask.tools);
    }
    body
}

pub(super) fn of_json(text: &str) -> Result<Value, String> {
    let message = parsed(text)?["choices"][0]["message"].clone();
    if message.is_object() { Ok(message) } else { Err(format!("no message: {text:.600}")) }
}

/// Puts a message together from chunks, as the SDKs do.
pub(super) fn of_events(text: &str) -> Result<Value, String> {
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
