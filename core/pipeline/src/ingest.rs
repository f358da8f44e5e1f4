//! What of a request's body was seen before, and so is not read again.
//!
//! An agent sends its whole conversation with every request; all but the end of it was in the one
//! before. A session keeps *layouts* of its latest requests: how each was cut into entries, and what
//! was read from them. While a body comes in, its bytes are hashed, and where they are those of a
//! layout they are dropped at once ([`watch`]). Of the rest, one structural pass finds members and
//! entries ([`outline`]); those whose bytes are known stand for what was read from them, by the
//! session or, for tools and instructions, by any session of the shard ([`shelf`]). Only what nobody
//! knows is parsed ([`memory`]).
//!
//! What comes of it is what [`crate::protocol::Dialect::read`] makes of the whole body, faults
//! included. Equal bytes give copies of one message, turn after turn. Whatever is kept here can be
//! worked out anew: dropping it loses time, nothing else.

mod hash;
mod intake;
mod layout;
mod memory;
mod outline;
mod shelf;
mod stand_in;
mod watch;

pub(crate) use hash::Hash;
pub(crate) use intake::{Arrived, Intake};
pub(crate) use shelf::Shelf;
pub(crate) use watch::Candidate;

use memory::Memory;

use crate::fault::Fault;
use crate::protocol::chat::Chat;
use crate::protocol::messages::Messages;
use crate::protocol::responses::Responses;
use crate::protocol::{Dialect, Past};
use crate::turn::Asked;

/// What a session knows of its requests.
#[derive(Default)]
pub(crate) struct Seen {
    chat: Memory<Chat>,
    messages: Memory<Messages>,
    responses: Memory<Responses>,
}

/// A request that was read.
pub(crate) struct Request {
    /// What it asks for, or why it cannot be served.
    pub(crate) asked: Result<Asked, Fault>,
    /// Digest of the body: equal for equal bodies, however they came in.
    pub(crate) digest: u128,
    /// How much work it was.
    pub(crate) work: Work,
}

/// How much work reading was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Work {
    /// Bytes that were looked at one by one.
    pub(crate) scanned_bytes: usize,
    /// Bytes of parts that were parsed: only tests ask.
    pub(crate) parsed_bytes: usize,
}

impl Seen {
    /// The layouts that a body of this dialect may follow.
    pub(crate) fn candidates(&self, dialect: Dialect) -> Vec<Candidate> {
        match dialect {
            Dialect::Chat => self.chat.candidates(),
            Dialect::Messages => self.messages.candidates(),
            Dialect::Responses => self.responses.candidates(),
        }
    }

    /// Reads a body.
    pub(crate) fn read(
        &mut self,
        dialect: Dialect,
        arrived: Arrived,
        shelf: &mut Shelf,
        past: &dyn Past,
    ) -> Request {
        match dialect {
            Dialect::Chat => self.chat.read(dialect, arrived, shelf, past),
            Dialect::Messages => self.messages.read(dialect, arrived, shelf, past),
            Dialect::Responses => self.responses.read(dialect, arrived, shelf, past),
        }
    }
}

#[cfg(test)]
mod tests;
