//! Waiting within one shard: a bell that many may wait for, and permits handed out in turn.
//!
//! Nothing here is shared between threads.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use futures_channel::oneshot;

/// Wakes all who wait, whenever something they may wait for has changed.
#[derive(Default)]
pub(crate) struct Bell {
    /// By order of arrival.
    waiting: RefCell<BTreeMap<u64, Waker>>,
    next: Cell<u64>,
}

impl Bell {
    /// Lets everyone who waits look again.
    pub(crate) fn ring(&self) {
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_values().for_each(Waker::wake);
    }

    /// Waits until `holds`, looking again at each ring.
    pub(crate) async fn until(&self, mut holds: impl FnMut() -> bool) {
        let id = self.next.replace(self.next.get().wrapping_add(1));
        let _seat = Seat { bell: self, id };
        poll_fn(|cx| {
            if holds() {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().insert(id, cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Forgets the waker of one who stopped waiting.
struct Seat<'a> {
    bell: &'a Bell,
    id: u64,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.bell.waiting.borrow_mut().remove(&self.id);
    }
}

/// A number of permits, given out first come, first served.
pub(crate) struct Permits {
    free: Cell<usize>,
    queue: RefCell<VecDeque<oneshot::Sender<Permit>>>,
}

/// One permit; given back when dropped.
pub(crate) struct Permit {
    from: Option<Rc<Permits>>,
}

impl Permits {
    pub(crate) fn new(count: usize) -> Rc<Self> {
        Rc::new(Self { free: Cell::new(count), queue: RefCell::default() })
    }

    /// Waits for its turn.
    pub(crate) async fn take(self: &Rc<Self>) -> Permit {
        if self.free.get() > 0 {
            self.free.set(self.free.get() - 1);
            return Permit { from: Some(self.clone()) };
        }
        let (sender, receiver) = oneshot::channel();
        self.queue.borrow_mut().push_back(sender);
        // The sender lives in a queue that we keep alive, and is only dropped after use.
        receiver.await.unwrap_or(Permit { from: None })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(permits) = self.from.take() else { return };
        loop {
            let next = permits.queue.borrow_mut().pop_front();
            let Some(next) = next else { break };
            match next.send(Permit { from: Some(permits.clone()) }) {
                Ok(()) => return,
                // Gone meanwhile. The permit must not come back through its own drop.
                Err(mut unwanted) => unwanted.from = None,
            }
        }
        permits.free.set(permits.free.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn permits_are_given_in_turn_and_skip_those_who_left() {
        let permits = Permits::new(1);
        let first = match poll(pin!(permits.take())) {
            Poll::Ready(permit) => permit,
            Poll::Pending => panic!("one permit is free"),
        };
        let mut third = Box::pin(permits.take());
        {
            let mut second = Box::pin(permits.take());
            assert!(poll(second.as_mut()).is_pending());
            assert!(poll(third.as_mut()).is_pending());
        }
        drop(first);
        let held = poll(third.as_mut());
        assert!(held.is_ready(), "the one who left is skipped");
        assert_eq!(permits.free.get(), 0);
        drop(held);
        assert_eq!(permits.free.get(), 1);
    }

    #[test]
    fn a_bell_lets_all_look_again_and_forgets_those_who_left() {
        let (bell, open) = (Bell::default(), Cell::new(false));
        let mut one = Box::pin(bell.until(|| open.get()));
        assert!(poll(one.as_mut()).is_pending());
        {
            let mut two = Box::pin(bell.until(|| open.get()));
            assert!(poll(two.as_mut()).is_pending());
            assert_eq!(bell.waiting.borrow().len(), 2);
        }
        assert_eq!(bell.waiting.borrow().len(), 1);
        open.set(true);
        bell.ring();
        assert!(poll(one.as_mut()).is_ready());
    }
}
