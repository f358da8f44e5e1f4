//! Kept connections to one engine.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use rollgate_pipeline::limits::ENGINE_IDLE_CONNECTIONS;

use crate::rt::net::TcpStream;
use crate::rt::time::now;
use crate::stream::is_quiet;

/// One engine, as one shard speaks to it.
#[derive(Default)]
pub(crate) struct Lane {
    /// The one used last is at the end: the others grow old and are closed.
    idle: RefCell<Vec<(TcpStream, Instant)>>,
    /// Calls in a row that failed.
    pub(crate) strikes: Cell<u32>,
}

impl Lane {
    /// A connection on which nothing was heard since its last reply and that is younger than
    /// `limit`. The engine may close it at the same moment even so.
    pub(crate) fn take(&self, limit: Duration) -> Option<TcpStream> {
        let mut idle = self.idle.borrow_mut();
        while let Some((stream, since)) = idle.pop() {
            if now().saturating_duration_since(since) >= limit {
                // All others are older.
                idle.clear();
            } else if is_quiet(&stream) {
                return Some(stream);
            }
        }
        None
    }

    /// Keeps a connection whose reply was read to its end.
    pub(crate) fn put(&self, stream: TcpStream) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < ENGINE_IDLE_CONNECTIONS {
            idle.push((stream, now()));
        }
    }

    /// The engine closes connections: those that are left are likely to be next.
    pub(crate) fn forget(&self) {
        self.idle.borrow_mut().clear();
    }

    /// Closes what is too old.
    pub(crate) fn trim(&self, limit: Duration) {
        self.idle.borrow_mut().retain(|(_, since)| now().saturating_duration_since(*since) < limit);
    }
}
