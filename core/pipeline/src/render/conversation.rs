//! The form in which templates are given a conversation.

use minijinja::Value;
use serde_json::{Map, Value as Json};

use super::control::Guard;
use crate::turn::{Message, Role, Tool, ToolCall};

type Pairs = Vec<(Value, Value)>;

/// What is the same in every render of a model.
pub(super) struct Constants {
    /// `bos_token` and its like.
    pub tokens: Vec<(String, String)>,
    /// Whether the template knows the role `developer`; else those messages are system messages.
    pub knows_developer: bool,
    /// Whether content that begins with `<think>` is split into reasoning and content.
    pub splits_thinking: bool,
}

/// The variables of one render, generation prompt asked for. All text from outside passes the guard.
pub(super) fn variables(
    constants: &Constants,
    messages: &[&Message],
    tools: &[Tool],
    kwargs: &Map<String, Json>,
    guard: &Guard<'_>,
) -> Value {
    let mut all = Pairs::new();
    for (name, text) in &constants.tokens {
        all.push((name.as_str().into(), text.as_str().into()));
    }
    for (name, value) in kwargs {
        all.push((name.as_str().into(), from_json(value, guard)));
    }
    let list: Vec<Value> = messages.iter().map(|m| message(constants, m, guard)).collect();
    all.push(("messages".into(), list.into()));
    let tools = match tools {
        [] => Value::from(()),
        tools => tools.iter().map(|tool| from_json(tool, guard)).collect(),
    };
    all.push(("tools".into(), tools));
    all.push(("documents".into(), Value::from(())));
    all.push(("add_generation_prompt".into(), true.into()));
    Value::from_iter(all)
}

fn message(constants: &Constants, message: &Message, guard: &Guard<'_>) -> Value {
    let text = |text: &str| Value::from(guard.apply(text).as_ref());
    let mut map = Pairs::new();
    let role = match message.role {
        Role::Developer if !constants.knows_developer => Role::System,
        role => role,
    };
    map.push(("role".into(), role.name().into()));
    let (mut reasoning, mut content) = (message.reasoning.as_deref(), message.content.as_str());
    if constants.splits_thinking
        && role == Role::Assistant
        && reasoning.is_none()
        && let Some((inside, after)) = thinking_of(content)
    {
        (reasoning, content) = (Some(inside), after);
    }
    map.push(("content".into(), text(content)));
    if let Some(reasoning) = reasoning {
        map.push(("reasoning_content".into(), text(reasoning)));
    }
    if !message.tool_calls.is_empty() {
        let calls: Vec<Value> = message.tool_calls.iter().map(|c| tool_call(c, guard)).collect();
        map.push(("tool_calls".into(), calls.into()));
    }
    if let Some(id) = &message.tool_call_id {
        map.push(("tool_call_id".into(), text(id)));
    }
    Value::from_iter(map)
}

/// Reasoning and content of text in which an agent put both: `<think>…</think>…`.
fn thinking_of(content: &str) -> Option<(&str, &str)> {
    let inside = content.trim_start().strip_prefix("<think>")?;
    let (reasoning, content) = inside.split_once("</think>")?;
    Some((reasoning.trim_matches('\n'), content.trim_start_matches('\n')))
}

/// Arguments are given as an object where they are one: templates iterate it or print it with
/// `tojson`. What is not an object (broken JSON among it) stays the text it was.
fn tool_call(call: &ToolCall, guard: &Guard<'_>) -> Value {
    let arguments = match serde_json::from_str::<Json>(&call.arguments) {
        Ok(object @ Json::Object(_)) => from_json(&object, guard),
        _ => guard.apply(&call.arguments).as_ref().into(),
    };
    let function =
        [("name", Value::from(guard.apply(&call.name).as_ref())), ("arguments", arguments)];
    Value::from_iter([
        ("id", Value::from(guard.apply(&call.id).as_ref())),
        ("type", Value::from("function")),
        ("function", Value::from_iter(function)),
    ])
}

fn from_json(value: &Json, guard: &Guard<'_>) -> Value {
    match value {
        Json::String(text) => guard.apply(text).as_ref().into(),
        Json::Array(items) => items.iter().map(|item| from_json(item, guard)).collect(),
        Json::Object(map) => {
            let mut out = Pairs::with_capacity(map.len());
            for (key, value) in map {
                out.push((guard.apply(key).as_ref().into(), from_json(value, guard)));
            }
            Value::from_iter(out)
        }
        plain => Value::from_serialize(plain),
    }
}
