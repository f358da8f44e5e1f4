//! OpenAI Responses.
//!
//! Input items are folded into messages: what the model said in one turn (reasoning, message, calls)
//! is one assistant message. Tools of every kind become functions under flat names; calls go back in
//! the form in which their tool was declared. Ids and opaque texts that answers carry name their
//! exchange, and are taken up when they come back.

mod answer;
mod compaction;
mod content;
mod conversation;
mod error;
mod events;
mod ids;
mod items;
mod output;
mod pool;
mod request;
mod tools;

pub(super) use answer::reply;
pub(super) use compaction::refusal;
pub(super) use error::{error_event, named};
pub(super) use events::events;
pub(super) use request::read;
pub use request::read_compact;
pub(crate) use request::{Responses, compacted};

#[cfg(test)]
mod tests;
