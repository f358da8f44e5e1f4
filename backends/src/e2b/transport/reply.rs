//! An answer: its head at once, its body in pieces.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Response, StatusCode};

use super::pool::{One, Pool, Slot};
use super::{Lost, told};

/// An answer whose body is still to be read. Dropped before its end, it takes its HTTP/1.1
/// connection, or its HTTP/2 stream, along.
#[derive(Debug)]
pub(in crate::e2b) struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    one: Option<(One, Arc<Pool>)>,
    _slot: Option<Slot>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub(in crate::e2b) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub(super) fn one(response: Response<Incoming>, sender: One, pool: Arc<Pool>) -> Self {
        Self::new(response, Some((sender, pool)), None)
    }

    pub(super) fn two(response: Response<Incoming>, slot: Slot) -> Self {
        Self::new(response, None, Some(slot))
    }

    fn new(
        response: Response<Incoming>,
        one: Option<(One, Arc<Pool>)>,
        slot: Option<Slot>,
    ) -> Self {
        let (head, body) = response.into_parts();
        Self { status: head.status, headers: head.headers, body, one, _slot: slot }
    }

    /// The next piece of the body; `None` at its end. Silence for longer than `idle` is a loss.
    pub async fn next(&mut self, idle: Duration) -> Result<Option<Bytes>, Lost> {
        loop {
            let Ok(frame) = tokio::time::timeout(idle, self.body.frame()).await else {
                let idle = idle.as_secs_f64();
                return Err(Lost::Unknown(format!("no byte came for {idle:.1} s")));
            };
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(error)) => return Err(Lost::Unknown(told(&error))),
                None => {
                    if let Some((sender, pool)) = self.one.take() {
                        pool.give_back(sender);
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// The whole answer, of at most so many bytes, within this time.
    pub async fn whole(mut self, cap_bytes: usize, within: Duration) -> Result<Answer, Lost> {
        let reading = async {
            let mut body = BytesMut::new();
            while let Some(piece) = self.next(within).await? {
                if body.len() + piece.len() > cap_bytes {
                    return Err(Lost::Unknown(format!("the answer is over {cap_bytes} bytes")));
                }
                body.extend_from_slice(&piece);
            }
            Ok(body.freeze())
        };
        match tokio::time::timeout(within, reading).await {
            Ok(body) => Ok(Answer { status: self.status, headers: self.headers, body: body? }),
            Err(_) => {
                let within = within.as_secs_f64();
                Err(Lost::Unknown(format!("the answer took longer than {within:.1} s")))
            }
        }
    }
}
