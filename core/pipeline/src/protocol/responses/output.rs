//! Output items: what a reply is made of on the wire.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::answer::is_cut;
use super::{compaction, ids};
use crate::protocol::{ReplyMeta, json};
use crate::turn::{Purpose, Reply, ToolCall, WireForm, WireTools};

/// An output item on the wire.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item<'a> {
    Reasoning {
        id: &'a str,
        summary: [(); 0],
        content: Vec<Part<'a>>,
        encrypted_content: &'a str,
        status: &'static str,
    },
    Message {
        id: &'a str,
        status: &'static str,
        role: &'static str,
        content: Vec<Part<'a>>,
    },
    FunctionCall {
        id: &'a str,
        call_id: &'a str,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        arguments: &'a str,
        status: &'static str,
    },
    CustomToolCall {
        id: &'a str,
        call_id: &'a str,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        input: &'a str,
        status: &'static str,
    },
    ToolSearchCall {
        id: &'a str,
        call_id: &'a str,
        execution: &'static str,
        arguments: &'a RawValue,
        status: &'static str,
    },
    LocalShellCall {
        id: &'a str,
        call_id: &'a str,
        action: &'a Value,
        status: &'static str,
    },
    Compaction {
        id: &'a str,
        encrypted_content: &'a str,
    },
}

/// A content part of an item.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    ReasoningText { text: &'a str },
    OutputText { text: &'a str, annotations: [(); 0], logprobs: [(); 0] },
}

/// An output item with all that is said of it.
pub(super) struct Output<'a> {
    pub id: String,
    pub status: &'static str,
    pub said: Said<'a>,
}

/// What an item says.
pub(super) enum Said<'a> {
    Reasoning { text: &'a str, blob: String },
    Message { text: &'a str },
    Call { call_id: &'a str, name: &'a str, namespace: Option<&'a str>, arguments: &'a str },
    Custom { call_id: &'a str, name: &'a str, namespace: Option<&'a str>, input: Cow<'a, str> },
    Search { call_id: &'a str, arguments: Box<RawValue> },
    Shell { call_id: &'a str, action: Value },
    Compaction { blob: String },
}

impl Output<'_> {
    /// The item as it is in the end.
    pub(super) fn item(&self) -> Item<'_> {
        self.shown(true)
    }

    /// The item before any of its text was given.
    pub(super) fn begun(&self) -> Item<'_> {
        self.shown(false)
    }

    /// The content part that holds its text, if it has parts; with nothing in it if not `whole`.
    pub(super) fn part(&self, whole: bool) -> Option<Part<'_>> {
        let text = |text| if whole { text } else { "" };
        match self.said {
            Said::Reasoning { text: said, .. } => Some(Part::ReasoningText { text: text(said) }),
            Said::Message { text: said } => {
                Some(Part::OutputText { text: text(said), annotations: [], logprobs: [] })
            }
            _ => None,
        }
    }

    fn shown(&self, whole: bool) -> Item<'_> {
        let id = &self.id;
        let status = if whole { self.status } else { "in_progress" };
        let content = || self.part(true).into_iter().filter(|_| whole).collect();
        match &self.said {
            Said::Reasoning { blob, .. } => {
                let encrypted_content = blob;
                Item::Reasoning { id, summary: [], content: content(), encrypted_content, status }
            }
            Said::Message { .. } => {
                Item::Message { id, status, role: "assistant", content: content() }
            }
            Said::Call { call_id, name, namespace, arguments } => {
                let arguments = if whole { arguments } else { "" };
                Item::FunctionCall { id, call_id, name, namespace: *namespace, arguments, status }
            }
            Said::Custom { call_id, name, namespace, input } => {
                let input = if whole { input } else { "" };
                Item::CustomToolCall { id, call_id, name, namespace: *namespace, input, status }
            }
            Said::Search { call_id, arguments } => {
                Item::ToolSearchCall { id, call_id, execution: "client", arguments, status }
            }
            Said::Shell { call_id, action } => Item::LocalShellCall { id, call_id, action, status },
            Said::Compaction { blob } => Item::Compaction { id, encrypted_content: blob },
        }
    }
}

/// The output items of a reply.
pub(super) fn output<'a>(reply: &'a Reply, meta: &'a ReplyMeta) -> Vec<Output<'a>> {
    let done = |id: String, said| Output { id, status: "completed", said };
    if meta.purpose == Purpose::Compaction {
        // Who takes no note of the status would lose what a missing or cut summary leaves out.
        if compaction::unsummed(reply, meta).is_some() {
            return Vec::new();
        }
        let blob = compaction::encode(&reply.content);
        let item = done(format!("cmp_{}", meta.id), Said::Compaction { blob });
        return vec![item];
    }
    let mut output = Vec::new();
    if let Some(text) = reply.reasoning.as_deref().filter(|text| !text.is_empty()) {
        let said = Said::Reasoning { text, blob: ids::blob(&meta.id) };
        output.push(done(format!("rs_{}", meta.id), said));
    }
    // White space beside reasoning or calls is no message. An answer of nothing is an empty one.
    let nothing = output.is_empty() && reply.tool_calls.is_empty();
    if nothing || !reply.content.trim().is_empty() {
        let said = Said::Message { text: &reply.content };
        output.push(done(format!("msg_{}", meta.id), said));
    }
    for (place, call) in reply.tool_calls.iter().enumerate() {
        let said = said_of_call(call, &meta.wire_tools);
        let prefix = match said {
            Said::Custom { .. } => "ctc",
            Said::Search { .. } => "tsc",
            Said::Shell { .. } => "lsh",
            _ => "fc",
        };
        output.push(done(format!("{prefix}_{}_{place}", meta.id), said));
    }
    if is_cut(meta)
        && reply.tool_calls.is_empty()
        && let Some(last) = output.last_mut()
    {
        last.status = "incomplete";
    }
    output
}

/// The call in the form in which its tool was declared.
fn said_of_call<'a>(call: &'a ToolCall, wire_tools: &'a WireTools) -> Said<'a> {
    let ToolCall { id: call_id, name, .. } = call;
    let arguments = call.readable_arguments();
    let plain = Said::Call { call_id, name, namespace: None, arguments };
    let Some(wire) = wire_tools.get(name) else { return plain };
    let (name, namespace) = (&wire.name, wire.namespace.as_deref());
    match wire.form {
        WireForm::Function => Said::Call { call_id, name, namespace, arguments },
        WireForm::Custom => {
            // Nothing at all is a text too.
            Said::Custom { call_id, name, namespace, input: custom_input(&call.arguments) }
        }
        // Line breaks would end the event that it is sent in.
        WireForm::ToolSearch => match RawValue::from_string(json::compact(arguments)) {
            Ok(arguments) => Said::Search { call_id, arguments },
            Err(_) => plain,
        },
        WireForm::LocalShell => match serde_json::from_str::<Map<String, Value>>(arguments) {
            Ok(arguments) if arguments.get("command").is_some_and(Value::is_array) => {
                let mut action = serde_json::json!({"type": "exec", "env": {}});
                if let Some(action) = action.as_object_mut() {
                    action.extend(arguments);
                }
                Said::Shell { call_id, action }
            }
            _ => plain,
        },
    }
}

/// The free text that a call of a custom tool carries. Arguments that do not have it as `input` are
/// the text themselves: the tool will say what is wrong with them.
pub(super) fn custom_input(arguments: &str) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow)]
        input: Cow<'a, str>,
    }
    match serde_json::from_str(arguments) {
        Ok(Arguments { input }) => input,
        Err(_) => Cow::Borrowed(arguments),
    }
}
