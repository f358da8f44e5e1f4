//! Counting the tokens of a prompt that is not sent.
//!
//! The request is matched with the session and rendered as a call would be, so the count is the
//! length of the prompt that the same body makes. No engine is asked, nothing is reserved or
//! recorded, and no other exchange takes it for its own.

use super::prepare::{Asker, prompt_tokens};
use super::{Context, Exchange, Stage, Want};
use crate::fault::{Fault, Whose};
use crate::http;
use crate::protocol;
use crate::turn::Asked;

impl Exchange {
    /// A request to count was read.
    pub(super) fn count(&mut self, cx: &mut Context<'_>, asked: Result<Asked, Fault>) -> Want {
        self.passage.counted = true;
        match asked.and_then(|asked| prompt_tokens(asked, self.asker(), cx)) {
            Ok(tokens) => {
                let body = protocol::token_count(tokens);
                self.stage = Stage::Write(None);
                let id = self.request_id();
                Want::Agent(http::reply(200, "application/json", &body, self.keep_alive, &[id]))
            }
            // Nothing was asked of the model: the session is no worse for it.
            Err(fault) => {
                self.fault = Some(fault.clone()).filter(|fault| fault.kind.whose() != Whose::Agent);
                self.refuse(&fault)
            }
        }
    }

    /// Who asks.
    pub(super) fn asker(&self) -> Asker<'_> {
        Asker { id: &self.id, entry: self.entry, headers: &self.headers, dialect: self.dialect }
    }
}
