//! Input items, one by one, into a conversation.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

use super::compaction;
use super::content::{self, Content};
use super::conversation::Conversation;
use super::ids::{self, Mark};
use super::request::bad;
use super::tools::{LOCAL_SHELL, TOOL_SEARCH, ToolList, Tools};
use crate::fault::Fault;
use crate::protocol::chat::exact_values;
use crate::turn::{Role, WireForm};

/// `input`: a text is a user's message.
#[derive(Default)]
pub(super) struct Input(pub Vec<RawItem>);

/// An item as sent, as far as it is looked at. Ids, statuses and annotations are optional.
#[derive(Deserialize, Default)]
#[serde(default, expecting = "an input item, an object")]
pub(super) struct RawItem {
    pub r#type: Option<String>,
    id: Option<String>,
    role: Option<String>,
    content: Option<Content>,
    summary: Option<Content>,
    encrypted_content: Option<String>,
    call_id: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    arguments: Option<Value>,
    input: Option<String>,
    #[serde(deserialize_with = "content::result")]
    output: Option<Content>,
    action: Option<Value>,
    author: Option<String>,
    #[serde(deserialize_with = "exact_values")]
    tools: Option<Vec<Value>>,
}

impl RawItem {
    /// The tools that an item at this place declares: some agents send theirs in the input, and
    /// searches find more.
    pub(super) fn take_tools(&mut self, index: usize) -> Option<ToolList> {
        let place = || format!("input[{index}].tools");
        match self.r#type.as_deref()? {
            "additional_tools" => {
                let tools = self.tools.take()?;
                Some(ToolList { place: place(), tools, found_by: None })
            }
            "tool_search_output" => {
                let tools = self.tools.take()?;
                Some(ToolList { place: place(), tools, found_by: Some(index) })
            }
            _ => None,
        }
    }
}

/// Adds the item at this index.
pub(super) fn add(
    talk: &mut Conversation<'_>,
    tools: &Tools,
    index: usize,
    mut item: RawItem,
) -> Result<(), Fault> {
    let kind = item.r#type.take();
    match kind.as_deref() {
        None if item.role.is_some() => message(talk, index, item)?,
        Some("message") => message(talk, index, item)?,
        Some("reasoning") => reasoning(talk, item),
        // Without an id it is a search that its provider made.
        Some(kind @ ("tool_search_call" | "tool_search_output")) if item.call_id.is_none() => {
            talk.skip(kind);
        }
        Some(
            kind @ ("function_call" | "custom_tool_call" | "tool_search_call" | "local_shell_call"),
        ) => call(talk, tools, index, kind, item)?,
        Some("function_call_output" | "custom_tool_call_output" | "local_shell_call_output") => {
            talk.result(item.call_id, item.output.unwrap_or_default());
        }
        Some("tool_search_output") => {
            let found = Value::from(tools.found.get(&index).cloned().unwrap_or_default());
            talk.result(item.call_id, found.to_string().into());
        }
        Some("item_reference") => {
            talk.reference(index, item.id.as_deref().unwrap_or_default())?;
        }
        // Nothing but an id is a reference too.
        None if item.id.is_some() && item.content.is_none() => {
            talk.reference(index, item.id.as_deref().unwrap_or_default())?;
        }
        Some("agent_message") => {
            let author = item.author.as_deref().unwrap_or("unknown");
            let mut content = item.content.unwrap_or_default();
            content.text = format!("[message of agent {author}]\n{}", content.text);
            talk.say(Role::User, content);
        }
        Some("compaction" | "compaction_summary" | "context_compaction") => {
            let summary = compaction::decode(item.encrypted_content.as_deref().unwrap_or_default());
            let summary = summary.ok_or_else(|| at(index, "encrypted_content", FOREIGN_SUMMARY))?;
            talk.say(Role::User, summary.into());
        }
        // Its tools are among the others.
        Some("additional_tools") => {}
        Some(hosted) if is_hosted(hosted) => talk.skip(hosted),
        Some("compaction_trigger") => {
            let why = "a compaction_trigger must be the last item of the input";
            return Err(bad(format!("input[{index}]"), why));
        }
        Some(other) => {
            let other: String = other.chars().take(64).collect();
            let why = format!("items of type `{other}` are not known; leave them out");
            return Err(at(index, "type", &why));
        }
        None => {
            return Err(at(index, "type", "an item needs a type, or a role if it is a message"));
        }
    }
    Ok(())
}

const FOREIGN_SUMMARY: &str = "this compaction was not made here, so nothing in it can be read; \
                               begin again from the messages, or compact them through this server";

/// Items of tools that only their provider runs, and of their bookkeeping.
fn is_hosted(kind: &str) -> bool {
    matches!(
        kind,
        "web_search_call"
            | "file_search_call"
            | "image_generation_call"
            | "code_interpreter_call"
            | "computer_call"
            | "computer_call_output"
            | "shell_call"
            | "shell_call_output"
            | "apply_patch_call"
            | "apply_patch_call_output"
            | "mcp_list_tools"
            | "mcp_call"
            | "mcp_approval_request"
            | "mcp_approval_response"
            | "program"
            | "program_output"
            | "configuration_update"
    )
}

fn message(talk: &mut Conversation<'_>, index: usize, item: RawItem) -> Result<(), Fault> {
    let role = match item.role.as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        _ => {
            let why = "the role is none of user, assistant, system, developer";
            return Err(at(index, "role", why));
        }
    };
    let content = item.content.unwrap_or_default();
    match role {
        Role::Assistant => talk.text(item.id.as_deref().and_then(Mark::read), content),
        role => talk.say(role, content),
    }
    Ok(())
}

/// A call: its name and its arguments, made from what items of its kind have instead.
fn call(
    talk: &mut Conversation<'_>,
    tools: &Tools,
    index: usize,
    kind: &str,
    item: RawItem,
) -> Result<(), Fault> {
    let (name, arguments) = match kind {
        "tool_search_call" => {
            (tools.flat(None, TOOL_SEARCH, WireForm::ToolSearch), as_text(item.arguments))
        }
        "local_shell_call" => {
            (tools.flat(None, LOCAL_SHELL, WireForm::LocalShell), shell_arguments(item.action))
        }
        _ => {
            let custom = kind == "custom_tool_call";
            let form = if custom { WireForm::Custom } else { WireForm::Function };
            let name = item.name.as_deref().filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| at(index, "name", "a name is missing"))?;
            let namespace = item.namespace.as_deref().filter(|name| !name.is_empty());
            let name = tools.flat(namespace, name, form);
            let arguments = match (kind, item.arguments) {
                ("custom_tool_call", _) => {
                    json!({"input": item.input.unwrap_or_default()}).to_string()
                }
                (_, Some(Value::Array(_) | Value::Bool(_) | Value::Number(_))) => {
                    return Err(at(index, "arguments", "a JSON text is needed"));
                }
                (_, arguments) => as_text(arguments),
            };
            (name, arguments)
        }
    };
    let call_id = call_id(index, item.call_id, &item.id)?;
    let mark = item.id.as_deref().and_then(Mark::read);
    talk.call(mark, call_id, name, arguments, kind != "function_call");
    Ok(())
}

fn reasoning(talk: &mut Conversation<'_>, item: RawItem) {
    let blob = item.encrypted_content.as_deref().filter(|blob| !blob.is_empty());
    let mark = item.id.as_deref().and_then(Mark::read).map(|mark| mark.exchange);
    let exchange = blob.and_then(ids::exchange_of_blob).or(mark);
    // The whole text where it is shown, else a summary of it.
    let shown = [item.content, item.summary].into_iter().flatten();
    let text = shown.map(|content| content.text).find(|text| !text.is_empty());
    talk.reasoning(exchange, text);
}

fn call_id(index: usize, call_id: Option<String>, id: &Option<String>) -> Result<String, Fault> {
    let either = call_id.or_else(|| id.clone()).filter(|id| !id.is_empty());
    either.ok_or_else(|| at(index, "call_id", "a call_id is missing"))
}

/// The arguments of a shell's call: what its tool takes.
fn shell_arguments(mut action: Option<Value>) -> String {
    if let Some(action) = action.as_mut().and_then(Value::as_object_mut) {
        action.shift_remove("type");
        if action.get("env").and_then(Value::as_object).is_some_and(Map::is_empty) {
            action.shift_remove("env");
        }
    }
    as_text(action)
}

fn as_text(arguments: Option<Value>) -> String {
    match arguments {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => "{}".to_owned(),
        Some(value) => value.to_string(),
    }
}

fn at(index: usize, field: &str, why: &str) -> Fault {
    bad(format!("input[{index}].{field}"), why)
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(InputVisitor)
    }
}

struct InputVisitor;

impl<'de> Visitor<'de> for InputVisitor {
    type Value = Input;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of input items")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Input, E> {
        let content = Some(text.to_owned().into());
        let role = Some("user".to_owned());
        Ok(Input(vec![RawItem { role, content, ..RawItem::default() }]))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Input, E> {
        Ok(Input::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Input, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Input(items))
    }
}
