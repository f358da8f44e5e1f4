//! Responses: items. The first instructions go where Codex puts them, reasoning comes back with its
//! opaque text, and in streamed sessions with nothing else.

use serde_json::{Value, json};

use super::{KEPT, append, events, parsed};
use crate::corpus::agent::Ask;
use crate::corpus::script::content_of;

pub(super) fn body(ask: &Ask, opaque: bool) -> Value {
    let mut messages = ask.messages.iter().peekable();
    let mut body = json!({"store": false, "include": ["reasoning.encrypted_content"]});
    if let Some(system) = messages.next_if(|message| message["role"] == "system") {
        body["instructions"] = content_of(system).into();
    }
    let mut input = Vec::new();
    for message in messages {
        match message["role"].as_str().unwrap_or_default() {
            "assistant" => said(message, opaque, &mut input),
            "tool" => input.push(json!({
                "type": "function_call_output", "call_id": message["tool_call_id"],
                "output": content(message, "input_text"),
            })),
            role => input.push(json!({
                "type": "message", "role": role, "content": content(message, "input_text"),
            })),
        }
    }
    body["input"] = input.into();
    if !ask.tools.is_empty() {
        body["tools"] = ask.tools.iter().map(tool).collect();
    }
    body
}

/// Content in the same form: a text, or parts.
fn content(message: &Value, kind: &str) -> Value {
    match &message["content"] {
        Value::Array(parts) => {
            parts.iter().map(|part| json!({"type": kind, "text": part["text"]})).collect()
        }
        text => text.clone(),
    }
}

/// The items of an answer: as they came, but for what the history has otherwise.
fn said(message: &Value, opaque: bool, input: &mut Vec<Value>) {
    let kept = &message[KEPT];
    if let Some(text) = message["reasoning_content"].as_str().filter(|text| !text.is_empty()) {
        let mut item = known(&kept["reasoning"], json!({"type": "reasoning", "summary": []}));
        let opaque = opaque && item["encrypted_content"].is_string();
        item["content"] = match opaque {
            true => Value::Null,
            false => json!([{"type": "reasoning_text", "text": text}]),
        };
        input.push(item);
    }
    let empty = matches!(&message["content"], Value::Null | Value::String(_))
        && content_of(message).is_empty();
    if !empty {
        let mut item = known(&kept["message"], json!({"type": "message", "role": "assistant"}));
        item["content"] = match &message["content"] {
            Value::Array(_) => content(message, "output_text"),
            text => json!([{"type": "output_text", "text": text, "annotations": []}]),
        };
        input.push(item);
    }
    for (at, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
        let mut item = known(&kept["calls"][at], json!({"type": "function_call"}));
        item["call_id"] = call["id"].clone();
        item["name"] = call["function"]["name"].clone();
        item["arguments"] = call["function"]["arguments"].clone();
        input.push(item);
    }
}

fn known(item: &Value, fresh: Value) -> Value {
    if item.is_null() { fresh } else { item.clone() }
}

fn tool(tool: &Value) -> Value {
    let function = &tool["function"];
    json!({
        "type": "function", "name": function["name"], "description": function["description"],
        "strict": false, "parameters": function["parameters"],
    })
}

pub(super) fn of_json(text: &str) -> Result<Value, String> {
    message(&parsed(text)?)
}

/// Follows the items as they come, as Codex does; what they become must be what the end says.
pub(super) fn of_events(text: &str) -> Result<Value, String> {
    let mut items: Vec<Value> = Vec::new();
    let mut deltas = String::new();
    let mut end = None;
    for (at, event) in events::typed(text)?.into_iter().enumerate() {
        let wrong = || format!("out of order: {event} in {text:.600}");
        if end.is_some() || event["sequence_number"] != at {
            return Err(wrong());
        }
        match event["type"].as_str().unwrap_or_default() {
            "response.output_item.added" if event["output_index"] == items.len() => deltas.clear(),
            "response.reasoning_text.delta"
            | "response.output_text.delta"
            | "response.function_call_arguments.delta" => {
                deltas.push_str(event["delta"].as_str().ok_or_else(wrong)?);
            }
            "response.output_item.done" if event["output_index"] == items.len() => {
                let item = event["item"].clone();
                if whole(&item) != deltas {
                    return Err(format!("{deltas:?} are the deltas of {item}"));
                }
                items.push(item);
            }
            "response.completed" | "response.incomplete" => end = Some(event["response"].clone()),
            "response.output_item.added" | "response.output_item.done" => return Err(wrong()),
            _ => {}
        }
    }
    let end = end.ok_or_else(|| format!("the events end too early: {text:.600}"))?;
    if end["output"] != json!(items) {
        return Err(format!("the end says {} and the events {items:?}", end["output"]));
    }
    message(&end)
}

/// The text of an item that comes piece by piece.
fn whole(item: &Value) -> String {
    let arguments = item["arguments"].as_str();
    arguments.map_or_else(|| content_of(item), str::to_owned)
}

/// A response as a message; its items are kept.
fn message(response: &Value) -> Result<Value, String> {
    let status = response["status"].as_str().unwrap_or_default();
    let items = response["output"].as_array().ok_or_else(|| format!("no output: {response}"))?;
    if status != "completed" && response["incomplete_details"]["reason"] != "max_output_tokens" {
        return Err(format!("status {status}: {response}"));
    }
    let mut message = json!({"role": "assistant", "content": null});
    let mut kept = json!({"calls": []});
    let mut calls = Vec::new();
    for item in items {
        match item["type"].as_str().unwrap_or_default() {
            "reasoning" => {
                append(&mut message["reasoning_content"], &content_of(item));
                kept["reasoning"] = item.clone();
            }
            "message" => {
                append(&mut message["content"], &content_of(item));
                kept["message"] = item.clone();
            }
            "function_call" => {
                calls.push(json!({"id": item["call_id"], "type": "function", "function": {
                    "name": item["name"], "arguments": item["arguments"],
                }}));
                kept["calls"].as_array_mut().expect("a list").push(item.clone());
            }
            _ => return Err(format!("an unknown item: {item}")),
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message[KEPT] = kept;
    Ok(message)
}
