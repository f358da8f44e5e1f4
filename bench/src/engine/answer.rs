//! An answer before it is bytes, and how it is to be delivered.

use serde::Serialize;

use super::script::ScriptedFault;

/// How an answer reaches the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Delivery {
    /// As it should.
    Whole,
    /// The connection is closed after so many bytes, head included.
    CloseAfter(usize),
    /// Half of it, silence for so many milliseconds, the rest.
    Stall(u64),
    /// Not at all: the connection is closed and the engine ends.
    Die,
}

/// An answer to one request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
    pub(super) delivery: Delivery,
}

impl Answer {
    /// A JSON body.
    pub(super) fn json(status: u16, body: &impl Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(body) => Self { body, ..Self::text(status, "application/json", "") },
            Err(error) => Self::text(500, "text/plain", &format!("cannot write JSON: {error}")),
        }
    }

    /// A body as it is.
    pub(super) fn text(status: u16, content_type: &'static str, body: &str) -> Self {
        Self { status, content_type, body: body.into(), delivery: Delivery::Whole }
    }

    /// No body.
    pub(super) fn empty(status: u16) -> Self {
        Self::text(status, "text/plain", "")
    }

    /// No answer: the engine dies.
    pub(super) fn die() -> Self {
        Self { delivery: Delivery::Die, ..Self::empty(500) }
    }

    /// Puts a fault of delivery on it; faults of numbers are already in the body.
    pub(super) fn faulty(mut self, fault: Option<&ScriptedFault>) -> Self {
        match fault {
            Some(ScriptedFault::CloseAfterBytes(bytes)) => {
                self.delivery = Delivery::CloseAfter(*bytes);
            }
            Some(ScriptedFault::StallMs(ms)) => self.delivery = Delivery::Stall(*ms),
            Some(ScriptedFault::BadJson) => self.body.truncate(self.body.len() / 2),
            _ => {}
        }
        self
    }
}

/// An answer's 400 and the like come the same way as answers.
pub(super) type Answered = Result<Answer, Answer>;
