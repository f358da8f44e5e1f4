//! Dialects: an agent's request to the canonical form, and a canonical reply back, as JSON and as
//! events; faults in the caller's shape.
//!
//! Nothing here knows a model family or an engine.

pub mod chat;
mod json;
mod media;
pub mod messages;
mod models;
mod parts;
pub mod responses;

use std::rc::Rc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::turn::{Asked, Finish, Purpose, Reply, Usage, WireTools};

pub(crate) use json::mended;
pub(crate) use parts::{Parts, Read, Whole};

/// A protocol that agents speak.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

/// What a session knows of its earlier replies: requests of some dialects refer to them.
pub trait Past {
    /// The reply to the exchange of this id, 32 hex digits ([`ReplyMeta::id`]).
    fn reply(&self, id: &str) -> Option<Rc<Reply>>;
}

/// No past at all.
impl Past for () {
    fn reply(&self, _id: &str) -> Option<Rc<Reply>> {
        None
    }
}

/// What a stream is labelled with before its reply is known.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamMeta {
    /// Id of the reply, without prefix.
    pub id: String,
    /// Seconds since the epoch.
    pub created_s: u64,
    /// The model name the agent used; empty where the request could not be read.
    pub model: String,
}

/// What a reply is labelled with.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplyMeta {
    /// Id of the reply, without prefix.
    pub id: String,
    /// Seconds since the epoch.
    pub created_s: u64,
    /// The model name the agent used.
    pub model: String,
    /// Why the generation ended.
    pub finish: Finish,
    /// The stop text that ended it, where one did.
    pub stop_text: Option<String>,
    /// Token counts.
    pub usage: Usage,
    /// Tools that go by another form on the wire.
    pub wire_tools: WireTools,
    /// What the answer is given as.
    pub purpose: Purpose,
    /// Fields of the request that the answer repeats.
    pub echo: Map<String, Value>,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Dialect; 3] = [Dialect::Chat, Dialect::Responses, Dialect::Messages];

    /// The name used in records.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Chat => "chat",
            Dialect::Responses => "responses",
            Dialect::Messages => "messages",
        }
    }

    /// Reads a request body.
    pub fn read(self, body: &[u8], past: &dyn Past) -> Result<Asked, Fault> {
        match self {
            Dialect::Chat => chat::read(body),
            Dialect::Responses => responses::read(body, past),
            Dialect::Messages => messages::read(body),
        }
    }

    /// Why this reply must not be given as what was asked for, where that is so: its shape would
    /// have no place to say what is wrong.
    pub fn refusal(self, reply: &Reply, meta: &ReplyMeta) -> Option<Fault> {
        match self {
            Dialect::Responses => responses::refusal(reply, meta),
            Dialect::Chat | Dialect::Messages => None,
        }
    }

    /// A reply as one JSON body.
    pub fn reply(self, reply: &Reply, meta: &ReplyMeta) -> Vec<u8> {
        match self {
            Dialect::Chat => chat::reply(reply, meta),
            Dialect::Responses => responses::reply(reply, meta),
            Dialect::Messages => messages::reply(reply, meta),
        }
    }

    /// A reply as a complete event stream, first event to last. `usage` concerns Chat only: the
    /// others always tell it.
    pub fn events(self, reply: &Reply, meta: &ReplyMeta, usage: bool) -> Vec<u8> {
        match self {
            Dialect::Chat => chat::events(reply, meta, usage),
            Dialect::Responses => responses::events(reply, meta),
            Dialect::Messages => messages::events(reply, meta),
        }
    }

    /// Body of an error answer.
    pub fn error(self, fault: &Fault) -> Vec<u8> {
        match self {
            // OpenAI's two APIs have one shape of errors.
            Dialect::Chat => chat::error(fault),
            Dialect::Responses => chat::error(&responses::named(fault)),
            Dialect::Messages => messages::error(fault),
        }
    }

    /// A fault inside a stream in which nothing but signs of life were sent, terminal event included.
    pub fn error_event(self, fault: &Fault, meta: &StreamMeta) -> Vec<u8> {
        match self {
            Dialect::Chat => chat::error_event(fault),
            Dialect::Responses => responses::error_event(fault, meta),
            Dialect::Messages => messages::error_event(fault),
        }
    }

    /// Body of `GET models`, or with `one` of `GET models/ID`. `max_context` is in tokens.
    pub fn models(self, name: &str, max_context: u32, one: bool) -> Bytes {
        match self {
            Dialect::Chat | Dialect::Responses => models::openai(name, max_context, one),
            Dialect::Messages => models::anthropic(name, max_context, one),
        }
    }

    /// The header in which its clients look for the id of an answer.
    pub fn request_id_header(self) -> &'static str {
        match self {
            Dialect::Chat | Dialect::Responses => "x-request-id",
            Dialect::Messages => "request-id",
        }
    }

    /// A sign of life inside a stream.
    pub fn keepalive(self) -> &'static [u8] {
        match self {
            Dialect::Chat | Dialect::Responses => b": keepalive\n\n",
            Dialect::Messages => b"event: ping\ndata: {\"type\":\"ping\"}\n\n",
        }
    }
}

/// Body of the answer to a count of tokens, a call that only Messages has.
pub fn token_count(input_tokens: u32) -> Vec<u8> {
    #[derive(Serialize)]
    struct Count {
        input_tokens: u32,
    }
    let mut out = Vec::new();
    json::write(&mut out, &Count { input_tokens });
    out
}
