//! An agent's reading of an answer, in either framing.

use serde_json::{Map, Value, json};

use crate::wire::Reply;

/// The message of a whole answer and its finish reason; `None` where the body is a fault.
pub fn read(reply: &Reply) -> Result<(Value, String), String> {
    let text = std::str::from_utf8(&reply.body).map_err(|error| error.to_string())?;
    if !reply.streams() {
        let body: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let choice = &body["choices"][0];
        let finish = choice["finish_reason"].as_str().ok_or("no finish_reason")?;
        return Ok((choice["message"].clone(), finish.to_owned()));
    }
    if !text.ends_with("data: [DONE]\n\n") {
        return Err("a stream without its end".to_owned());
    }
    let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
    let mut calls: Vec<Value> = Vec::new();
    let mut finish = None;
    for line in text.lines().filter_map(|line| line.strip_prefix("data: {")) {
        let event: Value = serde_json::from_str(&format!("{{{line}"))
            .map_err(|error| format!("{error} in {line}"))?;
        if !event["error"].is_null() {
            return Err(format!("an error event: {}", event["error"]));
        }
        let choice = &event["choices"][0];
        if let Some(reason) = choice["finish_reason"].as_str() {
            finish = Some(reason.to_owned());
        }
        let Some(delta) = choice["delta"].as_object() else { continue };
        for (name, value) in delta {
            match (name.as_str(), value) {
                ("tool_calls", Value::Array(parts)) => {
                    parts.iter().for_each(|part| add_call(&mut calls, part));
                }
                ("role", _) => {}
                (name, Value::String(text)) => {
                    let told = message.entry(name).or_insert_with(|| json!(""));
                    *told = json!(told.as_str().unwrap_or_default().to_owned() + text);
                }
                _ => {}
            }
        }
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    message.entry("content").or_insert(Value::Null);
    Ok((Value::Object(message), finish.ok_or("a stream without a finish_reason")?))
}

fn add_call(calls: &mut Vec<Value>, part: &Value) {
    let at = part["index"].as_u64().unwrap_or_default() as usize;
    while calls.len() <= at {
        calls.push(json!({"type": "function", "function": {"name": "", "arguments": ""}}));
    }
    if let Some(id) = part["id"].as_str() {
        calls[at]["id"] = json!(id);
    }
    for name in ["name", "arguments"] {
        if let Some(text) = part["function"][name].as_str() {
            let told = calls[at]["function"][name].as_str().unwrap_or_default().to_owned();
            calls[at]["function"][name] = json!(told + text);
        }
    }
}
