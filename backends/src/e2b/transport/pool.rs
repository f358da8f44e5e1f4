//! Connections to one server, and who may use them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};

use super::Lost;
use super::dial::{Dialed, Dialer};
use crate::e2b::address::Origin;
use crate::e2b::limits;

pub(super) type One = http1::SendRequest<Full<Bytes>>;
pub(super) type Two = http2::SendRequest<Full<Bytes>>;

/// The right to send one request.
pub(super) enum Link {
    One(One),
    Two(Two, Slot),
}

impl Link {
    pub fn is_two(&self) -> bool {
        matches!(self, Self::Two(..))
    }
}

/// One stream of an HTTP/2 connection; given back when dropped.
#[derive(Debug)]
pub(super) struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Debug, Default)]
pub(super) struct Pool {
    state: Mutex<State>,
    /// Held while an HTTP/2 connection is made, so that those who wait share it.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
enum State {
    /// Nobody connected yet.
    #[default]
    Unknown,
    /// Idle connections, the latest last.
    One(Vec<(One, Instant)>),
    /// Connections, and the streams that each has open.
    Two(Vec<(Two, Arc<AtomicUsize>)>),
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection with room for one request.
    pub async fn link(&self, dialer: &Dialer, origin: &Origin) -> Result<Link, Lost> {
        loop {
            match self.open() {
                Open::One(mut sender) => match sender.ready().await {
                    Ok(()) => return Ok(Link::One(sender)),
                    // It was closed while it was idle.
                    Err(_) => continue,
                },
                Open::Two(sender, slot) => return Ok(Link::Two(sender, slot)),
                Open::Another => match dialer.dial(origin).await? {
                    Dialed::One(sender) => return Ok(Link::One(sender)),
                    // The server changed its mind.
                    Dialed::Two(sender) => return Ok(self.adopt(sender)),
                },
                Open::Shared => {
                    let _turn = self.turn.lock().await;
                    match self.open() {
                        Open::Shared => {}
                        Open::Two(sender, slot) => return Ok(Link::Two(sender, slot)),
                        Open::One(_) | Open::Another => continue,
                    }
                    match dialer.dial(origin).await? {
                        Dialed::One(sender) => {
                            *self.state() = State::One(Vec::new());
                            return Ok(Link::One(sender));
                        }
                        Dialed::Two(sender) => return Ok(self.adopt(sender)),
                    }
                }
            }
        }
    }

    fn open(&self) -> Open {
        match &mut *self.state() {
            State::Unknown => Open::Shared,
            State::One(idle) => {
                let fresh = |since: &Instant| since.elapsed() < limits::IDLE_CONNECTION;
                while let Some((sender, since)) = idle.pop() {
                    if fresh(&since) && !sender.is_closed() {
                        return Open::One(sender);
                    }
                }
                Open::Another
            }
            State::Two(connections) => {
                connections.retain(|(sender, _)| !sender.is_closed());
                let room = |streams: &AtomicUsize| {
                    streams.load(Ordering::Acquire) < limits::STREAMS_PER_CONNECTION
                };
                match connections.iter().find(|(_, streams)| room(streams)) {
                    Some((sender, streams)) => {
                        // Counted under the lock, so that nobody takes the same room.
                        streams.fetch_add(1, Ordering::AcqRel);
                        Open::Two(sender.clone(), Slot(streams.clone()))
                    }
                    None => Open::Shared,
                }
            }
        }
    }

    fn adopt(&self, sender: Two) -> Link {
        let streams = Arc::new(AtomicUsize::new(1));
        let kept = (sender.clone(), streams.clone());
        match &mut *self.state() {
            State::Two(connections) => connections.push(kept),
            state => *state = State::Two(vec![kept]),
        }
        Link::Two(sender, Slot(streams))
    }

    /// Takes back a connection whose answer was read to its end.
    pub fn give_back(&self, sender: One) {
        if sender.is_closed() {
            return;
        }
        if let State::One(idle) = &mut *self.state()
            && idle.len() < limits::IDLE_CONNECTIONS
        {
            idle.push((sender, Instant::now()));
        }
    }
}

enum Open {
    One(One),
    Two(Two, Slot),
    /// One's own is to be made.
    Another,
    /// One is to be made that others use too.
    Shared,
}
