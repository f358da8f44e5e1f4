//! OpenAI Chat Completions.

use serde::Deserialize;
use serde_json::{Value, json};

use super::events::data;
use super::{Answer, Call, beginning, put, quote};
use crate::load::tools::Tools;

pub(super) fn opening(stream: bool, model: &str, tools: &Tools) -> String {
    let listed = tools.all.iter().map(|tool| {
        json!({"type": "function", "function": {
            "name": tool.name, "description": tool.description, "parameters": tool.parameters,
        }})
    });
    let listed = match tools.all.is_empty() {
        true => String::new(),
        false => format!(r#""tools":{},"#, listed.collect::<Value>()),
    };
    let system = json!({"role": "system", "content": tools.instructions});
    format!(r#"{}{listed}"messages":[{system}"#, beginning(stream, model, "max_tokens"))
}

pub(super) fn user(out: &mut Vec<u8>, text: &str) {
    put(out, r#",{"role":"user","content":"#);
    quote(out, text);
    put(out, "}");
}

pub(super) fn extend(out: &mut Vec<u8>, text: &str, call: &Call, result: &str) {
    put(out, r#",{"role":"assistant","content":"#);
    quote(out, text);
    put(out, r#","tool_calls":[{"id":"#);
    quote(out, &call.id);
    put(out, r#","type":"function","function":{"name":"#);
    quote(out, &call.name);
    put(out, r#","arguments":"#);
    quote(out, &call.arguments);
    put(out, r#"}}]},{"role":"tool","tool_call_id":"#);
    quote(out, &call.id);
    put(out, r#","content":"#);
    quote(out, result);
    put(out, "}");
}

#[derive(Deserialize)]
struct Completion {
    #[serde(default)]
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(alias = "delta", default)]
    message: Spoken,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Spoken {
    content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Called>>,
}

#[derive(Deserialize)]
struct Called {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    index: usize,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

pub(super) fn read(body: &[u8]) -> Result<Answer, String> {
    let completion: Completion = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let choice = completion.choices.into_iter().next().ok_or("there is no choice")?;
    let mut answer = Answer {
        text: choice.message.content.unwrap_or_default(),
        finish: choice.finish_reason.unwrap_or_default(),
        ..Answer::default()
    };
    for called in choice.message.tool_calls.unwrap_or_default() {
        answer.add_call(Call {
            id: called.id.unwrap_or_default(),
            name: called.function.name.unwrap_or_default(),
            arguments: called.function.arguments.unwrap_or_default(),
        });
    }
    Ok(answer)
}

pub(super) fn read_events(body: &[u8]) -> Result<Answer, String> {
    let mut answer = Answer::default();
    let mut whole = false;
    for data in data(body) {
        if data == b"[DONE]" {
            whole = true;
            continue;
        }
        let event: Completion = serde_json::from_slice(data).map_err(|error| error.to_string())?;
        for choice in event.choices {
            answer.text.push_str(&choice.message.content.unwrap_or_default());
            answer.finish.push_str(&choice.finish_reason.unwrap_or_default());
            for called in choice.message.tool_calls.unwrap_or_default() {
                answer.more_calls = answer.more_calls.max(called.index);
                let call = answer.open_call();
                call.id.push_str(&called.id.unwrap_or_default());
                call.name.push_str(&called.function.name.unwrap_or_default());
                call.arguments.push_str(&called.function.arguments.unwrap_or_default());
            }
        }
    }
    whole.then_some(answer).ok_or_else(|| "the stream does not end in [DONE]".to_owned())
}
