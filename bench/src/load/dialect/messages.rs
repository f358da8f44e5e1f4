//! Anthropic Messages.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::events::data;
use super::{Answer, Call, beginning, put, quote};
use crate::load::tools::Tools;

/// What stands behind the last field of a message's last block: `}]}`.
pub(super) const AFTER_LAST_FIELD: usize = 3;

pub(super) fn opening(stream: bool, model: &str, tools: &Tools) -> String {
    let listed = tools.all.iter().map(|tool| {
        json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
    });
    let listed = match tools.all.is_empty() {
        true => String::new(),
        false => format!(r#""tools":{},"#, listed.collect::<Value>()),
    };
    let system = json!([{
        "type": "text", "text": tools.instructions, "cache_control": {"type": "ephemeral"},
    }]);
    format!(r#"{}"system":{system},{listed}"messages":["#, beginning(stream, model, "max_tokens"))
}

pub(super) fn user(out: &mut Vec<u8>, text: &str) {
    put(out, r#"{"role":"user","content":[{"type":"text","text":"#);
    quote(out, text);
    put(out, "}]}");
}

pub(super) fn extend(out: &mut Vec<u8>, text: &str, call: &Call, result: &str) {
    put(out, r#",{"role":"assistant","content":[{"type":"text","text":"#);
    quote(out, text);
    put(out, r#"},{"type":"tool_use","id":"#);
    quote(out, &call.id);
    put(out, r#","name":"#);
    quote(out, &call.name);
    put(out, r#","input":"#);
    put(out, if call.arguments.is_empty() { "{}" } else { &call.arguments });
    put(out, r#"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"#);
    quote(out, &call.id);
    put(out, r#","content":"#);
    quote(out, result);
    put(out, "}]}");
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Vec<Block<'a>>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

pub(super) fn read(body: &[u8]) -> Result<Answer, String> {
    let message: Message<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let finish = message.stop_reason.unwrap_or_default();
    let mut answer = Answer { finish, ..Answer::default() };
    for block in message.content {
        match block.kind.as_str() {
            "text" => answer.text.push_str(&block.text.unwrap_or_default()),
            "tool_use" => answer.add_call(Call {
                id: block.id.unwrap_or_default(),
                name: block.name.unwrap_or_default(),
                arguments: block.input.map_or_else(String::new, |input| input.get().to_owned()),
            }),
            _ => {}
        }
    }
    Ok(answer)
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    content_block: Option<Block<'a>>,
    delta: Option<Delta>,
}

#[derive(Default, Deserialize)]
struct Delta {
    text: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

pub(super) fn read_events(body: &[u8]) -> Result<Answer, String> {
    let mut answer = Answer::default();
    let mut whole = false;
    for data in data(body) {
        let event: Event<'_> = serde_json::from_slice(data).map_err(|error| error.to_string())?;
        let delta = event.delta.unwrap_or_default();
        match event.kind.as_str() {
            "content_block_start" => {
                if let Some(block) = event.content_block.filter(|block| block.kind == "tool_use") {
                    answer.add_call(Call {
                        id: block.id.unwrap_or_default(),
                        name: block.name.unwrap_or_default(),
                        arguments: String::new(),
                    });
                }
            }
            "content_block_delta" => {
                answer.text.push_str(&delta.text.unwrap_or_default());
                if let Some(json) = delta.partial_json {
                    answer.open_call().arguments.push_str(&json);
                }
            }
            "message_delta" => answer.finish = delta.stop_reason.unwrap_or_default(),
            "message_stop" => whole = true,
            _ => {}
        }
    }
    whole.then_some(answer).ok_or_else(|| "the stream has no message_stop".to_owned())
}
