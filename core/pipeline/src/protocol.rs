//! Dialects: an agent's request to the canonical form, and a canonical reply back, as JSON and as
//! events; faults in the caller's shape.
//!
//! Nothing here knows a model family or an engine.

pub mod chat;

use bytes::Bytes;
use serde_json::Value;

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
    pub finish: Finish,
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
    pub fn read(self, _body: &[u8]) -> Result<Asked, Fault> {
        todo!()
    }
    /// A reply as one JSON body.
    pub fn reply(self, _reply: &Reply, _meta: &ReplyMeta) -> Vec<u8> {
        todo!()
    }
    /// A reply as a complete event stream, first event to last.
    pub fn events(self, _reply: &Reply, _meta: &ReplyMeta, _usage: bool) -> Vec<u8> {
        todo!()
    }
    /// Body of an error answer.
    pub fn error(self, _fault: &Fault) -> Vec<u8> {
        todo!()
    }
    /// A fault inside a stream that has begun, terminal event included.
    pub fn error_event(self, _fault: &Fault) -> Vec<u8> {
        todo!()
    }
    /// A sign of life inside a stream.
    pub fn keepalive(self) -> &'static [u8] {
        b": keepalive\n\n"
    }
}

/// Body of `GET models` and `GET models/ID`.
pub fn models(_name: &str, _max_context: u32, _one: bool) -> Bytes {
    let _ = Value::Null;
    todo!()
}
