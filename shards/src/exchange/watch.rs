//! Watching the agent while something else is waited for: an engine, another exchange, a record.
//!
//! A connection whose other end was closed shows its end to the next read, and one that was cut
//! shows an error. Both mean that the agent has left: the exchange is told once, and goes on. It is
//! an *orphan* then, until another exchange asks for the same ([`Exchange::adopted`]) or the grace
//! period is over; then the engine is told to give up.
//!
//! In a session that is being closed nobody can ask again: orphans are given up at once, and calls
//! whose agents still wait are cancelled after a moment.
//!
//! An end is what a client sends that closes its socket, and also what one sends that only closes
//! its own direction and still reads. They cannot be told apart before something is written, and
//! agents do the second hardly ever. So both have left, but the answer is still written to
//! whoever may read it, until a write fails. What a client of the second kind loses is time: its
//! call is given up after the grace period, and requests it had sent behind are not served.
//!
//! Once the answer is with the kernel, an end says nothing, since whoever has read it all may
//! close. An error does: whoever closes with unread bytes resets the connection. See [`super::late`].

use std::cell::Cell;
use std::future::{Future, pending};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use rollgate_pipeline::exchange::Exchange;
use rollgate_pipeline::fault::{Fault, FaultKind};
use rollgate_pipeline::planted::{self, Bug};

use super::{Broken, Course};
use crate::bounds::{CLOSE_GIVE_UP, CLOSE_GRACE, GIVE_UP, READ_AHEAD_BYTES, TICK};
use crate::connection::Connection;
use crate::pool::Asked;
use crate::stream::read;

/// What is known of the agent.
#[derive(Default)]
pub(super) struct Presence {
    /// The last read showed the end: there is nothing to watch any more.
    ended: bool,
    /// Nothing can be written to it any more.
    cut: bool,
    /// The whole answer is with the kernel.
    answered: bool,
    /// The exchange has been told; since when nobody waits for its answer, in monotonic
    /// milliseconds.
    alone_since_ms: Option<u64>,
    /// Since when its session is seen to be closing, in monotonic milliseconds.
    closing_since_ms: Option<u64>,
    /// The exchange was given up; until when its call is read on, in monotonic milliseconds.
    until_ms: Option<u64>,
    /// The engine did not take it in: there is nothing to wait for.
    untold: Rc<Cell<bool>>,
}

/// How the agent was seen to leave.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// The connection ended in order: it may still read.
    End,
    /// The connection is broken.
    Cut,
}

/// What is waited for.
#[derive(Clone, Copy)]
pub(super) enum Pause<'a> {
    /// An engine's reply, or the next part of one.
    Engine(&'a Asked),
    /// Time, or another exchange.
    Parked,
    /// The shard's helper.
    Encode,
    /// The journal. That is never given up: the record has its place already.
    Record,
}

/// What happened while something was waited for.
enum Event<T> {
    Done(T),
    /// A read would not wait.
    Readable,
    Tick,
}

impl Presence {
    /// Whether nothing can be written any more.
    pub(super) fn cut(&self) -> bool {
        self.cut
    }

    /// Whether the exchange was told that its agent is gone.
    pub(super) fn alone(&self) -> bool {
        self.alone_since_ms.is_some()
    }

    /// The whole answer is with the kernel.
    pub(super) fn answered(&mut self) {
        self.answered = true;
    }
}

impl Course<'_> {
    /// Waits for `work`, watches the agent and shows it signs of life meanwhile. The work is never
    /// dropped and begun anew: it may have taken bytes. The inner error is the fault to report
    /// where the agent has left for good; the work was dropped then.
    pub(super) async fn watched<T>(
        &mut self,
        pause: Pause<'_>,
        work: impl Future<Output = T>,
    ) -> Result<Result<T, Fault>, Broken> {
        let mut work = pin!(work);
        // Most records are written at once: not worth a watch of its own.
        let mut watches = !matches!(pause, Pause::Record);
        loop {
            let event = {
                let tick = pin!(crate::rt::time::sleep(self.until_tick()));
                let agent = pin!(readable(self.agent, watches && !self.presence.ended));
                match select(work.as_mut(), select(agent, tick)).await {
                    Either::Left((done, _)) => Event::Done(done),
                    Either::Right((Either::Left(_), _)) => Event::Readable,
                    Either::Right((Either::Right(_), _)) => Event::Tick,
                }
            };
            match event {
                Event::Done(done) => return Ok(Ok(done)),
                Event::Readable => self.read_ahead().await?,
                Event::Tick => {
                    watches = true;
                    self.sign_of_life().await?;
                    if let Some(fault) = self.look_after(pause)? {
                        return Ok(Err(fault));
                    }
                }
            }
        }
    }

    /// Reads what is there: part of a later request, or the news that the agent has left.
    async fn read_ahead(&mut self) -> Result<(), Broken> {
        let leave = match read(&mut self.agent.stream, &mut self.agent.unread).await {
            Ok(1..) => {
                if planted::on(Bug::ReadAheadDropped) {
                    self.agent.unread.clear();
                }
                return Ok(());
            }
            Ok(0) => Leave::End,
            Err(_) => Leave::Cut,
        };
        self.left(leave)
    }

    /// The agent was seen to leave. The exchange is told once.
    pub(super) fn left(&mut self, leave: Leave) -> Result<(), Broken> {
        self.presence.ended = true;
        self.presence.cut |= leave == Leave::Cut;
        let has_read_it = self.presence.answered && leave == Leave::End;
        if has_read_it || self.presence.alone() {
            return Ok(());
        }
        self.presence.alone_since_ms = Some(self.shard.plane.now().mono_ms);
        self.shard.counters().orphans.add(1);
        self.step(Exchange::agent_gone)
    }

    async fn sign_of_life(&mut self) -> Result<(), Broken> {
        if self.presence.cut {
            return Ok(());
        }
        let now = self.shard.plane.now();
        let Some(bytes) = self.exchange.tick(&self.shard.plane.gatehouse, now) else {
            return Ok(());
        };
        self.shard.counters().keepalives.add(1);
        self.show_agent(bytes).await
    }

    /// When to look next: at signs of life, and at the end of a grace period.
    fn until_tick(&self) -> Duration {
        let presence = &self.presence;
        let closing = presence.closing_since_ms.map(|since_ms| since_ms + millis(CLOSE_GRACE));
        let alone =
            presence.alone_since_ms.map(|since_ms| since_ms.saturating_add(self.grace_ms()));
        let Some(end_ms) = presence.until_ms.or(closing).or(alone) else { return TICK };
        match end_ms.saturating_sub(self.shard.plane.now().mono_ms) {
            0 => TICK,
            left_ms => TICK.min(Duration::from_millis(left_ms)),
        }
    }

    pub(super) fn grace_ms(&self) -> u64 {
        self.shard.plane.gatehouse.sessions.orphan_grace_ms
    }

    /// Gives the exchange up once nobody can be expected to ask for its answer, or its session is
    /// being closed. A fault says that the work is not to be waited for any longer.
    fn look_after(&mut self, pause: Pause<'_>) -> Result<Option<Fault>, Broken> {
        if matches!(pause, Pause::Record) {
            return Ok(None);
        }
        let now_ms = self.shard.plane.now().mono_ms;
        if let Some(until_ms) = self.presence.until_ms {
            let over = now_ms >= until_ms || self.presence.untold.get();
            return Ok(over.then(|| self.why_over()));
        }
        if self.stay.closing.get() {
            let since_ms = *self.presence.closing_since_ms.get_or_insert(now_ms);
            let over = now_ms.saturating_sub(since_ms) >= millis(CLOSE_GRACE);
            return if over || self.presence.alone() {
                self.give_up(pause, now_ms)
            } else {
                Ok(None)
            };
        }
        let Some(since_ms) = self.presence.alone_since_ms else { return Ok(None) };
        if self.exchange.adopted() && !planted::on(Bug::GraceRunsOn) {
            // Should that one leave, too, the grace period begins anew.
            self.presence.alone_since_ms = Some(now_ms);
            return Ok(None);
        }
        let over = now_ms.saturating_sub(since_ms) >= self.grace_ms();
        if over { self.give_up(pause, now_ms) } else { Ok(None) }
    }

    fn give_up(&mut self, pause: Pause<'_>, now_ms: u64) -> Result<Option<Fault>, Broken> {
        let limit = if self.stay.closing.get() { CLOSE_GIVE_UP } else { GIVE_UP };
        self.presence.until_ms = Some(now_ms.saturating_add(millis(limit)));
        let request = if self.presence.alone() {
            self.shard.counters().orphans_given_up.add(1);
            self.step(Exchange::give_up)?
        } else {
            self.step(Exchange::cancel)?
        };
        let (Some(request), Pause::Engine(asked)) = (request, pause) else {
            return Ok(Some(self.why_over()));
        };
        // A call that still waits for its turn is known to no engine.
        let Some(engine) = asked.engine() else { return Ok(Some(self.why_over())) };
        let (shard, session) = (self.shard.clone(), self.stay.id.clone());
        let untold = self.presence.untold.clone();
        crate::rt::spawn(async move {
            if let Err(reason) = shard.pool.tell(engine, &session, &request).await {
                tracing::warn!(%session, %reason, "an engine does not give up on a call when told");
                untold.set(true);
            }
        });
        Ok(None)
    }

    /// Why the work is not waited for any longer. No reason to judge the session by.
    fn why_over(&self) -> Fault {
        if self.presence.alone() {
            let message = "the agent left and nobody asked again: the exchange was given up";
            return Fault::new(FaultKind::RequestTimeout, message);
        }
        let message = "the session is being closed: this call was cancelled";
        Fault::new(FaultKind::SessionClosed, message)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Resolves when a read would not wait. Takes nothing, so dropping it loses nothing. Never resolves
/// where it is not to watch, nor while enough was read ahead.
async fn readable(agent: &Connection, watches: bool) {
    if !watches || agent.unread.len() >= READ_AHEAD_BYTES {
        return pending().await;
    }
    // An error shows again when it is read.
    let _ = agent.stream.readable(false).await;
}
