//! A reply as a stream of `chat.completion.chunk` events.

use serde::Serialize;

use super::answer::{self, UsageBody};
use crate::protocol::{ReplyMeta, json};
use crate::turn::{Reply, ToolCall};

/// Longest text of one delta, in bytes.
const DELTA_BYTES: usize = 4 << 10;

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [Choice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a UsageBody>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    delta: Delta<'a>,
    logprobs: (),
    finish_reason: Option<&'static str>,
}

#[derive(Serialize, Default)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    /// The outer option is whether the key is there; the inner one, whether it is null.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[Call<'a>; 1]>,
}

/// Id, type and name are on the first chunk of a call only; the rest carry arguments.
#[derive(Serialize)]
struct Call<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}

/// The whole stream. With `usage`, a chunk with the counts and no choice comes before the end mark.
pub(in crate::protocol) fn events(reply: &Reply, meta: &ReplyMeta, usage: bool) -> Vec<u8> {
    let mut stream = Stream { id: answer::id(meta), meta, out: Vec::new() };
    stream.delta(Delta {
        role: Some("assistant"),
        content: Some(answer::content(reply).map(|_| "")),
        ..Delta::default()
    });
    for text in reply.reasoning.iter().flat_map(|text| pieces(text)) {
        stream.delta(Delta { reasoning_content: Some(text), ..Delta::default() });
    }
    for text in pieces(&reply.content).filter(|text| !text.is_empty()) {
        stream.delta(Delta { content: Some(Some(text)), ..Delta::default() });
    }
    for (index, call) in reply.tool_calls.iter().enumerate() {
        stream.call(index, call);
    }
    stream.choice(Delta::default(), Some(answer::finish(reply, meta)));
    if usage {
        stream.event(&[], Some(&answer::usage(&meta.usage)));
    }
    stream.out.extend_from_slice(b"data: [DONE]\n\n");
    stream.out
}

struct Stream<'a> {
    id: String,
    meta: &'a ReplyMeta,
    out: Vec<u8>,
}

impl Stream<'_> {
    fn call(&mut self, index: usize, call: &ToolCall) {
        let first = Call {
            index,
            id: Some(&call.id),
            r#type: Some("function"),
            function: Function { name: Some(&call.name), arguments: "" },
        };
        self.delta(Delta { tool_calls: Some([first]), ..Delta::default() });
        for arguments in pieces(call.readable_arguments()) {
            let function = Function { name: None, arguments };
            let more = Call { index, id: None, r#type: None, function };
            self.delta(Delta { tool_calls: Some([more]), ..Delta::default() });
        }
    }

    fn delta(&mut self, delta: Delta<'_>) {
        self.choice(delta, None);
    }

    fn choice(&mut self, delta: Delta<'_>, finish_reason: Option<&'static str>) {
        self.event(&[Choice { index: 0, delta, logprobs: (), finish_reason }], None);
    }

    fn event(&mut self, choices: &[Choice<'_>], usage: Option<&UsageBody>) {
        let chunk = Chunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.meta.created_s,
            model: &self.meta.model,
            choices,
            usage,
        };
        self.out.extend_from_slice(b"data: ");
        json::write(&mut self.out, &chunk);
        self.out.extend_from_slice(b"\n\n");
    }
}

/// The text in pieces of at most [`DELTA_BYTES`], cut between characters; at least one, so that an
/// empty text stays visible.
pub(in crate::protocol) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (piece, after) = text.split_at(text.floor_char_boundary(DELTA_BYTES));
        rest = (!after.is_empty()).then_some(after);
        Some(piece)
    })
}
