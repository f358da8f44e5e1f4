//! Bytes of request bodies that are on their way in, of all connections of a shard: bounded.
//!
//! Where there is no room, whoever would read more waits for others to finish. One alone always goes
//! on: its own bound is `limits.body_bytes`.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::stream::within;
use crate::wake::Bell;

/// What all bodies under way hold.
#[derive(Default)]
pub(crate) struct Bodies {
    held_bytes: Cell<u64>,
    freed: Bell,
}

/// What one of them holds. Given back when dropped.
pub(crate) struct Held {
    bodies: Rc<Bodies>,
    bytes: u64,
}

impl Bodies {
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.get()
    }
}

impl Held {
    pub(crate) fn new(bodies: &Rc<Bodies>) -> Self {
        Self { bodies: bodies.clone(), bytes: 0 }
    }

    /// Takes note of how much it holds now.
    pub(crate) fn set(&mut self, bytes: u64) {
        let bodies = &self.bodies;
        bodies.held_bytes.set(bodies.held_bytes.get() - self.bytes + bytes);
        let freed = bytes < self.bytes;
        self.bytes = bytes;
        if freed {
            bodies.freed.ring();
        }
    }

    /// Waits until all together hold less than `most_bytes`; whether they do in time.
    pub(crate) async fn room(&self, most_bytes: u64, limit: Duration) -> bool {
        let bodies = &self.bodies;
        let fits = || {
            let held = bodies.held_bytes.get();
            held < most_bytes || held == self.bytes
        };
        fits() || within(limit, bodies.freed.until(fits)).await.is_some()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn one_alone_has_room_and_others_wait_until_it_is_done() {
        let bodies = Rc::new(Bodies::default());
        let (mut one, mut two) = (Held::new(&bodies), Held::new(&bodies));
        let room = |held: &Held| {
            let bell = bodies.freed.until(|| false);
            drop(bell);
            let waits = pin!(held.room(10, Duration::MAX));
            matches!(waits.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(true))
        };
        one.set(9);
        assert!(room(&one) && room(&two));
        one.set(30);
        assert!(room(&one), "it is alone");
        two.set(1);
        assert_eq!(bodies.held_bytes(), 31);
        drop(one);
        assert_eq!(bodies.held_bytes(), 1);
        assert!(room(&two));
        two.set(0);
        assert_eq!(bodies.held_bytes(), 0);
    }
}
