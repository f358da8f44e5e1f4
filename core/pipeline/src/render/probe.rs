//! What is found out about a template at load, and what is proved.
//!
//! Found out: the token that closes a turn, how reasoning ends, whether tools are printed only
//! before the conversation. Proved, on made-up conversations: a stretch reads exactly as the tail
//! of a full render. A template for which that fails is refused, with the first counterexample.

use serde_json::{Map, Value, json};

use super::control::Guard;
use super::{ControlText, Model, conversation};
use crate::id::TokenId;
use crate::turn::{Message, Role, Tool, ToolCall};

/// How the template ends an assistant's turn.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct TurnEnd {
    /// Text of the token that closes it.
    pub close: String,
    /// Ids that end open reasoning, with the white space that the template writes around them.
    pub end_of_reasoning: Vec<TokenId>,
    /// Whether the tools never show behind a turn's end.
    pub tools_in_header: bool,
}

impl TurnEnd {
    /// Where, in a render, the text behind the turn that holds `sentinel` begins.
    pub fn after(&self, text: &str, sentinel: &str) -> Option<usize> {
        let from = text.find(sentinel)? + sentinel.len();
        Some(from + text.get(from..)?.find(&self.close)? + self.close.len())
    }
}

const ANSWER: &str = "probe-answer";
const REASONING: &str = "probe-reasoning";
const NEXT: &str = "probe-next";

/// Probes the model and fills in what it finds.
pub(super) fn run(model: &mut Model) -> Result<(), String> {
    model.constants.knows_developer = true;
    let developer = [Message::text(Role::Developer, NEXT), Message::text(Role::User, ANSWER)];
    model.constants.knows_developer =
        render(model, &developer, &[]).is_ok_and(|text| text.contains(NEXT));
    find_close(model)?;
    find_end_of_reasoning(model)?;
    model.turn_end.tools_in_header = tools_in_header(model);
    prove_stretches(model)
}

fn render(model: &Model, messages: &[Message], tools: &[Tool]) -> Result<String, String> {
    let messages: Vec<&Message> = messages.iter().collect();
    let variables = conversation::variables(
        &model.constants,
        &messages,
        tools,
        &pinned(),
        &Guard::new(None, 0),
    );
    model.template.render(&variables).map_err(|fault| fault.message)
}

/// Arguments that any template may need.
fn pinned() -> Map<String, Value> {
    Map::from_iter([("now".to_owned(), Value::from(0))])
}

fn find_close(model: &mut Model) -> Result<(), String> {
    let text = render(
        model,
        &[
            Message::text(Role::User, "hello"),
            Message::text(Role::Assistant, ANSWER),
            Message::text(Role::User, NEXT),
        ],
        &[],
    )?;
    let from = text.find(ANSWER).ok_or("it leaves out what the assistant said")? + ANSWER.len();
    let until = text.get(from..).and_then(|rest| rest.find(NEXT));
    let between = until.and_then(|until| text.get(from..from + until)).unwrap_or("");
    let (at, close, id) = model.control.find(between).ok_or(
        "no added token ends an assistant's turn, so a generation cannot be continued exactly",
    )?;
    if at != 0 {
        return Err(format!(
            "it writes {:?} between an answer and {close:?}, which a model would not",
            &between[..at]
        ));
    }
    let close = close.to_owned();
    model.turn_end.close = close;
    model.markers.close = id;
    Ok(())
}

/// The template's text between reasoning and answer, if it writes reasoning at all.
fn find_end_of_reasoning(model: &mut Model) -> Result<(), String> {
    let Some(marker) = model.markers.think_close else { return Ok(()) };
    let mut answer = Message::text(Role::Assistant, ANSWER);
    answer.reasoning = Some(REASONING.to_owned());
    let text = render(model, &[Message::text(Role::User, "hello"), answer], &[])?;
    let between = text.split_once(REASONING).and_then(|(_, rest)| rest.split_once(ANSWER));
    let mut ids = Vec::new();
    if let Some((between, _)) = between {
        model.tokenizer.encode(between, ControlText::Match, &mut ids)?;
    }
    model.turn_end.end_of_reasoning = if ids.contains(&marker) { ids } else { vec![marker] };
    Ok(())
}

fn tools_in_header(model: &Model) -> bool {
    let other = [tool("g"), tool("h")];
    stretches().iter().all(|new| {
        let tail = |tools: &[Tool]| {
            model.after_turn(new, tools, &pinned()).map(|after| after.plain_text()).ok()
        };
        tail(&[tool("f")]) == tail(&other)
    })
}

fn tool(name: &str) -> Tool {
    json!({"type": "function", "function": {
        "name": name,
        "description": "Looks up a word.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
    }})
}

/// Messages as they come between two generations.
fn stretches() -> Vec<Vec<Message>> {
    let user = || Message::text(Role::User, "and then?");
    let result = |id: &str| {
        let mut message = Message::text(Role::Tool, "found: x < y & \"z\"\n");
        message.tool_call_id = Some(id.to_owned());
        message
    };
    let mut foreign = Message::text(Role::Assistant, "Let me look again.");
    foreign.reasoning = Some("not sampled here".to_owned());
    foreign.tool_calls = vec![call("call00003")];
    vec![
        Vec::new(),
        vec![user()],
        vec![result("call00001")],
        vec![result("call00001"), result("call00002")],
        vec![result("call00001"), user()],
        vec![result("call00001"), foreign.clone(), result("call00003")],
        vec![user(), foreign, result("call00003"), user()],
        vec![user(), Message::text(Role::System, "Be brief."), user()],
    ]
}

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "f".to_owned(),
        arguments: r#"{"word": "probe", "n": 1}"#.to_owned(),
    }
}

/// A conversation with a past, up to the answer that a stretch follows.
fn past(new: &[Message]) -> Vec<Message> {
    let mut asked = Message::text(Role::Assistant, "I look it up.");
    asked.reasoning = Some("a word".to_owned());
    asked.tool_calls = vec![call("call00009")];
    let mut result = Message::text(Role::Tool, "nothing");
    result.tool_call_id = Some("call00009".to_owned());
    let mut answer = Message::text(Role::Assistant, ANSWER);
    answer.reasoning = Some("so be it".to_owned());
    answer.tool_calls = new
        .iter()
        .take_while(|message| message.role == Role::Tool)
        .map(|message| call(message.tool_call_id.as_deref().unwrap_or("")))
        .collect();
    vec![
        Message::text(Role::System, "You know words."),
        Message::text(Role::User, "What is this?"),
        asked,
        result,
        Message::text(Role::User, "And that?"),
        answer,
    ]
}

fn prove_stretches(model: &Model) -> Result<(), String> {
    for new in stretches() {
        for tools in [&[][..], &[tool("f"), tool("g")][..]] {
            let mut messages = past(&new);
            messages.extend(new.iter().cloned());
            let full = render(model, &messages, tools)?;
            let start = model.turn_end.after(&full, ANSWER);
            let expected = start.and_then(|start| full.get(start..));
            let stretch = model.after_turn(&new, tools, &pinned()).map_err(|f| f.message)?;
            let stretch = stretch.plain_text();
            if expected != Some(stretch.as_str()) {
                let roles: Vec<&str> = new.iter().map(|message| message.role.name()).collect();
                return Err(format!(
                    "after an assistant's turn, messages {roles:?} read {expected:?} in a whole \
                     conversation but {stretch:?} by themselves, so generations cannot be \
                     continued exactly"
                ));
            }
        }
    }
    Ok(())
}
