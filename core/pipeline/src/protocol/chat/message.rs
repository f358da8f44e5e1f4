//! Messages of a request.

use std::fmt;
use std::rc::Rc;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;

use super::request::bad;
use crate::fault::Fault;
use crate::protocol::media::Media;
use crate::turn::{Message, MessageFields, Role, ToolCall};

/// A message as sent, as far as it is looked at.
#[derive(Deserialize)]
#[serde(expecting = "a message object")]
pub(super) struct RawMessage {
    role: Option<String>,
    content: Option<Content>,
    refusal: Option<String>,
    reasoning_content: Option<Value>,
    reasoning: Option<Value>,
    tool_calls: Option<Vec<RawCall>>,
    tool_call_id: Option<String>,
    function_call: Option<RawFunction>,
    /// Of a result in OpenAI's older form: the function that was called.
    name: Option<Value>,
}

#[derive(Deserialize)]
#[serde(expecting = "a tool call object")]
struct RawCall {
    id: Option<String>,
    function: Option<RawFunction>,
}

#[derive(Deserialize)]
#[serde(expecting = "a function call object")]
struct RawFunction {
    name: Option<String>,
    arguments: Option<Value>,
}

/// What one message says.
pub(crate) struct Said {
    pub(super) message: Message,
    /// Types of its parts that no model can use.
    pub(super) skipped: Vec<String>,
}

/// The conversation as far as it can be served, and why it cannot be served further.
pub(super) fn messages(raw: Vec<RawMessage>) -> (Vec<Rc<Said>>, Option<Fault>) {
    let mut said = Vec::with_capacity(raw.len());
    for (index, raw) in raw.into_iter().enumerate() {
        match message(index, raw) {
            Ok(message) => said.push(Rc::new(message)),
            Err(fault) => return (said, Some(fault)),
        }
    }
    (said, None)
}

/// The message at this index.
pub(super) fn message(index: usize, raw: RawMessage) -> Result<Said, Fault> {
    let (role, older) = match raw.role.as_deref() {
        Some("system") => (Role::System, false),
        Some("developer") => (Role::Developer, false),
        Some("user") => (Role::User, false),
        Some("assistant") => (Role::Assistant, false),
        Some("tool") => (Role::Tool, false),
        Some("function") => (Role::Tool, true),
        _ => {
            let why = "the role is none of system, developer, user, assistant, tool, function";
            return Err(bad(format!("messages[{index}].role"), why));
        }
    };
    let content = raw.content.unwrap_or_default();
    let mut message = MessageFields::text(role, content.text);
    message.media_dropped = content.media;
    match role {
        Role::Assistant => {
            if message.content.is_empty() {
                message.content = raw.refusal.unwrap_or_default();
            }
            // Agents echo reasoning under either name; where both differ, the first one wins.
            message.reasoning = text(raw.reasoning_content).or_else(|| text(raw.reasoning));
            message.tool_calls = calls(index, raw.tool_calls, raw.function_call)?;
        }
        Role::Tool if older => message.tool_call_id = text(raw.name).map(|name| older_id(&name)),
        Role::Tool => message.tool_call_id = raw.tool_call_id,
        Role::System | Role::Developer | Role::User => {}
    }
    Ok(Said { message: message.into(), skipped: content.skipped })
}

/// A text that is not empty: an empty thought is none.
fn text(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}

fn calls(
    index: usize,
    calls: Option<Vec<RawCall>>,
    older: Option<RawFunction>,
) -> Result<Vec<ToolCall>, Fault> {
    let mut out = Vec::new();
    for (at, call) in calls.unwrap_or_default().into_iter().enumerate() {
        let place = format!("messages[{index}].tool_calls[{at}].function");
        let function = call.function.ok_or_else(|| bad(&place, "a function is missing"))?;
        let (name, arguments) = function_of(&place, function)?;
        out.push(ToolCall { id: call.id.unwrap_or_default(), name, arguments });
    }
    if let Some(function) = older {
        let (name, arguments) = function_of(&format!("messages[{index}].function_call"), function)?;
        out.push(ToolCall { id: older_id(&name), name, arguments });
    }
    Ok(out)
}

/// The older form has no ids: name ties result to call.
fn older_id(name: &str) -> String {
    format!("call_{name}")
}

fn function_of(place: &str, raw: RawFunction) -> Result<(String, String), Fault> {
    let name = raw.name.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| bad(format!("{place}.name"), "a name is missing"))?;
    let arguments = match raw.arguments {
        Some(Value::String(text)) => text,
        Some(object @ Value::Object(_)) => object.to_string(),
        None => "{}".to_owned(),
        Some(_) => return Err(bad(format!("{place}.arguments"), "a JSON text is needed")),
    };
    Ok((name, arguments))
}

/// Content: text blocks joined in order without anything between them, as templates that take lists
/// do, so that it does not matter how an agent cuts a text into blocks.
#[derive(Default)]
struct Content {
    text: String,
    media: u32,
    /// Types of parts that are neither text nor media.
    skipped: Vec<String>,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of content parts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Content, E> {
        Ok(Content { text: text.to_owned(), ..Content::default() })
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Content, E> {
        Ok(Content { text, ..Content::default() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Content, A::Error> {
        let mut content = Content::default();
        while let Some(part) = parts.next_element::<Part>()? {
            match part {
                Part::Text(text) if content.text.is_empty() => content.text = text,
                Part::Text(text) => content.text.push_str(&text),
                Part::Media(media) => {
                    content.media += 1;
                    content.text.push_str(media.placeholder());
                }
                Part::Unknown(part_type) => content.skipped.push(part_type),
            }
        }
        Ok(content)
    }
}

/// A content part.
enum Part {
    Text(String),
    /// An image, a sound, a file: counted, and a placeholder is shown to the model.
    Media(Media),
    /// Of this type, which nobody knows: left out and counted.
    Unknown(String),
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(PartVisitor)
    }
}

struct PartVisitor;

#[derive(Deserialize)]
struct RawPart {
    r#type: Option<String>,
    text: Option<String>,
    refusal: Option<String>,
}

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a content part, an object with a type")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Part, E> {
        Ok(Part::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, part: A) -> Result<Part, A::Error> {
        let part = RawPart::deserialize(MapAccessDeserializer::new(part))?;
        match (part.r#type.as_deref(), part.text, part.refusal) {
            (Some("text" | "input_text" | "output_text"), text, _) => {
                Ok(Part::Text(text.unwrap_or_default()))
            }
            (Some("refusal"), _, refusal) => Ok(Part::Text(refusal.unwrap_or_default())),
            (Some(other), _, _) => Ok(match Media::of(other) {
                Some(media) => Part::Media(media),
                None => Part::Unknown(other.to_owned()),
            }),
            (None, Some(text), _) => Ok(Part::Text(text)),
            (None, None, _) => Err(de::Error::custom("a content part has no type")),
        }
    }
}
