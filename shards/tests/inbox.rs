//! The inbox of a shard under loom: every order in which threads can meet in it.

#![expect(clippy::unwrap_used, reason = "what surprises a test ends it")]

#[path = "../src/inbox.rs"]
#[expect(dead_code, reason = "a shard uses more of it")]
mod inbox;

/// What the inbox is made of here.
mod atoms {
    use std::collections::VecDeque;
    use std::task::Waker;

    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};

    /// A waker whose orders loom tries.
    pub(crate) struct AtomicWaker(loom::future::AtomicWaker);

    impl AtomicWaker {
        pub(crate) fn new() -> Self {
            Self(loom::future::AtomicWaker::new())
        }

        pub(crate) fn register(&self, waker: &Waker) {
            self.0.register_by_ref(waker);
        }

        pub(crate) fn wake(&self) {
            self.0.wake();
        }

        pub(crate) fn take(&self) -> Option<Waker> {
            self.0.take_waker()
        }
    }

    /// A queue that is right by a lock: the real one has tests of its own.
    pub(crate) struct ArrayQueue<T> {
        items: loom::sync::Mutex<VecDeque<T>>,
        room: usize,
    }

    impl<T> ArrayQueue<T> {
        pub(crate) fn new(room: usize) -> Self {
            Self { items: loom::sync::Mutex::new(VecDeque::new()), room }
        }

        pub(crate) fn push(&self, item: T) -> Result<(), T> {
            let mut items = self.items.lock().unwrap();
            if items.len() == self.room {
                return Err(item);
            }
            items.push_back(item);
            Ok(())
        }

        pub(crate) fn pop(&self) -> Option<T> {
            self.items.lock().unwrap().pop_front()
        }
    }
}

use std::future::poll_fn;
use std::task::Poll;

use inbox::Inbox;
use loom::sync::Arc;
use loom::thread;

#[test]
fn nothing_that_was_pushed_is_slept_through() {
    // All orders would take hours; a lost wake-up needs two switches at an odd place, not more.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let inbox = Arc::new(Inbox::new([2, 2]));
        let pushers = [0, 1].map(|queue| {
            let inbox = inbox.clone();
            thread::spawn(move || assert_eq!(inbox.push(queue, queue), Ok(())))
        });
        let mut seen = 0;
        // Hangs, which loom reports, where a wake-up is lost.
        loom::future::block_on(poll_fn(|cx| {
            inbox.register(cx.waker());
            for queue in [0, 1] {
                while inbox.pop(queue).is_some() {
                    seen += 1;
                }
            }
            if seen == 2 { Poll::Ready(()) } else { Poll::Pending }
        }));
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    });
}

#[test]
fn nothing_stays_behind_in_a_closed_inbox() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::new([2, 2]));
        // Whoever waits for an answer holds the other end of this.
        let item = Arc::new(());
        let pusher = {
            let (inbox, item) = (inbox.clone(), item.clone());
            thread::spawn(move || assert!(inbox.push(0, item).is_ok()))
        };
        inbox.close();
        pusher.join().unwrap();
        assert!(Arc::try_unwrap(item).is_ok(), "it was dropped, which answers it");
    });
}

#[test]
fn a_full_queue_gives_back_and_leaves_the_other_alone() {
    loom::model(|| {
        let inbox = Inbox::new([1, 1]);
        assert_eq!(
            (inbox.push(0, 1), inbox.push(0, 2), inbox.push(1, 3)),
            (Ok(()), Err(2), Ok(()))
        );
        assert_eq!((inbox.pop(0), inbox.pop(0), inbox.pop(1)), (Some(1), None, Some(3)));
    });
}
