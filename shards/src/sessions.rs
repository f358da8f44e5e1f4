//! The sessions of one shard: in memory while they are used, in their journals for good.
//!
//! A session is loaded once however many ask for it, and dropped from memory when it was idle for
//! long or when memory and journal may disagree.

mod cell;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rollgate_pipeline::exchange::{Session, SessionState};
use rollgate_pipeline::fault::{Fault, FaultKind};
use rollgate_pipeline::id::{SessionHash, SessionId};
use rollgate_pipeline::record::{Record, SessionOptions};

pub(crate) use cell::{ExchangeSeat, SessionCell, Stay};

use crate::bounds::{EVICTED_PART, LOADS};
use crate::journal::{Journal, Journals, Loaded, load};
use crate::stats::LimitHit;
use crate::wake::{Bell, Permits};

/// The table of one shard.
pub(crate) struct Sessions {
    pub(crate) journals: Rc<Journals>,
    slots: RefCell<HashMap<SessionHash, Slot>>,
    /// Rings when a slot is no longer busy.
    changed: Bell,
    loads: Rc<Permits>,
}

enum Slot {
    Here(Rc<SessionCell>),
    /// Being made, loaded, dropped or deleted by the holder of a [`Hold`].
    Busy,
}

/// The right to decide what becomes of a slot.
struct Hold {
    sessions: Rc<Sessions>,
    hash: SessionHash,
}

impl Sessions {
    pub(crate) fn new(journals: Rc<Journals>) -> Rc<Self> {
        Rc::new(Self {
            journals,
            slots: RefCell::default(),
            changed: Bell::default(),
            loads: Permits::new(LOADS),
        })
    }

    /// The session, loaded if need be; `None` when there is no such session.
    pub(crate) async fn find(self: &Rc<Self>, hash: SessionHash) -> Result<Option<Stay>, Fault> {
        loop {
            match self.look(hash) {
                Some(Slot::Here(cell)) if cell.journal.is_broken() => self.forget(&cell),
                Some(Slot::Here(cell)) => return Ok(Some(self.enter(cell))),
                Some(Slot::Busy) => self.settled(hash).await,
                None => {
                    self.make_room()?;
                    let hold = self.hold(hash);
                    let _turn = self.loads.take().await;
                    return self.load(hold).await;
                }
            }
        }
    }

    /// The session of this cell, if that is still the one in memory.
    pub(crate) fn enter_again(&self, cell: &Rc<SessionCell>) -> Option<Stay> {
        match self.look(cell.hash) {
            Some(Slot::Here(here)) if Rc::ptr_eq(&here, cell) => Some(self.enter(here)),
            _ => None,
        }
    }

    /// Makes a session and its journal. Durable when this returns.
    pub(crate) async fn create(
        self: &Rc<Self>,
        id: SessionId,
        options: SessionOptions,
    ) -> Result<(), Fault> {
        let hash = id.hash();
        self.make_room()?;
        let hold = self.hold(hash);
        let now = self.journals.plane.now();
        let opened = self.journals.plane.gatehouse.open(id, options, now.wall_ms);
        let frame = Record::Opened(Box::new(opened.clone())).to_frame().map_err(internal)?;
        let session = Session::open(opened).map_err(|error| error.fault())?;
        self.journals.create(hash).await.map_err(|error| {
            let message = format!("the session's journal cannot be created: {error}");
            Fault::new(FaultKind::JournalFailed, message)
        })?;
        let journal = Journal::new(&self.journals, hash, 0);
        if let Err(fault) = journal.append(frame).await {
            self.journals.files.forget(hash);
            // What cannot be unlinked holds no whole record and is never loaded.
            let _ = crate::rt::disk::remove_file(self.journals.plane.journal_path(hash));
            return Err(fault);
        }
        hold.settle(SessionCell::new(session, journal, now.mono_ms));
        Ok(())
    }

    /// Unlinks the session's journal. `false` when there was none.
    pub(crate) async fn delete(self: &Rc<Self>, hash: SessionHash) -> Result<bool, Fault> {
        let _hold = loop {
            match self.look(hash) {
                Some(Slot::Busy) => self.settled(hash).await,
                Some(Slot::Here(cell)) => {
                    let hold = self.hold(hash);
                    cell.journal.give_up().await;
                    break hold;
                }
                None => break self.hold(hash),
            }
        };
        match crate::rt::disk::remove_file(self.journals.plane.journal_path(hash)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(internal(format!("the journal cannot be unlinked: {error}"))),
        }
    }

    /// What is in memory.
    pub(crate) fn list(&self) -> Vec<SessionState> {
        let slots = self.slots.borrow();
        slots.values().filter_map(Slot::cell).map(|cell| cell.session.borrow().state()).collect()
    }

    /// Drops the session from memory, so that its next request loads it from its journal. Appends
    /// of exchanges that still use this value fail.
    pub(crate) fn forget(self: &Rc<Self>, cell: &Rc<SessionCell>) {
        let current = self.look(cell.hash);
        if !current.as_ref().and_then(Slot::cell).is_some_and(|here| Rc::ptr_eq(here, cell)) {
            return;
        }
        let (hold, cell) = (self.hold(cell.hash), cell.clone());
        crate::rt::spawn(async move {
            cell.journal.give_up().await;
            drop(hold);
        });
    }

    /// Drops sessions that nobody used for long.
    pub(crate) fn evict_idle(&self) {
        let limit_ms = self.journals.plane.idle_evict_ms;
        let now_ms = self.journals.plane.now().mono_ms;
        self.evict(|cell| cell.idle_since(now_ms.saturating_sub(limit_ms)));
    }

    /// Drops a part of the idle sessions, those that nobody used for longest. `false` when none is
    /// idle.
    pub(crate) fn evict_oldest(&self) -> bool {
        let slots = self.slots.borrow();
        let mut idle: Vec<u64> =
            slots.values().filter_map(Slot::cell).filter_map(|cell| cell.idle_from()).collect();
        drop(slots);
        if idle.is_empty() {
            return false;
        }
        let at = (idle.len() / EVICTED_PART).min(idle.len() - 1);
        let (_, last, _) = idle.select_nth_unstable(at);
        let last = *last;
        self.evict(|cell| cell.idle_since(last));
        true
    }

    /// Makes room for one more session in memory.
    fn make_room(&self) -> Result<(), Fault> {
        let most = self.journals.plane.limits().sessions_per_shard;
        if self.slots.borrow().len() < usize::try_from(most).unwrap_or(usize::MAX) {
            return Ok(());
        }
        self.journals.counters().hit(LimitHit::SessionsPerShard);
        if self.evict_oldest() {
            return Ok(());
        }
        let message = format!(
            "{most} sessions are at work on this shard (limits.sessions_per_shard): send the request \
             again later"
        );
        Err(Fault::new(FaultKind::Overload, message))
    }

    fn evict(&self, leaves: impl Fn(&SessionCell) -> bool) {
        let mut slots = self.slots.borrow_mut();
        let before = slots.len();
        slots.retain(|_, slot| slot.cell().is_none_or(|cell| !leaves(cell)));
        let evicted = (before - slots.len()) as u64;
        self.journals.counters().evictions.add(evicted);
        self.journals.counters().sessions.sub(evicted);
    }

    fn look(&self, hash: SessionHash) -> Option<Slot> {
        self.slots.borrow().get(&hash).map(Slot::share)
    }

    async fn settled(&self, hash: SessionHash) {
        self.changed.until(|| !matches!(self.look(hash), Some(Slot::Busy))).await;
    }

    fn enter(&self, cell: Rc<SessionCell>) -> Stay {
        cell.enter(self.journals.plane.clone())
    }

    fn hold(self: &Rc<Self>, hash: SessionHash) -> Hold {
        if let Some(Slot::Here(_)) = self.slots.borrow_mut().insert(hash, Slot::Busy) {
            self.journals.counters().sessions.sub(1);
        }
        Hold { sessions: self.clone(), hash }
    }

    async fn load(self: &Rc<Self>, hold: Hold) -> Result<Option<Stay>, Fault> {
        let hash = hold.hash;
        let fail = |reason: String| {
            tracing::error!(session = %hash, %reason, "a session cannot be loaded");
            internal(format!("the session cannot be loaded from its journal: {reason}"))
        };
        let loaded = load(&self.journals.plane.journal_path(hash)).await.map_err(fail)?;
        let Loaded::Records { records, bytes, torn_bytes } = loaded else { return Ok(None) };
        if torn_bytes > 0 {
            self.journals.counters().torn_tails.add(1);
            tracing::warn!(session = %hash, torn_bytes, "an unfinished write was cut off a journal");
        }
        let session = Session::replay(records).map_err(|error| fail(error.to_string()))?;
        self.journals.counters().reloads.add(1);
        let journal = Journal::new(&self.journals, hash, bytes);
        let cell = SessionCell::new(session, journal, self.journals.plane.now().mono_ms);
        let stay = self.enter(cell.clone());
        hold.settle(cell);
        Ok(Some(stay))
    }
}

fn internal(reason: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::Internal, reason)
}

impl Slot {
    fn cell(&self) -> Option<&Rc<SessionCell>> {
        match self {
            Slot::Here(cell) => Some(cell),
            Slot::Busy => None,
        }
    }

    fn share(&self) -> Slot {
        self.cell().map_or(Slot::Busy, |cell| Slot::Here(cell.clone()))
    }
}

impl Hold {
    fn settle(self, cell: Rc<SessionCell>) {
        self.sessions.slots.borrow_mut().insert(self.hash, Slot::Here(cell));
        self.sessions.journals.counters().sessions.add(1);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut slots = self.sessions.slots.borrow_mut();
        if let Some(Slot::Busy) = slots.get(&self.hash) {
            slots.remove(&self.hash);
        }
        drop(slots);
        self.sessions.changed.ring();
    }
}
