//! The form in which a template is given a conversation.
//!
//! Templates disagree on details (see [`Forms`]); which form a template wants is found by the
//! probe. A system message that a template cannot take in the middle of a conversation becomes a
//! user message in a fixed wrapper.

use std::collections::HashMap;

use minijinja::Value;
use serde_json::{Map, Value as Json};

use super::control::Guard;
use super::ready::ReadyTools;
use super::value;
use crate::turn::{Message, Role, Tool, ToolCall};

type Pairs = Vec<(Value, Value)>;

/// What is to be rendered.
#[derive(Clone, Copy)]
pub(super) struct Conversation<'a> {
    /// The messages.
    pub messages: &'a [&'a Message],
    /// Tools on offer.
    pub tools: &'a [Tool],
    /// Arguments of the template.
    pub kwargs: &'a Map<String, Json>,
    /// Whether the beginning of an answer comes last.
    pub prompts: bool,
    /// The same tools in the template's form, where that was made before.
    pub ready: Option<&'a ReadyTools>,
}

/// What is the same in every render of a model.
#[derive(Clone)]
pub(super) struct Constants {
    /// `bos_token` and its like.
    pub tokens: Vec<(String, String)>,
    /// Arguments that keep history as it was; those of a request win.
    pub switches: Map<String, Json>,
    /// Whether content that begins with `<think>` is split into reasoning and content.
    pub splits_thinking: bool,
    /// Details on which templates disagree.
    pub forms: Forms,
}

/// Details on which templates disagree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Forms {
    /// `developer` messages are given as `system` messages.
    pub developer_is_system: bool,
    /// The missing text beside tool calls is given as none, not as empty text.
    pub null_content: bool,
    /// Arguments of calls are given as the text that they were, not as an object.
    pub text_arguments: bool,
    /// Arguments that are no object are put into one: the template takes nothing else.
    pub only_objects: bool,
    /// System messages behind the first other message are wrapped into user messages.
    pub wraps_instructions: bool,
    /// Ids of calls are made to be nine letters and digits.
    pub nine_letter_ids: bool,
    /// Ids of calls are made to be `functions.NAME:NUMBER`: the id is all that the template writes
    /// of a call's name.
    pub function_ids: bool,
}

/// The key under which arguments that are no object are put into one.
const RAW_ARGUMENTS: &str = "arguments";

/// What stands for a system message in the middle of a conversation, where one is refused.
pub(super) fn wrapped(text: &str) -> String {
    format!("<system_instructions>\n{text}\n</system_instructions>")
}

/// Whether it holds instructions and stands where `Forms::wraps_instructions` looks.
pub(super) fn instructs(message: &Message) -> bool {
    matches!(message.role, Role::System | Role::Developer)
}

/// The variables of one render. All text from outside passes the guard.
pub(super) fn variables(
    constants: &Constants,
    conversation: &Conversation<'_>,
    guard: &Guard<'_>,
) -> Value {
    let Conversation { messages, tools, kwargs, prompts, ready } = *conversation;
    let mut all = Pairs::new();
    for (name, text) in &constants.tokens {
        all.push((name.as_str().into(), text.as_str().into()));
    }
    let switches = constants.switches.iter().filter(|(name, _)| !kwargs.contains_key(*name));
    for (name, value) in switches.chain(kwargs) {
        all.push((name.as_str().into(), value::from_json(value, guard)));
    }
    let leading = messages.iter().take_while(|message| instructs(message)).count();
    let calls = || messages.iter().flat_map(|message| &message.tool_calls);
    let names: Names<'_> = match constants.forms.function_ids {
        true => calls().map(|call| (call.id.as_str(), call.name.as_str())).collect(),
        false => Names::new(),
    };
    let (head, rest) = messages.split_at(leading);
    let folded = folded(constants.forms, head);
    let head = if folded.is_some() { &[] } else { head };
    let list: Vec<Value> = folded
        .iter()
        .chain(head.iter().copied())
        .map(|message| self::message(constants, message, false, &names, guard))
        .chain(rest.iter().map(|message| self::message(constants, message, true, &names, guard)))
        .collect();
    all.push(("messages".into(), list.into()));
    let tools = match (tools, ready) {
        ([], _) => Value::from(()),
        (_, Some(ready)) => ready.value(guard),
        (tools, None) => tools.iter().map(|tool| value::from_json(tool, guard)).collect(),
    };
    all.push(("tools".into(), tools));
    all.push(("documents".into(), Value::from(())));
    all.push(("add_generation_prompt".into(), prompts.into()));
    Value::from_iter(all)
}

/// The leading instructions as one message, for a template that takes no more than one.
fn folded(forms: Forms, leading: &[&Message]) -> Option<Message> {
    let [first, _, ..] = leading else { return None };
    let texts: Vec<&str> = leading.iter().map(|message| message.content.as_str()).collect();
    forms.wraps_instructions.then(|| Message::text(first.role, texts.join("\n\n")))
}

/// Names of functions by the ids of their calls.
type Names<'a> = HashMap<&'a str, &'a str>;

fn message(
    constants: &Constants,
    message: &Message,
    later: bool,
    names: &Names<'_>,
    guard: &Guard<'_>,
) -> Value {
    let forms = constants.forms;
    let text = |text: &str| Value::from(guard.apply(text).as_ref());
    if later && forms.wraps_instructions && instructs(message) {
        let content = text(&wrapped(&message.content));
        return Value::from_iter([("role", Value::from("user")), ("content", content)]);
    }
    let mut map = Pairs::new();
    let role = match message.role {
        Role::Developer if forms.developer_is_system => Role::System,
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
    let none = forms.null_content && content.is_empty() && !message.tool_calls.is_empty();
    map.push(("content".into(), if none { Value::from(()) } else { text(content) }));
    if let Some(reasoning) = reasoning {
        map.push(("reasoning_content".into(), text(reasoning)));
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| tool_call(forms, call, guard));
        map.push(("tool_calls".into(), calls.collect::<Vec<Value>>().into()));
    }
    if let Some(id) = &message.tool_call_id {
        let name = names.get(id.as_str()).copied();
        map.push(("tool_call_id".into(), text(&call_id(forms, id, name))));
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
/// `tojson`. What is not an object (broken JSON among it) stays the text it was, where the template
/// takes text.
fn tool_call(forms: Forms, call: &ToolCall, guard: &Guard<'_>) -> Value {
    let as_text = || Value::from(guard.apply(&call.arguments).as_ref());
    let arguments = match value::object(&call.arguments, guard) {
        _ if forms.text_arguments => as_text(),
        Some(object) => object,
        None if forms.only_objects => Value::from_iter([(RAW_ARGUMENTS, as_text())]),
        None => as_text(),
    };
    let function =
        [("name", Value::from(guard.apply(&call.name).as_ref())), ("arguments", arguments)];
    Value::from_iter([
        ("id", Value::from(guard.apply(&call_id(forms, &call.id, Some(&call.name))).as_ref())),
        ("type", Value::from("function")),
        ("function", Value::from_iter(function)),
    ])
}

/// The id as the template is given it. Some templates refuse every id that is not nine letters and
/// digits; others print nothing of a call but an id made of its name and a number. An id of another
/// form is replaced, the same each time; what goes over the wire is never touched. Of a result whose
/// call is not at hand the name is unknown, and the id stays.
fn call_id(forms: Forms, id: &str, name: Option<&str>) -> String {
    let nine = |id: &str| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let digest = || blake3::hash(id.as_bytes());
    match name.filter(|name| !name.is_empty()) {
        _ if forms.nine_letter_ids && !nine(id) => digest().to_hex()[..9].to_owned(),
        Some(name) if forms.function_ids && !of_function(id) => {
            let [first, second, ..] = *digest().as_bytes();
            format!("functions.{name}:{}", u16::from_be_bytes([first, second]))
        }
        _ => id.to_owned(),
    }
}

/// Whether an id has the form `functions.NAME:NUMBER`.
fn of_function(id: &str) -> bool {
    let parts = id.strip_prefix("functions.").and_then(|rest| rest.rsplit_once(':'));
    parts.is_some_and(|(name, number)| {
        !name.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}
