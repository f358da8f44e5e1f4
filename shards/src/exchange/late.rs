//! The news that an answer was not read, when it comes after the exchange.
//!
//! The kernel takes an answer that fits its buffer, whether or not anybody reads it. An agent that
//! closes in the middle of it resets the connection: the read that waits for its next request shows
//! an error then, not an end. Until that read returns, the connection keeps the exchange.
//!
//! An agent that sends its next request before it has read an answer proves nothing by it: then the
//! answers before are kept, too, up to a number.
//!
//! A reset is no proof: a client that closes without having read the last chunk of a stream, or that
//! always closes with a reset, sends one, too. What that costs is small. The journal calls the answer
//! missed, and the same request, if it comes within the grace period, gets the same answer again.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use rollgate_pipeline::exchange::{Exchange, Want};

use super::{Broken, Course, step};
use crate::bounds::LATE_ANSWERS;
use crate::connection::{After, Connection};
use crate::sessions::{SessionCell, Stay};

/// An exchange that is over and whose answer may not have been read yet. It keeps no session in
/// memory.
pub(crate) struct Late {
    exchange: Exchange,
    cell: Weak<SessionCell>,
    /// From then on nobody would be given the answer again; in monotonic milliseconds.
    until_ms: u64,
}

/// Something that is kept for a while.
pub(crate) trait Timed {
    /// Until when, in monotonic milliseconds.
    fn until_ms(&self) -> u64;
}

impl Timed for Late {
    fn until_ms(&self) -> u64 {
        self.until_ms
    }
}

/// The late exchanges of one connection, the oldest first.
pub(crate) struct Lates<T = Late>(Rc<Shelf<T>>);

struct Shelf<T> {
    lates: RefCell<VecDeque<T>>,
    /// It has a place in the shard's queue.
    placed: Cell<bool>,
}

/// The connections of a shard that have late exchanges, about in the order in which their time is
/// over. Each has one place at most.
pub(crate) struct Watched<T = Late>(RefCell<VecDeque<Place<T>>>);

/// When to look at it, in monotonic milliseconds.
type Place<T> = (u64, Weak<Shelf<T>>);

impl<T> Default for Lates<T> {
    fn default() -> Self {
        Self(Rc::new(Shelf { lates: RefCell::default(), placed: Cell::new(false) }))
    }
}

impl<T> Default for Watched<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T: Timed> Lates<T> {
    /// The agent has read all that it was sent.
    pub(crate) fn clear(&self) {
        self.0.lates.take();
    }

    fn add(&self, late: T, watched: &Watched<T>) {
        if !self.0.placed.replace(true) {
            let place = (late.until_ms(), Rc::downgrade(&self.0));
            watched.0.borrow_mut().push_back(place);
        }
        let mut lates = self.0.lates.borrow_mut();
        if lates.len() == LATE_ANSWERS {
            lates.pop_front();
        }
        lates.push_back(late);
    }

    fn take(&self) -> VecDeque<T> {
        self.0.lates.take()
    }
}

impl<T: Timed> Watched<T> {
    /// Lets go of what nobody would be given any more: a quiet connection keeps no answer.
    pub(crate) fn sweep(&self, now_ms: u64) {
        let mut watched = self.0.borrow_mut();
        while watched.front().is_some_and(|(until_ms, _)| *until_ms <= now_ms) {
            let Some((_, shelf)) = watched.pop_front() else { return };
            let Some(shelf) = shelf.upgrade() else { continue };
            let mut lates = shelf.lates.borrow_mut();
            lates.retain(|late| late.until_ms() > now_ms);
            shelf.placed.set(!lates.is_empty());
            if let Some(late) = lates.front() {
                watched.push_back((late.until_ms(), Rc::downgrade(&shelf)));
            }
        }
    }
}

impl Course<'_> {
    /// The exchange is over. Where its agent was there to be answered, it stays with the connection.
    pub(super) fn end(self, keep_alive: bool) -> After {
        if self.presence.cut() {
            return After::Cut;
        }
        let after = match keep_alive {
            true if !self.shard.plane.draining() => After::Again,
            // Its request was read: nothing is left behind that would reset the connection.
            true if self.agent.unread.is_empty() => After::Gone,
            _ => After::Close,
        };
        if !self.presence.alone() {
            let until_ms = self.shard.plane.now().mono_ms.saturating_add(self.grace_ms());
            let cell = Rc::downgrade(self.stay.cell());
            let late = Late { exchange: self.exchange, cell, until_ms };
            self.agent.lates.add(late, &self.shard.lates);
        }
        after
    }
}

impl Connection {
    /// The connection broke: what is not known to be read was not read.
    pub(crate) async fn broke(&mut self) {
        let now_ms = self.shard.plane.now().mono_ms;
        for late in self.lates.take().into_iter().filter(|late| now_ms < late.until_ms) {
            self.lost(late).await;
        }
    }

    async fn lost(&self, late: Late) {
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
            self.shard.panicked();
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

#[cfg(test)]
mod tests {
    use super::*;

    impl Timed for u64 {
        fn until_ms(&self) -> u64 {
            *self
        }
    }

    fn kept(lates: &Lates<u64>) -> Vec<u64> {
        lates.0.lates.borrow().iter().copied().collect()
    }

    #[test]
    fn answers_are_let_go_of_when_their_time_is_over_and_others_stay() {
        let watched = Watched::default();
        let (quiet, busy, gone) = (Lates::default(), Lates::default(), Lates::default());
        for (lates, until_ms) in [(&quiet, 10), (&busy, 10), (&gone, 10), (&busy, 20)] {
            lates.add(until_ms, &watched);
        }
        drop(gone);
        watched.sweep(9);
        assert_eq!((kept(&quiet), kept(&busy)), (vec![10], vec![10, 20]));
        watched.sweep(10);
        assert_eq!((kept(&quiet), kept(&busy)), (vec![], vec![20]));
        assert_eq!(watched.0.borrow().len(), 1, "one place for what is left");
        quiet.add(30, &watched);
        watched.sweep(25);
        assert_eq!((kept(&quiet), kept(&busy)), (vec![30], vec![]));
        watched.sweep(30);
        assert!(kept(&quiet).is_empty() && watched.0.borrow().is_empty());
    }

    #[test]
    fn a_connection_keeps_a_few_answers_and_has_one_place() {
        let (watched, lates) = (Watched::default(), Lates::default());
        for until_ms in 0..100 {
            lates.add(until_ms, &watched);
        }
        assert_eq!(kept(&lates), (100 - LATE_ANSWERS as u64..100).collect::<Vec<_>>());
        lates.clear();
        lates.add(7, &watched);
        assert_eq!((kept(&lates), watched.0.borrow().len()), (vec![7], 1));
    }
}
