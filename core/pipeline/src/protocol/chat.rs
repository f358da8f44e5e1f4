//! OpenAI Chat Completions.
//!
//! Requests are read as leniently as agents need; replies are written as strictly as clients check.

mod answer;
mod error;
mod events;
mod message;
mod request;
mod sampling;

pub(super) use answer::reply;
pub(super) use error::{error, error_event};
pub(super) use events::{events, pieces};
pub(crate) use request::Chat;
pub(super) use request::{exact_values, read, whole};
pub(super) use sampling::within;

#[cfg(test)]
mod tests;
