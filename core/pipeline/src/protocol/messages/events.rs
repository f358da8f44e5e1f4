//! A reply as a stream of named events.

use serde::Serialize;

use super::answer::{self, Block, Message, UsageBody};
use crate::protocol::{ReplyMeta, json};
use crate::turn::Reply;

/// Longest text of one delta, in bytes.
const DELTA_BYTES: usize = 4 << 10;

/// An event; its type is its name on the wire too.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event<'a> {
    MessageStart { message: Message<'a> },
    ContentBlockStart { index: usize, content_block: Opening<'a> },
    ContentBlockDelta { index: usize, delta: Delta<'a> },
    ContentBlockStop { index: usize },
    MessageDelta { delta: End<'a>, usage: UsageBody },
    MessageStop,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Delta<'a> {
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

/// A block of which nothing was said yet.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Opening<'a> {
    Thinking { thinking: &'a str, signature: &'a str },
    Text { text: &'a str },
    ToolUse { id: &'a str, name: &'a str, input: Nothing },
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
struct End<'a> {
    stop_reason: &'static str,
    stop_sequence: Option<&'a str>,
}

/// The whole stream.
pub(in crate::protocol) fn events(reply: &Reply, meta: &ReplyMeta) -> Vec<u8> {
    let mut out = Vec::new();
    let usage = answer::usage(&meta.usage);
    event(&mut out, &Event::MessageStart { message: answer::opening(meta, usage.at_start()) });
    let signature = answer::signature(meta);
    for (index, content) in answer::blocks(reply, &signature).iter().enumerate() {
        block(&mut out, index, content);
    }
    let stop = answer::stop(reply, meta);
    let delta = End { stop_reason: stop.reason, stop_sequence: stop.sequence };
    event(&mut out, &Event::MessageDelta { delta, usage });
    event(&mut out, &Event::MessageStop);
    out
}

fn block(out: &mut Vec<u8>, index: usize, block: &Block<'_>) {
    let content_block = match *block {
        Block::Thinking { .. } => Opening::Thinking { thinking: "", signature: "" },
        Block::Text { .. } => Opening::Text { text: "" },
        Block::ToolUse { id, name, .. } => Opening::ToolUse { id, name, input: Nothing {} },
    };
    event(out, &Event::ContentBlockStart { index, content_block });
    let mut delta = |delta| event(out, &Event::ContentBlockDelta { index, delta });
    match *block {
        Block::Thinking { thinking, signature } => {
            pieces(thinking).for_each(|thinking| delta(Delta::Thinking { thinking }));
            delta(Delta::Signature { signature });
        }
        Block::Text { text } => pieces(text).for_each(|text| delta(Delta::Text { text })),
        Block::ToolUse { input, .. } => {
            pieces(input.get()).for_each(|partial_json| delta(Delta::InputJson { partial_json }));
        }
    }
    event(out, &Event::ContentBlockStop { index });
}

fn event(out: &mut Vec<u8>, event: &Event<'_>) {
    let name = match event {
        Event::MessageStart { .. } => "message_start",
        Event::ContentBlockStart { .. } => "content_block_start",
        Event::ContentBlockDelta { .. } => "content_block_delta",
        Event::ContentBlockStop { .. } => "content_block_stop",
        Event::MessageDelta { .. } => "message_delta",
        Event::MessageStop => "message_stop",
    };
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    json::write(out, event);
    out.extend_from_slice(b"\n\n");
}

/// The text in pieces of at most [`DELTA_BYTES`], cut between characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(DELTA_BYTES));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
