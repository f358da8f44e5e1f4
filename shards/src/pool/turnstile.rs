//! Which engine has a call, and when: choice, room and queue of one shard.
//!
//! Each shard has its own part of what an engine takes at once ([`crate::engine::Engine::share`]), so
//! the sum keeps the engine's bound and shards share nothing here. Where no engine has room, calls
//! wait, and the next room goes to the session whose turn it is, at whatever engine it is.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use futures_channel::oneshot;
use rollgate_pipeline::id::ShardIndex;
use rollgate_pipeline::planted::{self, Bug};

use super::affinity::{self, Candidate};
use super::health::Rank;
use super::meter::Meter;
use super::queue::FairQueue;
use crate::plane::Plane;
use crate::rt::time::now;
use crate::stats::Counters;

/// Room for calls at the engines.
pub(crate) struct Turnstile {
    plane: Arc<Plane>,
    shard: ShardIndex,
    places: Vec<Place>,
    queue: RefCell<FairQueue<u128, oneshot::Sender<Permit>>>,
}

/// One engine.
struct Place {
    key: u64,
    /// Calls that this shard may have there at once.
    room: usize,
    load: Cell<usize>,
}

/// Room for one call at one engine; given back when dropped.
pub(crate) struct Permit {
    turnstile: Option<Rc<Turnstile>>,
    pub(crate) engine: usize,
}

/// Too many calls wait already.
#[derive(Debug)]
pub(crate) struct Full;

impl Turnstile {
    pub(crate) fn new(plane: Arc<Plane>, shard: ShardIndex) -> Rc<Self> {
        let shards = plane.shards();
        let place = |engine: &crate::engine::Engine| Place {
            key: affinity::key(&engine.url),
            room: engine.share(shards, shard),
            load: Cell::new(0),
        };
        let places = plane.engines.iter().map(place).collect();
        Rc::new(Self { plane, shard, places, queue: RefCell::new(FairQueue::new()) })
    }

    /// Room for a call of this session, and how long it waited, in milliseconds. Engines in `failed`
    /// have it only where no other will do.
    pub(crate) async fn take(
        self: &Rc<Self>,
        session: u128,
        failed: &[usize],
    ) -> Result<(Permit, u64), Full> {
        let waiting = self.queue.borrow().len();
        if waiting == 0
            && let Some(engine) = self.choose(session, failed)
        {
            return Ok((self.permit(engine), 0));
        }
        if waiting >= self.plane.limits().engine_queue as usize {
            self.counters().engine_queue_full.add(1);
            return Err(Full);
        }
        let (sender, receiver) = oneshot::channel();
        let ticket = self.queue.borrow_mut().push(session, sender);
        let seat = Seat { turnstile: self, session, ticket };
        self.gauge();
        // Room may be left that was no use to those who wait.
        self.pump();
        let since = now();
        let permit = receiver.await;
        drop(seat);
        let waited_ms =
            u64::try_from(now().saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX);
        let counters = self.counters();
        counters.engine_waits.add(1);
        counters.engine_wait_ms.add(waited_ms);
        counters.engine_wait_longest_ms.raise(waited_ms);
        // The sender is in the queue, or was used: its end without a word cannot be.
        permit.map(|permit| (permit, waited_ms)).map_err(|_| Full)
    }

    /// Whether an engine that did not fail this call is worth a try.
    pub(crate) fn has_other(&self, failed: &[usize]) -> bool {
        let now_ms = self.plane.now().mono_ms;
        let healths = self.plane.healths.iter().enumerate();
        healths.into_iter().any(|(engine, health)| {
            self.places[engine].room > 0
                && health.rank(now_ms) < Rank::Last
                && !failed.contains(&engine)
        })
    }

    /// Lets those who wait through, as far as there is room.
    pub(crate) fn pump(self: &Rc<Self>) {
        loop {
            let next = self.queue.borrow().next();
            let Some(session) = next else { return };
            let Some(engine) = self.choose(session, &[]) else { return };
            let sender = self.queue.borrow_mut().pop();
            self.gauge();
            let Some(sender) = sender else { return };
            if let Err(mut unwanted) = sender.send(self.permit(engine)) {
                // Gone meanwhile. What its drop would do is done by this loop.
                unwanted.turnstile = None;
                if !planted::on(Bug::PermitLost) {
                    self.free(engine);
                }
            }
        }
    }

    /// The engine for the session's next call, where one has room. A trial that is due is taken.
    fn choose(&self, session: u128, failed: &[usize]) -> Option<usize> {
        // Those that may be had, best first: well; its calls failed; the same of those that failed
        // this very call; and the rest, where there are no others.
        const GOOD: usize = 4;
        let now_ms = self.plane.now().mono_ms;
        let tier = |engine: usize| match (self.plane.healths[engine].rank(now_ms), failed) {
            (Rank::First, failed) => 2 * usize::from(failed.contains(&engine)),
            (Rank::Second, failed) => 1 + 2 * usize::from(failed.contains(&engine)),
            (Rank::Last, failed) => GOOD + usize::from(failed.contains(&engine)),
        };
        let open = || (0..self.places.len()).filter(|engine| self.places[*engine].room > 0);
        let best = open().map(tier).min()?;
        let last = if best < GOOD { GOOD } else { GOOD + 2 };
        for wanted in best..last {
            let candidates = open().filter(|engine| tier(*engine) == wanted).map(|engine| {
                let place = &self.places[engine];
                Candidate { engine, key: place.key, room: place.room, load: place.load.get() }
            });
            if let Some(engine) = affinity::choose(session, candidates)
                && self.plane.healths[engine].admit(now_ms)
            {
                return Some(engine);
            }
        }
        None
    }

    fn permit(self: &Rc<Self>, engine: usize) -> Permit {
        let place = &self.places[engine];
        place.load.set(place.load.get() + 1);
        self.meter(engine).in_flight.add(1);
        Permit { turnstile: Some(self.clone()), engine }
    }

    fn free(&self, engine: usize) {
        let place = &self.places[engine];
        place.load.set(place.load.get().saturating_sub(1));
        self.meter(engine).in_flight.sub(1);
    }

    fn gauge(&self) {
        let len = u64::try_from(self.queue.borrow().len()).unwrap_or(u64::MAX);
        self.counters().engine_queue.set(len);
    }

    fn counters(&self) -> &Counters {
        &self.plane.door(self.shard).counters
    }

    fn meter(&self, engine: usize) -> &Meter {
        &self.plane.meters[usize::from(self.shard.0)][engine]
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(turnstile) = self.turnstile.take() else { return };
        turnstile.free(self.engine);
        turnstile.pump();
    }
}

/// Leaves the queue when the one who waits is dropped.
struct Seat<'a> {
    turnstile: &'a Turnstile,
    session: u128,
    ticket: u64,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if planted::on(Bug::PermitLost) {
            return;
        }
        self.turnstile.queue.borrow_mut().leave(self.session, self.ticket);
        self.turnstile.gauge();
    }
}
