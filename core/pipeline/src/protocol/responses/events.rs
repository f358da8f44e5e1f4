//! A reply as a stream of `response.*` events.

use serde::Serialize;
use serde_json::{Map, Value};

use super::answer::{self, Response};
use super::output::{Item, Output, Part, Said, output};
use crate::protocol::chat::pieces;
use crate::protocol::{ReplyMeta, StreamMeta, json};
use crate::turn::Reply;

/// An event; its type is written on its `event:` line too.
#[derive(Serialize)]
struct Event<T> {
    r#type: &'static str,
    sequence_number: u32,
    #[serde(flatten)]
    body: T,
}

#[derive(Serialize)]
struct OfResponse<'a> {
    response: &'a Response<'a>,
}

#[derive(Serialize)]
struct OfItem<'a> {
    output_index: usize,
    item: Item<'a>,
}

/// Where a text is: in a part of an item, or with `content_index` absent in the item itself.
#[derive(Serialize, Clone, Copy)]
struct Place<'a> {
    item_id: &'a str,
    output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_index: Option<u32>,
}

#[derive(Serialize)]
struct OfPart<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    part: Part<'a>,
}

/// A text, or more of one; the keys that are there depend on the type.
#[derive(Serialize, Default)]
struct Texts<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<[(); 0]>,
}

#[derive(Serialize)]
struct OfText<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    #[serde(flatten)]
    texts: Texts<'a>,
}

/// The whole stream.
pub(in crate::protocol) fn events(reply: &Reply, meta: &ReplyMeta) -> Vec<u8> {
    let output = output(reply, meta);
    let (labels, echo) = (answer::stream_meta(meta), answer::settled(&meta.echo));
    let mut stream = Stream::begin(&labels, &echo);
    for (index, output) in output.iter().enumerate() {
        stream.item(index, output);
    }
    let mut response = answer::ended(reply, meta, &labels, &echo);
    response.output = output.iter().map(Output::item).collect();
    stream.end(&response)
}

/// A stream that is being written.
pub(super) struct Stream {
    out: Vec<u8>,
    sequence: u32,
}

impl Stream {
    /// A stream with its first events: clients of OpenAI's read nothing before `response.created`.
    pub(super) fn begin(meta: &StreamMeta, echo: &Map<String, Value>) -> Self {
        let mut stream = Self { out: Vec::new(), sequence: 0 };
        let begun = answer::begun(meta, echo);
        stream.event("response.created", OfResponse { response: &begun });
        stream.event("response.in_progress", OfResponse { response: &begun });
        stream
    }

    /// The terminal event, by the response's status.
    pub(super) fn end(mut self, response: &Response<'_>) -> Vec<u8> {
        let kind = match response.status {
            "completed" => "response.completed",
            "incomplete" => "response.incomplete",
            _ => "response.failed",
        };
        self.event(kind, OfResponse { response });
        self.out
    }

    fn item(&mut self, output_index: usize, output: &Output<'_>) {
        let item = output.begun();
        self.event("response.output_item.added", OfItem { output_index, item });
        let place = Place { item_id: &output.id, output_index, content_index: None };
        match &output.said {
            Said::Reasoning { text, .. } => {
                let kinds = ["response.reasoning_text.delta", "response.reasoning_text.done"];
                self.part(place, output, kinds, text, None);
            }
            Said::Message { text } => {
                let kinds = ["response.output_text.delta", "response.output_text.done"];
                self.part(place, output, kinds, text, Some([]));
            }
            Said::Call { arguments, name, .. } => {
                self.deltas("response.function_call_arguments.delta", place, arguments, None);
                let arguments = Some(*arguments);
                let texts = Texts { arguments, name: Some(name), ..Texts::default() };
                self.event("response.function_call_arguments.done", OfText { place, texts });
            }
            Said::Custom { input, .. } => {
                self.deltas("response.custom_tool_call_input.delta", place, input, None);
                let texts = Texts { input: Some(input), ..Texts::default() };
                self.event("response.custom_tool_call_input.done", OfText { place, texts });
            }
            Said::Search { .. } | Said::Shell { .. } | Said::Compaction { .. } => {}
        }
        let item = output.item();
        self.event("response.output_item.done", OfItem { output_index, item });
    }

    /// The one content part of an item, from its beginning to its end.
    fn part(
        &mut self,
        place: Place<'_>,
        output: &Output<'_>,
        [delta, done]: [&'static str; 2],
        text: &str,
        logprobs: Option<[(); 0]>,
    ) {
        let place = Place { content_index: Some(0), ..place };
        if let Some(part) = output.part(false) {
            self.event("response.content_part.added", OfPart { place, part });
        }
        self.deltas(delta, place, text, logprobs);
        let texts = Texts { text: Some(text), logprobs, ..Texts::default() };
        self.event(done, OfText { place, texts });
        if let Some(part) = output.part(true) {
            self.event("response.content_part.done", OfPart { place, part });
        }
    }

    fn deltas(
        &mut self,
        kind: &'static str,
        place: Place<'_>,
        text: &str,
        logprobs: Option<[(); 0]>,
    ) {
        for delta in pieces(text).filter(|text| !text.is_empty()) {
            let texts = Texts { delta: Some(delta), logprobs, ..Texts::default() };
            self.event(kind, OfText { place, texts });
        }
    }

    fn event(&mut self, kind: &'static str, body: impl Serialize) {
        let event = Event { r#type: kind, sequence_number: self.sequence, body };
        self.sequence += 1;
        self.out.extend_from_slice(b"event: ");
        self.out.extend_from_slice(kind.as_bytes());
        self.out.extend_from_slice(b"\ndata: ");
        json::write(&mut self.out, &event);
        self.out.extend_from_slice(b"\n\n");
    }
}
