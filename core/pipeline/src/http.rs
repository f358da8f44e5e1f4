//! HTTP/1.1 as bytes: heads, bodies, replies, events and routes.
//!
//! Strict where two readers could disagree about where a message ends, lenient elsewhere. Nothing
//! here knows what a body means, and nothing does I/O.

mod body;
mod chunked;
mod coding;
mod framing;
mod head;
mod plainer;
mod reply;
mod route;
mod write;

pub use body::{BodyReader, BodyState};
pub use framing::Framing;
pub use head::{Header, Method, RequestHead, read_head};
pub use plainer::Plainer;
pub use reply::{ReplyFraming, ReplyHead, ReplyReader, read_reply_head};
pub use route::{Call, Route, guessed, route};
pub use write::{CONTINUE, chunk, events_head, last_chunk, reply, request_head, rest_of_chunks};

#[cfg(test)]
mod tests;
