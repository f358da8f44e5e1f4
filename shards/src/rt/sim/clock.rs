//! Virtual time: it passes only when nobody has anything to do.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::LazyLock;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};

use super::world::{Event, is_there, with};

/// What all instants of simulations are counted from. Only differences are ever looked at.
#[expect(clippy::disallowed_methods, reason = "an arbitrary point to count from")]
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Milliseconds since the epoch at which simulations begin.
const WALL_MS: u64 = 1_760_000_000_000;

/// Nanoseconds of virtual time.
pub fn now_ns() -> u64 {
    with(|world| world.now_ns)
}

/// Resolves once so much time has passed.
pub async fn sleep(time: Duration) {
    let until = now_ns().saturating_add(nanos(time));
    let mut timer = Timer(None);
    poll_fn(|cx| {
        timer.clear();
        with(|world| {
            if world.now_ns >= until {
                return Poll::Ready(());
            }
            timer.0 = Some(world.at(until, Event::Wake(cx.waker().clone())));
            Poll::Pending
        })
    })
    .await;
}

/// The outcome of `work`, or an error when it takes longer.
pub async fn timeout<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, Late> {
    match select(pin!(work), pin!(sleep(limit))).await {
        Either::Left((done, _)) => Ok(done),
        Either::Right(_) => Err(Late),
    }
}

/// It took longer.
#[derive(Clone, Copy, Debug)]
pub struct Late;

/// Now, by a clock that never goes back.
pub(crate) fn now() -> Instant {
    *EPOCH + Duration::from_nanos(now_ns())
}

/// Milliseconds since the epoch.
pub(crate) fn wall_ms() -> u64 {
    WALL_MS + now_ns() / 1_000_000
}

/// An event that is taken back when nobody waits for it any more.
struct Timer(Option<(u64, u64)>);

impl Timer {
    fn clear(&mut self) {
        if let Some(key) = self.0.take()
            && is_there()
        {
            // Dropped outside: wakers may drop tasks.
            drop(with(|world| world.events.remove(&key)));
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.clear();
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
