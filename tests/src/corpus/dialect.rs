//! The three languages that agents speak.
//!
//! An agent keeps its history in one form, that of Chat. What a client of another dialect keeps with
//! it (ids, signatures, opaque texts) lies under [`KEPT`] in a message, and the spelling in which a
//! call's input came under [`DELIVERED`] in a call. A change to the history changes what is sent as it
//! would at a client of that dialect.

mod chat;
mod events;
mod messages;
mod responses;

use serde_json::{Value, json};

use super::agent::Ask;

/// Where a message holds what is not in Chat's form.
pub const KEPT: &str = "_kept";

/// Where a call holds its arguments as they came, in a dialect whose clients spell them anew.
pub const DELIVERED: &str = "_delivered";

/// A language.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dialect {
    /// Chat Completions.
    Chat,
    /// Responses.
    Responses,
    /// Messages.
    Messages,
}

/// What a client does besides, where a row is about it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Habits {
    /// Messages: marks the last block of instructions and history for the cache.
    pub marks_cache: bool,
    /// Messages: each result of parallel calls comes in a message of its own.
    pub results_apart: bool,
}

impl Dialect {
    /// Every one.
    pub const ALL: [Dialect; 3] = [Dialect::Chat, Dialect::Responses, Dialect::Messages];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Chat => "chat",
            Dialect::Responses => "responses",
            Dialect::Messages => "messages",
        }
    }

    /// Where it is spoken, behind the base URL.
    pub fn path(self) -> &'static str {
        match self {
            Dialect::Chat => "/v1/chat/completions",
            Dialect::Responses => "/v1/responses",
            Dialect::Messages => "/v1/messages",
        }
    }

    /// Headers that its clients send; the key is among them.
    pub fn headers(self, key: &str) -> Vec<(&'static str, String)> {
        match self {
            Dialect::Messages => {
                vec![("x-api-key", key.to_owned()), ("anthropic-version", "2023-06-01".to_owned())]
            }
            _ => vec![("authorization", format!("Bearer {key}"))],
        }
    }

    /// The body of a request.
    pub fn body(self, ask: &Ask, stream: bool, habits: Habits) -> Value {
        let mut body = match self {
            Dialect::Chat => chat::body(ask),
            Dialect::Responses => responses::body(ask, stream),
            Dialect::Messages => messages::body(ask, habits),
        };
        body["model"] = json!("any");
        if stream {
            body["stream"] = json!(true);
        }
        body
    }

    /// The assistant message that an answer is.
    pub fn answer(self, text: &str, stream: bool) -> Result<Value, String> {
        match (self, stream) {
            (Dialect::Chat, false) => chat::of_json(text),
            (Dialect::Chat, true) => chat::of_events(text),
            (Dialect::Responses, false) => responses::of_json(text),
            (Dialect::Responses, true) => responses::of_events(text),
            (Dialect::Messages, false) => messages::of_json(text),
            (Dialect::Messages, true) => messages::of_events(text),
        }
    }
}

/// Adds to a text.
fn append(value: &mut Value, more: &str) {
    *value = format!("{}{more}", value.as_str().unwrap_or_default()).into();
}

/// A JSON body.
fn parsed(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}: {text:.600}"))
}
