//! Messages of a request.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::blocks::{Reader, Text};
use super::place::{Content, Place};
use super::tools::Deferrals;
use crate::fault::Fault;
use crate::turn::{Message, MessageFields, Role, Tool, ToolCall};

/// A message as sent.
#[derive(Deserialize)]
#[serde(expecting = "a message object")]
pub(crate) struct RawMessage {
    role: Option<String>,
    content: Option<Box<RawValue>>,
}

/// What one entry of the request says.
pub(crate) struct Said {
    pub(super) messages: Vec<Message>,
    /// Types of what was left out, in their order.
    pub(super) skipped: Vec<String>,
    /// Deferred tools that results refer to, by name.
    pub(super) loaded: BTreeMap<String, Tool>,
    /// Whether it refers to tools: then it says something else where other tools are on offer.
    pub(super) refers: bool,
}

impl Said {
    fn new(reader: Reader<'_>, messages: Vec<Message>) -> Self {
        let Reader { skipped, loaded, refers, .. } = reader;
        Self { messages, skipped, loaded, refers }
    }
}

/// Reads the instructions at the head.
pub(super) fn standing(raw: Option<&RawValue>, deferred: &Deferrals) -> Result<Said, Fault> {
    let (mut reader, mut messages) = (Reader::new(deferred), Vec::new());
    instructions(&mut reader, &Place::top("system"), raw, &mut messages)?;
    Ok(Said::new(reader, messages))
}

/// Reads the entry at this index of the messages.
pub(super) fn entry(index: usize, raw: &RawMessage, deferred: &Deferrals) -> Result<Said, Fault> {
    let (mut reader, mut messages) = (Reader::new(deferred), Vec::new());
    let (reads, out) = (&mut reader, &mut messages);
    let top = Place::top("messages");
    let place = top.index(index);
    let content = place.key("content");
    let said = raw.content.as_deref();
    match raw.role.as_deref() {
        Some("user") => user(reads, &content, said, out)?,
        Some("assistant") => assistant(reads, &content, said, out)?,
        Some("system") => instructions(reads, &content, said, out)?,
        _ => return Err(place.key("role").bad("the role is none of user, assistant, system")),
    }
    Ok(Said::new(reader, messages))
}

/// Instructions, at the head or in the middle, where they stand. Their blocks are lines of their
/// own: one of them may be an agent's mark that is taken out by its line. Empty ones vanish.
fn instructions(
    reader: &mut Reader<'_>,
    place: &Place<'_>,
    raw: Option<&RawValue>,
    out: &mut Vec<Message>,
) -> Result<(), Fault> {
    let mut whole = Text::default();
    match place.content(raw)? {
        Content::Text(text) => whole.push(&text),
        Content::List(blocks) => {
            for (index, block) in blocks.into_iter().enumerate() {
                let place = place.index(index);
                let mut text = Text::default();
                let kind = reader.kind(&place, block)?;
                reader.block(&place, &kind, block, &mut text)?;
                let begun = !whole.is_empty() && !whole.text.ends_with('\n');
                if begun && !text.is_empty() {
                    whole.push("\n");
                }
                whole.push(&text.text);
                whole.media += text.media;
            }
        }
    }
    if !whole.is_empty() {
        out.push(message(Role::System, whole));
    }
    Ok(())
}

fn message(role: Role, text: Text) -> Message {
    MessageFields { media_dropped: text.media, ..MessageFields::text(role, text.text) }.into()
}

#[derive(Deserialize)]
struct ToolResult<'a> {
    tool_use_id: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// What a person or their agent says. Results come first, wherever they stand among the text, for
/// they answer the message before; then the text in its order, texts that results stood between on
/// lines of their own. Without any text there is no message. That a result is an error is not told apart: its text says so.
fn user(
    reader: &mut Reader<'_>,
    place: &Place<'_>,
    raw: Option<&RawValue>,
    out: &mut Vec<Message>,
) -> Result<(), Fault> {
    let mut text = Text::default();
    let mut apart = false;
    match place.content(raw)? {
        Content::Text(whole) => text.push(&whole),
        Content::List(blocks) => {
            for (index, block) in blocks.into_iter().enumerate() {
                let place = place.index(index);
                let kind = reader.kind(&place, block)?;
                match kind.as_str() {
                    "tool_result" => {
                        out.push(result(reader, &place, block)?);
                        apart = !text.is_empty();
                    }
                    "thinking" | "redacted_thinking" | "tool_use" => {
                        return Err(place.bad("only an assistant message can hold such a block"));
                    }
                    _ => {
                        let before = text.text.len();
                        reader.block(&place, &kind, block, &mut text)?;
                        if apart && text.text.len() > before {
                            text.text.insert(before, '\n');
                            apart = false;
                        }
                    }
                }
            }
        }
    }
    if !text.is_empty() {
        out.push(message(Role::User, text));
    }
    Ok(())
}

fn result(reader: &mut Reader<'_>, place: &Place<'_>, raw: &RawValue) -> Result<Message, Fault> {
    let block: ToolResult<'_> = place.read(raw)?;
    let mut text = Text::default();
    reader.content(&place.key("content"), block.content, &mut text)?;
    let id = block.tool_use_id.ok_or_else(|| {
        place.key("tool_use_id").bad("the id of the `tool_use` that this answers is missing")
    })?;
    Ok(Message::from(MessageFields {
        tool_call_id: Some(id),
        ..message(Role::Tool, text).into_fields()
    }))
}

#[derive(Deserialize)]
struct Thinking {
    thinking: Option<String>,
}

#[derive(Deserialize)]
struct ToolUse<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

/// What the model said. One message holds thinking, then text, then calls; what comes in another
/// order goes on in a further message, so that nothing changes places. Signatures say nothing. Of
/// empty blocks alone there is no message.
fn assistant(
    reader: &mut Reader<'_>,
    place: &Place<'_>,
    raw: Option<&RawValue>,
    out: &mut Vec<Message>,
) -> Result<(), Fault> {
    let mut said = Message::text(Role::Assistant, "");
    match place.content(raw)? {
        Content::Text(whole) => said.content = whole,
        // An answer of ours with nothing in it comes back so: its turn goes on.
        Content::List(blocks) if blocks.is_empty() => out.push(said.clone()),
        Content::List(blocks) => {
            for (index, block) in blocks.into_iter().enumerate() {
                let place = place.index(index);
                let kind = reader.kind(&place, block)?;
                match kind.as_str() {
                    "thinking" => {
                        let block: Thinking = place.read(block)?;
                        let thought = block.thinking.filter(|text| !text.is_empty());
                        if let Some(thought) = thought {
                            if !said.content.is_empty() || !said.tool_calls.is_empty() {
                                out.extend(take(&mut said));
                            }
                            think(&mut said.reasoning, &thought);
                        }
                    }
                    "tool_use" => said.tool_calls.push(call(&place, block)?),
                    "tool_result" => {
                        return Err(place.bad("only a user message can hold a `tool_result`"));
                    }
                    _ => {
                        let mut text = Text::default();
                        reader.block(&place, &kind, block, &mut text)?;
                        if !text.is_empty() {
                            close(&mut said, out);
                            said.content.push_str(&text.text);
                            said.media_dropped += text.media;
                        }
                    }
                }
            }
        }
    }
    out.extend(take(&mut said));
    Ok(())
}

/// Begins another message behind calls.
fn close(said: &mut Message, out: &mut Vec<Message>) {
    if !said.tool_calls.is_empty() {
        out.extend(take(said));
    }
}

/// The message so far, if anything is in it; another one begins.
fn take(said: &mut Message) -> Option<Message> {
    let whole = std::mem::replace(said, Message::text(Role::Assistant, ""));
    let empty =
        whole.content.is_empty() && whole.reasoning.is_none() && whole.tool_calls.is_empty();
    (!empty).then_some(whole)
}

fn think(reasoning: &mut Option<String>, thought: &str) {
    let whole = reasoning.get_or_insert_default();
    if !whole.is_empty() {
        whole.push('\n');
    }
    whole.push_str(thought);
}

/// A call. Its arguments are the text of the object as sent, digits and order of keys included.
fn call(place: &Place<'_>, raw: &RawValue) -> Result<ToolCall, Fault> {
    let block: ToolUse<'_> = place.read(raw)?;
    let name = block.name.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| place.key("name").bad("a name is missing"))?;
    let input = block.input.map_or("{}", RawValue::get);
    let arguments = match input.as_bytes().first() {
        Some(b'{') => input.to_owned(),
        _ => return Err(place.key("input").bad("an object is needed")),
    };
    Ok(ToolCall { id: block.id.unwrap_or_default(), name, arguments })
}
