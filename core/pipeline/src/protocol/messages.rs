//! Anthropic Messages.
//!
//! A user message with results and text becomes tool messages and then a user message; instructions
//! become a leading system message. Requests are read as leniently as agents need; replies are
//! written as strictly as clients check.

mod answer;
mod blocks;
mod document;
mod error;
mod events;
mod message;
mod place;
mod request;
mod tools;

pub(super) use answer::reply;
pub(super) use error::{error, error_event};
pub(super) use events::events;
pub(crate) use request::Messages;
pub(super) use request::read;

#[cfg(test)]
mod tests;
