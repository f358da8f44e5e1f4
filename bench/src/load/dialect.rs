//! The three dialects as an agent writes and reads them.

mod chat;
mod events;
mod messages;
mod responses;

use serde_json::Value;

use super::tools::Tools;

/// An agent's protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dialect {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

/// What an agent took out of an answer.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) call: Option<Call>,
    /// Calls that there should not be.
    pub(crate) more_calls: usize,
    /// Why it ended, in the dialect's word.
    pub(crate) finish: String,
}

/// A tool call.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON.
    pub(crate) arguments: String,
}

impl Answer {
    fn add_call(&mut self, call: Call) {
        match self.call {
            None => self.call = Some(call),
            Some(_) => self.more_calls += 1,
        }
    }

    /// The call that the stream is at.
    fn open_call(&mut self) -> &mut Call {
        self.call.get_or_insert_default()
    }
}

/// Request bodies of one cell: the part that is equal over all its conversations.
pub(crate) struct Opening {
    pub(crate) dialect: Dialect,
    bytes: Vec<u8>,
    /// Whether `cache_control` stands at the last message.
    moves: bool,
}

/// A conversation as its next request's body, without the end.
#[derive(Default)]
pub(crate) struct Body {
    /// Room for a head, then JSON.
    pub(crate) bytes: Vec<u8>,
    /// Where `cache_control` of the last message is.
    cache_at: Option<usize>,
}

/// Room before the body.
pub(crate) const HEAD_ROOM: usize = 512;
const END: &[u8] = b"]}";
const CACHE: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;

impl Dialect {
    /// Every dialect.
    pub const ALL: [Dialect; 3] = [Dialect::Chat, Dialect::Responses, Dialect::Messages];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Chat => "chat",
            Dialect::Responses => "responses",
            Dialect::Messages => "messages",
        }
    }

    /// The dialect of this name.
    pub fn named(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    pub(crate) fn path(self) -> &'static str {
        match self {
            Dialect::Chat => "/v1/chat/completions",
            Dialect::Responses => "/v1/responses",
            Dialect::Messages => "/v1/messages",
        }
    }

    /// Reads an answer.
    pub(crate) fn read(self, events: bool, body: &[u8]) -> Result<Answer, String> {
        let read = match (self, events) {
            (Dialect::Chat, false) => chat::read(body),
            (Dialect::Chat, true) => chat::read_events(body),
            (Dialect::Responses, false) => responses::read(body),
            (Dialect::Responses, true) => responses::read_events(body),
            (Dialect::Messages, false) => messages::read(body),
            (Dialect::Messages, true) => messages::read_events(body),
        };
        read.map_err(|error| format!("the answer is not one of {}: {error}", self.name()))
    }

    /// The word for an answer that ends in a call.
    pub(crate) fn called(self) -> &'static str {
        match self {
            Dialect::Chat => "tool_calls",
            Dialect::Responses => "completed",
            Dialect::Messages => "tool_use",
        }
    }
}

impl Opening {
    pub(crate) fn new(
        dialect: Dialect,
        stream: bool,
        model: &str,
        tools: &Tools,
        moves: bool,
    ) -> Self {
        let bytes = match dialect {
            Dialect::Chat => chat::opening(stream, model, tools),
            Dialect::Responses => responses::opening(stream, model, tools),
            Dialect::Messages => messages::opening(stream, model, tools),
        };
        Self { dialect, bytes: bytes.into_bytes(), moves }
    }

    /// Begins a conversation.
    pub(crate) fn begin(&self, text: &str, body: &mut Body) {
        body.bytes.clear();
        body.bytes.resize(HEAD_ROOM, b' ');
        body.bytes.extend_from_slice(&self.bytes);
        body.cache_at = None;
        match self.dialect {
            Dialect::Chat => chat::user(&mut body.bytes, text),
            Dialect::Responses => responses::user(&mut body.bytes, text),
            Dialect::Messages => messages::user(&mut body.bytes, text),
        }
        self.mark(body);
    }

    /// Adds an answer and the result of its call.
    pub(crate) fn extend(&self, body: &mut Body, answer: &Answer, result: &str) {
        if let Some(at) = body.cache_at.take() {
            body.bytes.drain(at..at + CACHE.len());
        }
        let none = Call::default();
        let call = answer.call.as_ref().unwrap_or(&none);
        match self.dialect {
            Dialect::Chat => chat::extend(&mut body.bytes, &answer.text, call, result),
            Dialect::Responses => responses::extend(&mut body.bytes, &answer.text, call, result),
            Dialect::Messages => messages::extend(&mut body.bytes, &answer.text, call, result),
        }
        self.mark(body);
    }

    /// Puts `cache_control` on the last block, which ends in `}]}`.
    fn mark(&self, body: &mut Body) {
        if self.moves {
            let at = body.bytes.len() - messages::AFTER_LAST_FIELD;
            let end = body.bytes.split_off(at);
            body.bytes.extend_from_slice(CACHE);
            body.bytes.extend_from_slice(&end);
            body.cache_at = Some(at);
        }
    }
}

impl Body {
    /// Bytes of the JSON so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len().saturating_sub(HEAD_ROOM)
    }

    /// Writes end and head. Returns where the request begins.
    pub(crate) fn finish(&mut self, head: &[u8]) -> usize {
        self.bytes.extend_from_slice(END);
        let length = format!("{}\r\n\r\n", self.bytes.len() - HEAD_ROOM);
        let start = HEAD_ROOM - head.len() - length.len();
        self.bytes[start..start + head.len()].copy_from_slice(head);
        self.bytes[start + head.len()..HEAD_ROOM].copy_from_slice(length.as_bytes());
        start
    }

    /// Takes the end off again.
    pub(crate) fn reopen(&mut self) {
        self.bytes.truncate(self.bytes.len() - END.len());
    }
}

/// Writes a JSON string.
fn quote(out: &mut Vec<u8>, text: &str) {
    // Writing to memory does not fail, nor is a text ever no JSON.
    let _ = serde_json::to_writer(out, text);
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Fields that every dialect's request begins with.
fn beginning(stream: bool, model: &str, budget: &str) -> String {
    format!(r#"{{"model":{},"stream":{stream},"{budget}":8192,"#, Value::from(model))
}
