//! One session in memory, and who is using it.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use rollgate_pipeline::exchange::Session;
use rollgate_pipeline::id::{SessionHash, SessionId};
use rollgate_pipeline::planted::{self, Bug};

use crate::journal::Journal;
use crate::plane::Plane;
use crate::wake::Bell;

/// A session, its journal and its users.
pub(crate) struct SessionCell {
    pub(crate) hash: SessionHash,
    pub(crate) id: SessionId,
    /// Never borrowed over an await.
    pub(crate) session: RefCell<Session>,
    pub(crate) journal: Journal,
    /// No exchange may begin any more.
    pub(crate) closing: Cell<bool>,
    /// No turn may be recorded any more.
    pub(crate) sealed: Cell<bool>,
    stays: Cell<u32>,
    exchanges: Cell<u32>,
    ended: Cell<u64>,
    used_mono_ms: Cell<u64>,
    /// Rings when an exchange ends.
    pub(crate) left: Bell,
}

/// Keeps a session in memory.
pub(crate) struct Stay {
    cell: Rc<SessionCell>,
    plane: Arc<Plane>,
}

/// An exchange of the session is under way.
pub(crate) struct ExchangeSeat {
    cell: Rc<SessionCell>,
}

impl SessionCell {
    pub(super) fn new(session: Session, journal: Journal, mono_ms: u64) -> Rc<Self> {
        let id = session.id().clone();
        let sealed = session.sealed();
        Rc::new(Self {
            hash: id.hash(),
            id,
            session: RefCell::new(session),
            journal,
            closing: Cell::new(sealed),
            sealed: Cell::new(sealed),
            stays: Cell::new(0),
            exchanges: Cell::new(0),
            ended: Cell::new(0),
            used_mono_ms: Cell::new(mono_ms),
            left: Bell::default(),
        })
    }

    pub(super) fn enter(self: Rc<Self>, plane: Arc<Plane>) -> Stay {
        self.stays.set(self.stays.get() + 1);
        Stay { cell: self, plane }
    }

    /// Whether nobody has used it since then.
    pub(super) fn idle_since(&self, mono_ms: u64) -> bool {
        let unused = self.stays.get() == 0 || planted::on(Bug::EvictedInFlight);
        unused && self.used_mono_ms.get() <= mono_ms
    }

    /// Since when nobody uses it, in monotonic milliseconds; `None` when somebody does.
    pub(super) fn idle_from(&self) -> Option<u64> {
        (self.stays.get() == 0).then(|| self.used_mono_ms.get())
    }

    /// Exchanges under way.
    pub(crate) fn exchanges(&self) -> u32 {
        self.exchanges.get()
    }

    /// Exchanges that were under way and are over.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.get()
    }
}

impl Stay {
    /// The cell itself, for [`super::Sessions::forget`].
    pub(crate) fn cell(&self) -> &Rc<SessionCell> {
        &self.cell
    }

    /// Counts an exchange until the seat is dropped.
    pub(crate) fn sit(&self) -> ExchangeSeat {
        self.exchanges.set(self.exchanges.get() + 1);
        ExchangeSeat { cell: self.cell.clone() }
    }
}

impl Deref for Stay {
    type Target = SessionCell;

    fn deref(&self) -> &SessionCell {
        &self.cell
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.cell.stays.set(self.cell.stays.get() - 1);
        self.cell.used_mono_ms.set(self.plane.now().mono_ms);
    }
}

impl Drop for ExchangeSeat {
    fn drop(&mut self) {
        self.cell.exchanges.set(self.cell.exchanges.get() - 1);
        self.cell.ended.set(self.cell.ended.get().wrapping_add(1));
        self.cell.left.ring();
    }
}
