//! Dialects: an agent's request to the canonical form, and a canonical reply back, as JSON and as
//! events; faults in the caller's shape.
//!
//! Nothing here knows a model family or an engine.

pub mod chat;
mod json;

use bytes::Bytes;
use serde::Serialize;

use crate::fault::Fault;
use crate::turn::{Asked, Finish, Reply, Usage};

/// A protocol that agents speak.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dialect {
    /// OpenAI Chat Completions.
    Chat,
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
    /// Token counts.
    pub usage: Usage,
}

impl Dialect {
    /// The name used in records.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Chat => "chat",
        }
    }

    /// Reads a request body.
    pub fn read(self, body: &[u8]) -> Result<Asked, Fault> {
        match self {
            Dialect::Chat => chat::read(body),
        }
    }

    /// A reply as one JSON body.
    pub fn reply(self, reply: &Reply, meta: &ReplyMeta) -> Vec<u8> {
        match self {
            Dialect::Chat => chat::reply(reply, meta),
        }
    }

    /// A reply as a complete event stream, first event to last.
    pub fn events(self, reply: &Reply, meta: &ReplyMeta, usage: bool) -> Vec<u8> {
        match self {
            Dialect::Chat => chat::events(reply, meta, usage),
        }
    }

    /// Body of an error answer.
    pub fn error(self, fault: &Fault) -> Vec<u8> {
        match self {
            Dialect::Chat => chat::error(fault),
        }
    }

    /// A fault inside a stream that has begun, terminal event included.
    pub fn error_event(self, fault: &Fault) -> Vec<u8> {
        match self {
            Dialect::Chat => chat::error_event(fault),
        }
    }

    /// A sign of life inside a stream.
    pub fn keepalive(self) -> &'static [u8] {
        match self {
            Dialect::Chat => b": keepalive\n\n",
        }
    }
}

/// Body of `GET models`, or with `one` of `GET models/ID`. `max_context` is in tokens.
pub fn models(name: &str, max_context: u32, one: bool) -> Bytes {
    #[derive(Serialize)]
    struct Model<'a> {
        id: &'a str,
        object: &'static str,
        created: u64,
        owned_by: &'static str,
        max_model_len: u32,
    }
    #[derive(Serialize)]
    struct List<'a> {
        object: &'static str,
        data: [Model<'a>; 1],
    }
    let model = Model {
        id: name,
        object: "model",
        created: 0,
        owned_by: "rollgate",
        max_model_len: max_context,
    };
    let mut out = Vec::new();
    match one {
        true => json::write(&mut out, &model),
        false => json::write(&mut out, &List { object: "list", data: [model] }),
    }
    out.into()
}
