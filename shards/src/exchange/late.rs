//! The news that an answer was not read, when it comes after the exchange.
//!
//! The kernel takes an answer that fits its buffer, whether or not anybody reads it. An agent that
//! closes in the middle of it resets the connection: the read that waits for its next request shows
//! an error then, not an end. Until that read returns, the connection keeps the exchange.
//!
//! A reset is no proof: a client that closes without having read the last chunk of a stream, or that
//! always closes with a reset, sends one, too. What that costs is small. The journal calls the answer
//! missed, and the same request, if it comes within the grace period, gets the same answer again.

use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use rollgate_pipeline::exchange::{Exchange, Want};

use super::{Broken, Course, step};
use crate::connection::{After, Connection};
use crate::rt::time::now;
use crate::sessions::{SessionCell, Stay};

/// An exchange that is over and whose answer may not have been read yet. It keeps no session in
/// memory.
pub(crate) struct Late {
    exchange: Exchange,
    cell: Weak<SessionCell>,
    /// From then on nobody would be given the answer again.
    until: Instant,
}

impl Course<'_> {
    /// The exchange is over. Where its agent was there to be answered, it stays with the connection.
    pub(super) fn end(self, keep_alive: bool) -> After {
        if self.presence.cut() {
            return After::Gone;
        }
        let after = match keep_alive {
            true if !self.shard.plane.draining() => After::Again,
            // Its request was read: nothing is left behind that would reset the connection.
            true if self.agent.unread.is_empty() => After::Gone,
            _ => After::Close,
        };
        if !self.presence.alone() {
            let until = now() + Duration::from_millis(self.grace_ms());
            let cell = Rc::downgrade(self.stay.cell());
            self.agent.late = Some(Late { exchange: self.exchange, cell, until });
        }
        after
    }
}

impl Connection {
    /// The connection broke between requests: what was answered last was not read to its end.
    pub(crate) async fn broke(&mut self) {
        let Some(late) = self.late.take() else { return };
        if now() >= late.until {
            return;
        }
        // A session that was dropped from memory meanwhile does not know of the answer any more.
        let Some(cell) = late.cell.upgrade() else { return };
        let Some(stay) = self.shard.sessions.enter_again(&cell) else { return };
        if stay.sealed.get() {
            return;
        }
        self.shard.counters().orphans.add(1);
        if let Err(Broken::Panic) = self.take_back(late.exchange, &stay).await {
            tracing::error!(session = %stay.id, "a step panicked: its session is loaded anew");
            self.shard.sessions.forget(&cell);
        }
    }

    async fn take_back(&self, mut exchange: Exchange, stay: &Stay) -> Result<(), Broken> {
        let want = step(&self.shard, stay, |cx| exchange.lost(cx))?;
        let Want::Durable(frame) = want else { return Ok(()) };
        match stay.journal.append(frame).await {
            Ok(()) => step(&self.shard, stay, |cx| exchange.durable(cx))?,
            Err(fault) => {
                self.shard.counters().faults.add(1);
                self.shard.sessions.forget(stay.cell());
                step(&self.shard, stay, |cx| exchange.not_durable(cx, &fault))?
            }
        };
        Ok(())
    }
}
