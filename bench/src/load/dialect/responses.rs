//! OpenAI Responses.

use serde::Deserialize;
use serde_json::{Value, json};

use super::events::data;
use super::{Answer, Call, beginning, put, quote};
use crate::load::tools::Tools;

pub(super) fn opening(stream: bool, model: &str, tools: &Tools) -> String {
    let listed = tools.all.iter().map(|tool| {
        json!({"type": "function", "name": tool.name, "description": tool.description,
            "strict": false, "parameters": tool.parameters})
    });
    let listed = match tools.all.is_empty() {
        true => String::new(),
        false => format!(r#""tools":{},"#, listed.collect::<Value>()),
    };
    format!(
        r#"{}"store":false,"instructions":{},{listed}"input":["#,
        beginning(stream, model, "max_output_tokens"),
        Value::from(tools.instructions.as_str())
    )
}

pub(super) fn user(out: &mut Vec<u8>, text: &str) {
    put(out, r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"#);
    quote(out, text);
    put(out, "}]}");
}

pub(super) fn extend(out: &mut Vec<u8>, text: &str, call: &Call, result: &str) {
    put(out, r#",{"type":"message","role":"assistant","content":[{"type":"output_text","text":"#);
    quote(out, text);
    put(out, r#"}]},{"type":"function_call","call_id":"#);
    quote(out, &call.id);
    put(out, r#","name":"#);
    quote(out, &call.name);
    put(out, r#","arguments":"#);
    quote(out, &call.arguments);
    put(out, r#"},{"type":"function_call_output","call_id":"#);
    quote(out, &call.id);
    put(out, r#","output":"#);
    quote(out, result);
    put(out, "}");
}

#[derive(Deserialize)]
struct Response {
    status: Option<String>,
    output: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    content: Vec<Part>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

impl Item {
    fn into_call(self) -> Call {
        Call {
            id: self.call_id.unwrap_or_default(),
            name: self.name.unwrap_or_default(),
            arguments: self.arguments.unwrap_or_default(),
        }
    }
}

fn answer(response: Response) -> Answer {
    let finish = response.status.unwrap_or_default();
    let mut answer = Answer { finish, ..Answer::default() };
    for item in response.output {
        match item.kind.as_str() {
            "message" => {
                item.content
                    .into_iter()
                    .filter_map(|part| part.text)
                    .for_each(|text| answer.text += &text);
            }
            "function_call" => answer.add_call(item.into_call()),
            _ => {}
        }
    }
    answer
}

pub(super) fn read(body: &[u8]) -> Result<Answer, String> {
    serde_json::from_slice(body).map(answer).map_err(|error| error.to_string())
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    delta: Option<Value>,
    item: Option<Item>,
    response: Option<Value>,
}

/// Deltas and items are put together, and must say what the whole response at the end says.
pub(super) fn read_events(body: &[u8]) -> Result<Answer, String> {
    let mut heard = Answer::default();
    let mut whole = None;
    for data in data(body) {
        if data == b"[DONE]" {
            continue;
        }
        let event: Event = serde_json::from_slice(data).map_err(|error| error.to_string())?;
        match event.kind.as_str() {
            "response.output_text.delta" => {
                heard
                    .text
                    .push_str(event.delta.as_ref().and_then(Value::as_str).unwrap_or_default());
            }
            "response.output_item.done" => {
                if let Some(item) = event.item.filter(|item| item.kind == "function_call") {
                    heard.add_call(item.into_call());
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = serde_json::from_value(event.response.unwrap_or_default());
                whole = Some(answer(response.map_err(|error| error.to_string())?));
            }
            _ => {}
        }
    }
    let whole = whole.ok_or("the stream does not end in a response")?;
    heard.finish.clone_from(&whole.finish);
    if heard != whole {
        return Err("the events do not add up to the response at the end".to_owned());
    }
    Ok(whole)
}
