//! Retries told from siblings, by the state of connections.
//!
//! Each exchange holds a ticket. Its key is what was asked: the call, the body as sent (but for what
//! agents write in another order whenever they try again), the scene of the URL, the headers that say
//! which agent asks. An equal request is a *retry* only where the agent of the first one is gone,
//! before or while it took the answer; it then *adopts* the first one: it waits for what comes of it,
//! or gets at once what already came of it. Two equal requests whose agents are both there are
//! siblings (best of k, identical subagents) and sample on their own. So is a third one, when the
//! first is adopted: one orphan stands for one retry.
//!
//! The answer of an orphan is kept for the grace period, and no longer: a retry that comes later
//! asks the engine again. Tickets live in memory only, like the connections they speak of.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::answer::Answer;
use crate::fault::Fault;
use crate::http::{RequestHead, Route};
use crate::id::TurnIndex;
use crate::limits::KEPT_ANSWERS;
use crate::planted::{self, Bug};
use crate::protocol::Dialect;
use crate::scene::Scene;
use crate::turn::ReplyForm;

/// What a request is recognised by.
pub(super) type Key = [u8; 32];

/// Headers that say which agent, or which part of one, asks. Ids of single requests are not among
/// them: agents change those when they try again.
const LINEAGE: [&str; 8] = [
    "session_id",
    "session-id",
    "thread-id",
    "x-session-id",
    "x-session-affinity",
    "x-claude-code-session-id",
    "x-claude-code-agent-id",
    "x-claude-code-parent-agent-id",
];

/// Digest of what the head adds to a key.
pub(super) fn lineage(head: &RequestHead, route: &Route) -> Key {
    let mut hasher = blake3::Hasher::new();
    add(&mut hasher, route.scene.map_or("", Scene::name).as_bytes());
    // Two calls of one dialect may be sent the same body.
    add(&mut hasher, format!("{:?}", route.call).as_bytes());
    for name in LINEAGE {
        add(&mut hasher, head.header(name).unwrap_or_default().as_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// The key of a request, whose body has this digest.
pub(super) fn key(lineage: &Key, dialect: Dialect, digest: u128) -> Key {
    let mut hasher = blake3::Hasher::new();
    hasher.update(lineage);
    hasher.update(dialect.name().as_bytes());
    hasher.update(&digest.to_le_bytes());
    *hasher.finalize().as_bytes()
}

fn add(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// A recorded answer, for as long as somebody may have to be given it.
pub(super) struct Kept {
    pub(super) turn: TurnIndex,
    pub(super) answer: Answer,
    pub(super) said: Cell<Said>,
}

/// What the journal says of an answer's way to the agent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// Nothing: that it got there, or that it is on its way.
    Nothing,
    /// That it did not get there whole.
    Missed,
    /// Nothing more may be said: it got there.
    Whole,
}

impl Kept {
    /// Takes note of how a delivery ended; whether the journal must be told.
    pub(super) fn ended(&self, whole: bool) -> bool {
        let (next, tell) = match (self.said.get(), whole) {
            (Said::Nothing, true) | (Said::Whole, _) => (Said::Whole, false),
            (Said::Nothing, false) => (Said::Missed, true),
            (Said::Missed, false) => (Said::Missed, false),
            (Said::Missed, true) => (Said::Whole, true),
        };
        self.said.set(next);
        tell
    }

    /// What was thought to be delivered was not.
    pub(super) fn lost(&self) {
        self.said.set(Said::Nothing);
    }
}

/// How far an exchange is, for others that ask for the same.
#[derive(Clone)]
pub(super) enum Course {
    /// It is under way.
    Running,
    /// Its answer is recorded.
    Answered(Rc<Kept>),
    /// It ended in a fault.
    Failed(Fault),
    /// There is nothing to be had from it.
    Over,
}

/// One exchange, as others see it.
pub(super) struct Ticket {
    key: Key,
    pub(super) form: ReplyForm,
    course: RefCell<Course>,
    gone: Cell<bool>,
    adopted: Cell<bool>,
    /// Until when its answer is kept, in monotonic milliseconds.
    until_ms: Cell<u64>,
}

impl Ticket {
    /// How far it is.
    pub(super) fn course(&self) -> Course {
        self.course.borrow().clone()
    }

    /// Whether another exchange waits for what comes of it.
    pub(super) fn adopted(&self) -> bool {
        self.adopted.get()
    }

    fn orphan(&self, now_ms: u64) -> bool {
        let alone = self.gone.get() || planted::on(Bug::SiblingIsRetry);
        let has = matches!(*self.course.borrow(), Course::Running | Course::Answered(_));
        alone && has && !self.adopted.get() && now_ms < self.until_ms.get()
    }

    fn of_use(&self, now_ms: u64) -> bool {
        match *self.course.borrow() {
            Course::Running => true,
            Course::Answered(_) => now_ms < self.until_ms.get(),
            Course::Failed(_) | Course::Over => false,
        }
    }
}

/// An exchange's own ticket. One that is dropped unfinished has nothing to give.
pub(super) struct Own(pub(super) Rc<Ticket>);

impl Own {
    /// The agent is gone.
    pub(super) fn gone(&self) {
        self.0.gone.set(true);
    }

    /// The answer is recorded.
    pub(super) fn answered(&self, kept: Rc<Kept>) {
        self.0.course.replace(Course::Answered(kept));
    }

    /// It ended in a fault, which whoever waits for it gets too.
    pub(super) fn failed(&self, fault: &Fault) {
        self.0.course.replace(Course::Failed(fault.clone()));
    }

    /// Nobody may take it over any more.
    pub(super) fn close(&self) {
        self.0.course.replace(Course::Over);
    }

    /// The agent did not get its answer: it is kept until then.
    pub(super) fn keep_until(&self, until_ms: u64) {
        self.0.until_ms.set(until_ms);
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let unfinished = matches!(*self.0.course.borrow(), Course::Running);
        // Without a term for its answer it was delivered.
        if unfinished || self.0.until_ms.get() == u64::MAX {
            let failed = matches!(*self.0.course.borrow(), Course::Failed(_));
            if !failed {
                self.close();
            }
        }
    }
}

/// The claim of a retry on an orphan.
pub(super) struct Adoption(Rc<Ticket>);

impl Adoption {
    /// The orphan.
    pub(super) fn orphan(&self) -> &Ticket {
        &self.0
    }

    /// Its answer is here: from now on only the retry has it to give.
    pub(super) fn take_over(self) {
        self.0.course.replace(Course::Over);
    }
}

impl Drop for Adoption {
    fn drop(&mut self) {
        self.0.adopted.set(false);
    }
}

/// The tickets of a session.
#[derive(Default)]
pub(super) struct Tickets(Vec<Rc<Ticket>>);

#[cfg(test)]
impl Tickets {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Tickets {
    /// Claims the first orphan of this key, if there is one.
    pub(super) fn adopt(&mut self, key: &Key, now_ms: u64) -> Option<Adoption> {
        let found = self.0.iter().find(|ticket| ticket.key == *key && ticket.orphan(now_ms))?;
        found.adopted.set(true);
        Some(Adoption(found.clone()))
    }

    /// A ticket for an exchange that begins.
    pub(super) fn issue(&mut self, key: Key, form: ReplyForm, now_ms: u64) -> Own {
        self.0.retain(|ticket| ticket.of_use(now_ms));
        let kept = |ticket: &Rc<Ticket>| ticket.until_ms.get() != u64::MAX;
        let surplus = (self.0.iter().filter(|t| kept(t)).count() + 1).saturating_sub(KEPT_ANSWERS);
        for _ in 0..surplus {
            if let Some(oldest) = self.0.iter().position(kept) {
                self.0.remove(oldest);
            }
        }
        let ticket = Rc::new(Ticket {
            key,
            form,
            course: RefCell::new(Course::Running),
            gone: Cell::new(false),
            adopted: Cell::new(false),
            until_ms: Cell::new(u64::MAX),
        });
        self.0.push(ticket.clone());
        Own(ticket)
    }
}
