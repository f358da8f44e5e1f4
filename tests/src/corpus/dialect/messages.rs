//! Messages: blocks. Thinking carries a signature, inputs of calls are objects, and results stand in a
//! user's message, together with the text that follows them.

use serde_json::{Map, Value, json};

use super::{DELIVERED, Habits, KEPT, append, events, parsed};
use crate::corpus::agent::Ask;

pub(super) fn body(ask: &Ask, habits: Habits) -> Value {
    let leading = ask.messages.iter().take_while(|message| instructs(message)).count();
    let (instructions, rest) = ask.messages.split_at(leading);
    let mut system: Vec<Value> = instructions.iter().flat_map(blocks).collect();
    let mut messages: Vec<Value> = Vec::new();
    // Whether the last message holds results and may take up what follows.
    let mut results = false;
    for message in rest {
        match message["role"].as_str().unwrap_or_default() {
            "assistant" => messages.push(json!({"role": "assistant", "content": said(message)})),
            "tool" => {
                if !results || habits.results_apart {
                    messages.push(json!({"role": "user", "content": []}));
                }
                add(&mut messages, result(message));
            }
            "user" if results => blocks(message).into_iter().for_each(|b| add(&mut messages, b)),
            role => messages.push(json!({
                "role": if role == "user" { "user" } else { "system" },
                "content": message["content"],
            })),
        }
        results = message["role"] == "tool";
    }
    if habits.marks_cache {
        mark(system.last_mut());
        mark(messages.last_mut().and_then(last_block));
    }
    let mut body = json!({"max_tokens": 8192, "system": system, "messages": messages});
    if !ask.tools.is_empty() {
        body["tools"] = ask.tools.iter().map(tool).collect();
    }
    body
}

fn instructs(message: &Value) -> bool {
    message["role"] == "system" || message["role"] == "developer"
}

fn add(messages: &mut [Value], block: Value) {
    let content = messages.last_mut().and_then(|message| message["content"].as_array_mut());
    content.expect("a message of blocks").push(block);
}

fn mark(block: Option<&mut Value>) {
    block.expect("a block to mark")["cache_control"] = json!({"type": "ephemeral"});
}

/// The last block of a message; a text becomes one.
fn last_block(message: &mut Value) -> Option<&mut Value> {
    if message["content"].is_string() {
        message["content"] = json!([{"type": "text", "text": message["content"]}]);
    }
    message["content"].as_array_mut()?.last_mut()
}

/// Content as blocks.
fn blocks(message: &Value) -> Vec<Value> {
    match &message["content"] {
        Value::Array(blocks) => blocks.clone(),
        text => vec![json!({"type": "text", "text": text})],
    }
}

fn result(message: &Value) -> Value {
    json!({
        "type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"],
    })
}

/// The blocks of an answer.
fn said(message: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    if let Some(thinking) = message["reasoning_content"].as_str().filter(|text| !text.is_empty()) {
        let signature = message[KEPT]["signature"].as_str().unwrap_or_default();
        out.push(json!({"type": "thinking", "thinking": thinking, "signature": signature}));
    }
    match &message["content"] {
        Value::String(text) if text.is_empty() => {}
        Value::Null => {}
        _ => out.extend(blocks(message)),
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        let input: Value = serde_json::from_str(arguments).expect("a call's input is JSON");
        let name = &call["function"]["name"];
        out.push(json!({"type": "tool_use", "id": call["id"], "name": name, "input": input}));
    }
    out
}

fn tool(tool: &Value) -> Value {
    let Value::Object(function) = &tool["function"] else { panic!("a function: {tool}") };
    json!({
        "name": function["name"], "description": function["description"],
        "input_schema": function["parameters"],
    })
}

pub(super) fn of_json(text: &str) -> Result<Value, String> {
    #[derive(serde::Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        content: Vec<Block<'a>>,
        stop_reason: String,
    }
    #[derive(serde::Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        input: Option<&'a serde_json::value::RawValue>,
        #[serde(flatten)]
        rest: Map<String, Value>,
    }
    let body: Value = parsed(text)?;
    if body["type"] != "message" || body["role"] != "assistant" {
        return Err(format!("no message: {text:.600}"));
    }
    let Body { content, stop_reason } =
        serde_json::from_str(text).map_err(|error| format!("{error}: {text:.600}"))?;
    let blocks = content.into_iter().map(|Block { input, rest }| {
        (Value::Object(rest), input.map(|input| input.get().to_owned()))
    });
    message(blocks.collect(), &stop_reason)
}

/// Puts blocks together from events, as the SDKs do.
pub(super) fn of_events(text: &str) -> Result<Value, String> {
    let mut blocks: Vec<(Value, Option<String>)> = Vec::new();
    let (mut open, mut stop, mut done) = (None, None, false);
    for event in events::typed(text)? {
        let wrong = || format!("out of order: {event} in {text:.600}");
        match event["type"].as_str().unwrap_or_default() {
            "message_start" if blocks.is_empty() => {}
            "content_block_start" if open.is_none() && event["index"] == blocks.len() => {
                open = Some(blocks.len());
                let mut block = event["content_block"].clone();
                let input = block.as_object_mut().and_then(|block| block.shift_remove("input"));
                blocks.push((block, input.map(|_| String::new())));
            }
            "content_block_delta" if event["index"].as_u64().map(|at| at as usize) == open => {
                let (block, input) = blocks.last_mut().ok_or_else(wrong)?;
                let delta = &event["delta"];
                let more = |key: &str| delta[key].as_str().ok_or_else(wrong);
                match delta["type"].as_str().unwrap_or_default() {
                    "text_delta" => append(&mut block["text"], more("text")?),
                    "thinking_delta" => append(&mut block["thinking"], more("thinking")?),
                    "signature_delta" => append(&mut block["signature"], more("signature")?),
                    "input_json_delta" => {
                        input.as_mut().ok_or_else(wrong)?.push_str(more("partial_json")?)
                    }
                    _ => return Err(wrong()),
                }
            }
            "content_block_stop" if open.is_some() => open = None,
            "message_delta" if open.is_none() => {
                stop = event["delta"]["stop_reason"].as_str().map(str::to_owned);
            }
            "message_stop" if stop.is_some() => done = true,
            "ping" => {}
            _ => return Err(wrong()),
        }
    }
    let stop =
        stop.filter(|_| done).ok_or_else(|| format!("the events end too early: {text:.600}"))?;
    message(blocks, &stop)
}

/// Blocks, with the spelling of inputs, as a message.
fn message(blocks: Vec<(Value, Option<String>)>, stop: &str) -> Result<Value, String> {
    let mut message = json!({"role": "assistant", "content": null});
    let mut calls = Vec::new();
    for (block, input) in blocks {
        let text = |key: &str| block[key].as_str().ok_or_else(|| format!("no {key}: {block}"));
        match block["type"].as_str().unwrap_or_default() {
            "thinking" => {
                append(&mut message["reasoning_content"], text("thinking")?);
                message[KEPT] = json!({"signature": text("signature")?});
            }
            "text" => append(&mut message["content"], text("text")?),
            "tool_use" => {
                let spelled =
                    input.filter(|input| !input.is_empty()).unwrap_or_else(|| "{}".into());
                let object: Map<String, Value> = serde_json::from_str(&spelled)
                    .map_err(|error| format!("{error}: input {spelled:.300}"))?;
                calls.push(json!({"id": text("id")?, "type": "function", "function": {
                    "name": text("name")?, "arguments": Value::Object(object).to_string(),
                    DELIVERED: spelled,
                }}));
            }
            _ => return Err(format!("an unknown block: {block}")),
        }
    }
    let calls_stop = stop == "tool_use";
    if calls_stop == calls.is_empty() && stop != "max_tokens" {
        return Err(format!("stop_reason {stop} with {} calls", calls.len()));
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    Ok(message)
}
