//! Made-up conversations.

use serde_json::json;

use crate::turn::{Message, Role, Tool, ToolCall};

pub(super) const ANSWER: &str = "probe-answer";
pub(super) const REASONING: &str = "probe-reasoning";
pub(super) const NEXT: &str = "probe-next";

pub(super) fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

pub(super) fn system(text: &str) -> Message {
    Message::text(Role::System, text)
}

/// An answer with this reasoning (none where it is empty) and calls with these ids. Its text is an
/// argument of the last call as well: some templates leave out text where there are calls.
pub(super) fn answer(text: &str, reasoning: &str, calls: &[&str]) -> Message {
    let mut message = Message::text(Role::Assistant, text);
    message.reasoning = (!reasoning.is_empty()).then(|| reasoning.to_owned());
    message.tool_calls = calls.iter().map(|id| call(id)).collect();
    if let Some(last) = message.tool_calls.last_mut().filter(|_| !text.is_empty()) {
        last.arguments = json!({"word": "probe", "n": 1, "end": text}).to_string();
    }
    message
}

pub(super) fn result(id: &str) -> Message {
    let mut message = Message::text(Role::Tool, "found: x < y & \"z\"\n");
    message.tool_call_id = Some(id.to_owned());
    message
}

pub(super) fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "f".to_owned(),
        arguments: r#"{"word": "probe", "n": 1}"#.to_owned(),
    }
}

pub(super) fn tool(name: &str) -> Tool {
    json!({"type": "function", "function": {
        "name": name,
        "description": "Looks up a word.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
    }})
}

/// Messages as they come between two generations.
pub(super) fn stretches() -> Vec<Vec<Message>> {
    let next = || user("and then?");
    let foreign = || answer("Let me look again.", "not sampled here", &["call00003"]);
    let one = || result("call00001");
    vec![
        vec![next()],
        vec![one()],
        vec![one(), result("call00002")],
        vec![one(), next()],
        vec![one(), foreign(), result("call00003")],
        vec![next(), foreign(), result("call00003"), next()],
        vec![system("Be brief."), next()],
        vec![next(), system("Be brief."), next()],
        Vec::new(),
    ]
}

/// A conversation with a past, up to the answer that a stretch follows.
pub(super) fn past(new: &[Message]) -> Vec<Message> {
    let ids: Vec<&str> = new
        .iter()
        .take_while(|message| message.role == Role::Tool)
        .filter_map(|message| message.tool_call_id.as_deref())
        .collect();
    vec![
        system("You know words."),
        user("What is this?"),
        answer("I look it up.", "a word", &["call00009"]),
        result("call00009"),
        answer("It is a word.", "it was found", &[]),
        user("And that?"),
        answer(ANSWER, "so be it", &ids),
    ]
}

/// Messages in short, as a person may read them.
pub(super) fn in_short(messages: &[Message]) -> String {
    let one = |message: &Message| {
        let mut parts = Vec::new();
        parts.extend(message.reasoning.as_ref().map(|_| "reasoning".to_owned()));
        match message.tool_calls.len() {
            0 => {}
            1 => parts.push("call".to_owned()),
            calls => parts.push(format!("{calls} calls")),
        }
        let role = message.role.name();
        match parts.is_empty() {
            true => role.to_owned(),
            false => format!("{role} ({})", parts.join(", ")),
        }
    };
    messages.iter().map(one).collect::<Vec<_>>().join(", ")
}
