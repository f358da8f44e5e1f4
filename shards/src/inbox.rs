//! How other threads reach a shard: bounded queues, one coalesced wake-up, and an end at which
//! nothing is left behind.
//!
//! `shards/tests/inbox.rs` tries every order in which threads can meet here.

use std::task::Waker;

use super::atoms::{ArrayQueue, AtomicBool, AtomicWaker, Ordering};

/// Two queues, so that neither kind of thing can starve the other.
pub(crate) struct Inbox<T> {
    queues: [ArrayQueue<T>; 2],
    /// Wakes the shard's loop; many wakes before it looks are one.
    waker: AtomicWaker,
    closed: AtomicBool,
}

impl<T> Inbox<T> {
    /// With room for so many in each queue.
    pub(crate) fn new(rooms: [usize; 2]) -> Self {
        Self {
            queues: rooms.map(ArrayQueue::new),
            waker: AtomicWaker::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Queues it and wakes the shard. A full queue gives it back.
    pub(crate) fn push(&self, queue: usize, item: T) -> Result<(), T> {
        self.queues[queue].push(item)?;
        self.waker.wake();
        // The shard closes before it empties a last time, so one of us sees this.
        if self.closed.load(Ordering::SeqCst) {
            self.empty();
        }
        Ok(())
    }

    /// For the shard's own thread: the next thing of a queue.
    pub(crate) fn pop(&self, queue: usize) -> Option<T> {
        self.queues[queue].pop()
    }

    /// For the shard's own thread, before it looks: whom to wake.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Lets the shard look again.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// For the shard's own thread. Nothing will be taken any more; what waits is dropped.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // Tasks of this shard must not be woken, or dropped, by another thread from now on.
        drop(self.waker.take());
        self.empty();
    }

    fn empty(&self) {
        for queue in &self.queues {
            while queue.pop().is_some() {}
        }
    }
}
