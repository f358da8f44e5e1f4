//! Turns within a shard: a connection that always has something to do lets others do theirs.
//!
//! A read or write that need not wait does not give way by itself.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

use crate::bounds::{BYTES_AT_ONCE, REQUESTS_AT_ONCE};

/// What a connection has done since it last gave way.
#[derive(Default)]
pub(crate) struct Turns {
    bytes: Cell<usize>,
    requests: Cell<usize>,
}

impl Turns {
    /// So many bytes were read.
    pub(crate) async fn read(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        self.give_way().await;
    }

    /// A request was answered.
    pub(crate) async fn answered(&self) {
        self.requests.set(self.requests.get() + 1);
        self.give_way().await;
    }

    async fn give_way(&self) {
        if self.bytes.get() < BYTES_AT_ONCE && self.requests.get() < REQUESTS_AT_ONCE {
            return;
        }
        self.bytes.set(0);
        self.requests.set(0);
        let mut gave = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut gave, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// How often `work` gives way.
    fn waits(work: impl Future<Output = ()>) -> usize {
        let mut work = pin!(work);
        let mut waits = 0;
        while work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            waits += 1;
        }
        waits
    }

    #[test]
    fn a_long_body_and_many_requests_give_way() {
        let turns = Turns::default();
        let body = async {
            for _ in 0..10 {
                turns.read(BYTES_AT_ONCE / 2).await;
            }
        };
        assert_eq!(waits(body), 5);
        let requests = async {
            for _ in 0..3 * REQUESTS_AT_ONCE {
                turns.read(1).await;
                turns.answered().await;
            }
        };
        assert_eq!(waits(requests), 3);
    }
}
