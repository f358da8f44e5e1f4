//! Input items: read one by one, and added to a conversation.

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
use crate::turn::{Message, MessageFields, Role, WireForm};

/// `input`: a text is a user's message.
#[derive(Default)]
pub(crate) struct Input(pub Vec<RawItem>);

/// An item as sent, as far as it is looked at. Ids, statuses and annotations are optional.
#[derive(Deserialize, Default)]
#[serde(default, expecting = "an input item, an object")]
pub(crate) struct RawItem {
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

/// An item, read without looking at another one.
pub(crate) struct Entry {
    says: Says,
    /// Tools that it declares: some agents send theirs in the input, and searches find more.
    tools: Vec<Value>,
}

enum Says {
    /// A message that is not the model's, or the result of a call; and types of what was left out.
    Message(Message, Vec<String>),
    /// The result of the model's search for tools: they are told in it.
    Found(Option<String>),
    /// Text of the model, and the item's id.
    Text(Option<String>, Content),
    /// Reasoning of the model: of which exchange, and what it shows.
    Reasoning(Option<String>, Option<String>),
    Call(Call),
    /// No more than the id of an item.
    Reference(String),
    /// Something of this type that no model can use.
    Skip(String),
    /// Nothing but tools.
    Tools,
    /// That the conversation is to be summed up.
    Trigger,
    /// It cannot be served: the field, and why.
    Bad(Option<&'static str>, String),
}

/// A call of the model.
struct Call {
    item_id: Option<String>,
    call_id: String,
    namespace: Option<String>,
    name: String,
    form: WireForm,
    arguments: String,
    /// Whether the arguments are made from a form that has no place for how the model wrote them.
    rewritten: bool,
}

impl Entry {
    /// Whether it asks for a summary.
    pub(super) fn triggers(&self) -> bool {
        matches!(self.says, Says::Trigger)
    }

    /// Whether it declares tools.
    pub(super) fn declares(&self) -> bool {
        !self.tools.is_empty()
    }

    /// The tools that it declares as the item at this index.
    pub(super) fn tools(&self, index: usize) -> Option<ToolList> {
        let found_by = match self.says {
            _ if self.tools.is_empty() => return None,
            Says::Tools => None,
            _ => Some(index),
        };
        let place = format!("input[{index}].tools");
        Some(ToolList { place, tools: self.tools.clone(), found_by })
    }

    /// Whether it is standing instructions.
    pub(super) fn is_standing(&self) -> bool {
        matches!(&self.says, Says::Message(message, _)
            if matches!(message.role, Role::System | Role::Developer))
    }

    /// What the item says.
    pub(super) fn of(mut item: RawItem) -> Self {
        let tools = match item.r#type.as_deref() {
            Some("additional_tools" | "tool_search_output") => item.tools.take(),
            _ => None,
        };
        let says = says(item).unwrap_or_else(|(field, why)| Says::Bad(field, why));
        Self { says, tools: tools.unwrap_or_default() }
    }
}

/// Adds the item at this index.
pub(super) fn add(
    talk: &mut Conversation<'_>,
    tools: &Tools,
    index: usize,
    entry: &Entry,
) -> Result<(), Fault> {
    match &entry.says {
        Says::Message(message, skipped) => talk.say(message.clone(), skipped),
        Says::Found(call_id) => {
            let found = Value::from(tools.found.get(&index).cloned().unwrap_or_default());
            talk.say_made(result(call_id.clone(), found.to_string(), 0));
        }
        Says::Text(id, content) => talk.text(id.as_deref().and_then(Mark::read), content),
        Says::Reasoning(exchange, text) => talk.reasoning(exchange.as_deref(), text.as_deref()),
        Says::Call(call) => {
            let name = tools.flat(call.namespace.as_deref(), &call.name, call.form);
            let mark = call.item_id.as_deref().and_then(Mark::read);
            talk.call(mark, call.call_id.clone(), name, call.arguments.clone(), call.rewritten);
        }
        Says::Reference(id) => talk.reference(index, id)?,
        Says::Skip(kind) => talk.skip(kind),
        Says::Tools => {}
        Says::Trigger => {
            let why = "a compaction_trigger must be the last item of the input";
            return Err(bad(format!("input[{index}]"), why));
        }
        Says::Bad(field, why) => {
            let place = match field {
                Some(field) => format!("input[{index}].{field}"),
                None => format!("input[{index}]"),
            };
            return Err(bad(place, why));
        }
    }
    Ok(())
}

/// Why an item cannot be served: the field, and the reason.
type Refused = (Option<&'static str>, String);

fn at(field: &'static str, why: impl Into<String>) -> Refused {
    (Some(field), why.into())
}

/// What the item says.
fn says(mut item: RawItem) -> Result<Says, Refused> {
    let kind = item.r#type.take();
    Ok(match kind.as_deref() {
        None if item.role.is_some() => message(item)?,
        Some("message") => message(item)?,
        Some("reasoning") => reasoning(item),
        // Without an id it is a search that its provider made.
        Some(kind @ ("tool_search_call" | "tool_search_output")) if item.call_id.is_none() => {
            Says::Skip(kind.to_owned())
        }
        Some(
            kind @ ("function_call" | "custom_tool_call" | "tool_search_call" | "local_shell_call"),
        ) => call(kind, item)?,
        Some("function_call_output" | "custom_tool_call_output" | "local_shell_call_output") => {
            let Content { text, media, skipped } = item.output.unwrap_or_default();
            Says::Message(result(item.call_id, text, media), skipped)
        }
        Some("tool_search_output") => Says::Found(item.call_id),
        Some("item_reference") => Says::Reference(item.id.unwrap_or_default()),
        // Nothing but an id is a reference too.
        None if item.id.is_some() && item.content.is_none() => {
            Says::Reference(item.id.unwrap_or_default())
        }
        Some("agent_message") => {
            let author = item.author.as_deref().unwrap_or("unknown");
            let mut content = item.content.unwrap_or_default();
            content.text = format!("[message of agent {author}]\n{}", content.text);
            said(Role::User, content)
        }
        Some("compaction" | "compaction_summary" | "context_compaction") => {
            let summary = compaction::decode(item.encrypted_content.as_deref().unwrap_or_default());
            let summary = summary.ok_or_else(|| at("encrypted_content", FOREIGN_SUMMARY))?;
            said(Role::User, summary.into())
        }
        Some("additional_tools") => Says::Tools,
        Some(hosted) if is_hosted(hosted) => Says::Skip(hosted.to_owned()),
        Some("compaction_trigger") => Says::Trigger,
        Some(other) => {
            let other: String = other.chars().take(64).collect();
            return Err(at(
                "type",
                format!("items of type `{other}` are not known; leave them out"),
            ));
        }
        None => return Err(at("type", "an item needs a type, or a role if it is a message")),
    })
}

fn said(role: Role, Content { text, media, skipped }: Content) -> Says {
    let message = MessageFields { media_dropped: media, ..MessageFields::text(role, text) };
    Says::Message(message.into(), skipped)
}

/// The result of a call.
fn result(call_id: Option<String>, text: String, media: u32) -> Message {
    let message = MessageFields::text(Role::Tool, text);
    MessageFields { tool_call_id: call_id, media_dropped: media, ..message }.into()
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

fn message(item: RawItem) -> Result<Says, Refused> {
    let role = match item.role.as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        _ => return Err(at("role", "the role is none of user, assistant, system, developer")),
    };
    let content = item.content.unwrap_or_default();
    Ok(match role {
        Role::Assistant => Says::Text(item.id, content),
        role => said(role, content),
    })
}

/// A call: its name and its arguments, made from what items of its kind have instead.
fn call(kind: &str, item: RawItem) -> Result<Says, Refused> {
    let (namespace, name, form, arguments) = match kind {
        "tool_search_call" => {
            (None, TOOL_SEARCH.to_owned(), WireForm::ToolSearch, as_text(item.arguments))
        }
        "local_shell_call" => {
            (None, LOCAL_SHELL.to_owned(), WireForm::LocalShell, shell_arguments(item.action))
        }
        _ => {
            let custom = kind == "custom_tool_call";
            let form = if custom { WireForm::Custom } else { WireForm::Function };
            let name = item.name.filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| at("name", "a name is missing"))?;
            let namespace = item.namespace.filter(|name| !name.is_empty());
            let arguments = match (kind, item.arguments) {
                ("custom_tool_call", _) => {
                    json!({"input": item.input.unwrap_or_default()}).to_string()
                }
                (_, Some(Value::Array(_) | Value::Bool(_) | Value::Number(_))) => {
                    return Err(at("arguments", "a JSON text is needed"));
                }
                (_, arguments) => as_text(arguments),
            };
            (namespace, name, form, arguments)
        }
    };
    let call_id = item.call_id.or_else(|| item.id.clone()).filter(|id| !id.is_empty());
    let call_id = call_id.ok_or_else(|| at("call_id", "a call_id is missing"))?;
    let rewritten = kind != "function_call";
    Ok(Says::Call(Call { item_id: item.id, call_id, namespace, name, form, arguments, rewritten }))
}

fn reasoning(item: RawItem) -> Says {
    let blob = item.encrypted_content.as_deref().filter(|blob| !blob.is_empty());
    let mark = item.id.as_deref().and_then(Mark::read).map(|mark| mark.exchange);
    let exchange = blob.and_then(ids::exchange_of_blob).or(mark).map(str::to_owned);
    // The whole text where it is shown, else a summary of it.
    let shown = [item.content, item.summary].into_iter().flatten();
    let text = shown.map(|content| content.text).find(|text| !text.is_empty());
    Says::Reasoning(exchange, text)
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
