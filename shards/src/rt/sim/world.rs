//! The world of one thread: everything that a run of the simulation consists of.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::task::Waker;

use super::disk::Disk;
use super::pipes::{End as PipeEnd, Pipes};
use super::rng::Rng;
use super::tasks;
use super::trace::Trace;

/// A process of the simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Process(pub u32);

/// How a process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// `kill -9`: what the kernel was given stays.
    Kill,
    /// The machine loses power: what was not synced may be lost.
    PowerLoss,
}

/// How rough the world is. Probabilities are in thousandths, per operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A read or write takes a part only.
    pub short: u32,
    /// A packet takes long.
    pub slow_packet: u32,
    /// A connection is reset when something is sent over it.
    pub reset: u32,
    /// A file operation takes long.
    pub slow_disk: u32,
    /// A write to a file fails in its middle.
    pub full_disk: u32,
    /// What arrives right after a read was given up is lost, as with a ring.
    pub lost_read: u32,
}

/// Called with what a process gives to the kernel for a connection.
pub(super) type Watch = Box<dyn FnMut(Process, &[u8])>;

pub(super) enum Event {
    Wake(Waker),
    /// The next packet on its way to this end arrives.
    Arrive(PipeEnd),
}

/// A simulated world. While it lives, this thread is in it.
pub struct World(());

pub(super) struct State {
    pub(super) now_ns: u64,
    pub(super) rng: Rng,
    pub(super) faults: Faults,
    pub(super) events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    pub(super) process: Process,
    pub(super) pipes: Pipes,
    pub(super) disk: Disk,
    pub(super) trace: Trace,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

impl World {
    /// An empty world of this seed. There must be no other one on this thread.
    pub fn new(seed: u64) -> Self {
        let state = State {
            // Away from zero, so that "a minute ago" can be said.
            now_ns: 3_600_000_000_000,
            rng: Rng(seed),
            faults: Faults::default(),
            events: BTreeMap::new(),
            next_event: 0,
            process: Process(0),
            pipes: Pipes::default(),
            disk: Disk::default(),
            trace: Trace::default(),
        };
        STATE.set(Some(state));
        World(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Tasks first: what they drop reaches for the rest.
        tasks::drop_all();
        drop(WATCH.take());
        drop(STATE.take());
    }
}

/// Uses the state for a moment. Nothing in here may wake, drop or poll a task.
pub(super) fn with<T>(take: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(|state| match state {
        Some(state) => take(state),
        None => no_world(),
    })
}

#[expect(clippy::panic, reason = "a test that uses the simulation outside of one is broken")]
fn no_world() -> ! {
    panic!("there is no simulated world on this thread")
}

/// Whether there is a world: what outlives one must not reach for it.
pub(super) fn is_there() -> bool {
    STATE.try_with(|state| state.try_borrow().is_ok_and(|state| state.is_some())).unwrap_or(false)
}

/// The process of the task that runs.
pub fn current_process() -> Process {
    with(|world| world.process)
}

/// From now on the world is this rough.
pub fn set_faults(faults: Faults) {
    with(|world| world.faults = faults);
}

/// Shows everything that processes give to the kernel for connections to `watch`, before it is on
/// its way.
pub fn watch_writes(watch: impl FnMut(Process, &[u8]) + 'static) {
    WATCH.set(Some(Box::new(watch)));
}

pub(super) fn show_write(bytes: &[u8]) {
    let process = current_process();
    // Taken out meanwhile: it may look at the world.
    if let Some(mut watch) = WATCH.take() {
        watch(process, bytes);
        WATCH.set(Some(watch));
    }
}

impl State {
    pub(super) fn at(&mut self, at_ns: u64, event: Event) -> (u64, u64) {
        self.next_event += 1;
        let key = (at_ns, self.next_event);
        self.events.insert(key, event);
        key
    }

    pub(super) fn note(&mut self, what: &'static str, numbers: [u64; 2]) {
        self.trace.note((self.now_ns, self.process), what, numbers);
    }
}
