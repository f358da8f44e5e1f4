//! A one-way switch that a task can wait for, within a thread or across threads.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use atomic_waker::AtomicWaker;

/// Off until it is raised; one task at a time can wait for it.
#[derive(Default)]
pub(super) struct Signal {
    raised: AtomicBool,
    waiting: AtomicWaker,
}

impl Signal {
    /// Switches it on and wakes who waits.
    pub(super) fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        self.waiting.wake();
    }

    /// Whether it is on.
    pub(super) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Waits until it is on.
    pub(super) async fn wait(&self) {
        poll_fn(|context| {
            self.waiting.register(context.waker());
            if self.is_raised() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
