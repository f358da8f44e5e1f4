//! Counting the tokens of a prompt that is not sent.
//!
//! The request is matched with the session and rendered as a call would be, so the count is the
//! length of the prompt that the same body makes. No engine is asked, nothing is reserved or
//! recorded, and no other exchange takes it for its own.

use super::prepare::{Asker, Extent, extent};
use super::retry::Halted;
use super::{Context, Exchange, Stage, Want};
use crate::fault::{Fault, Whose};
use crate::http;
use crate::protocol;
use crate::turn::Asked;

impl Exchange {
    /// A request to count was read.
    pub(super) fn count(&mut self, cx: &mut Context<'_>, asked: Result<Asked, Fault>) -> Want {
        self.passage.counted = true;
        match asked.and_then(|asked| extent(asked, self.asker(), cx)) {
            Ok(mut extent) => match extent.job(&cx.gatehouse.model) {
                Some(job) => self.encode_aside(job, Halted { extent, key: None }),
                None => self.counted(cx, extent),
            },
            Err(fault) => self.count_failed(fault),
        }
    }

    /// Its prompt is rendered, and encoded where that takes long.
    pub(super) fn counted(&mut self, cx: &mut Context<'_>, mut extent: Extent) -> Want {
        match extent.prompt_tokens(cx) {
            Ok(tokens) => {
                let body = protocol::token_count(tokens);
                self.stage = Stage::Write(None);
                let id = self.request_id();
                Want::Agent(http::reply(200, "application/json", &body, self.keep_alive, &[id]))
            }
            Err(fault) => self.count_failed(fault),
        }
    }

    /// Nothing was asked of the model: the session is no worse for it.
    pub(super) fn count_failed(&mut self, fault: Fault) -> Want {
        self.fault = Some(fault.clone()).filter(|fault| fault.kind.whose() != Whose::Agent);
        self.refuse(&fault)
    }

    /// Who asks.
    pub(super) fn asker(&self) -> Asker<'_> {
        Asker { id: &self.id, entry: self.entry, headers: &self.headers, dialect: self.dialect }
    }
}
