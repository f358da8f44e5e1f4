//! Requests and answers over connections of our own.
//!
//! HTTP/2: as many connections as it takes for no one to carry more streams than the server
//! allows. HTTP/1.1: one connection for each request that is under way, idle ones used again.

mod dial;
mod pool;
mod reply;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri};

use super::address::{Address, Origin};
use super::limits;
pub(super) use dial::Dialer;
use pool::{Link, Pool};
pub(super) use reply::{Answer, Reply};

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub method: Method,
    /// With its query, without the address's prefix.
    pub path: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
    /// Longest wait for the head of the answer.
    pub wait: Duration,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Lost {
    /// The server cannot have seen the request.
    #[error("{0}")]
    NotSent(String),
    /// It may have.
    #[error("{0}")]
    Unknown(String),
}

/// Connections to all servers.
#[derive(Debug)]
pub(super) struct Transport {
    dialer: Dialer,
    pools: Mutex<HashMap<Origin, Arc<Pool>>>,
}

impl Transport {
    pub fn new(dialer: Dialer) -> Self {
        Self { dialer, pools: Mutex::default() }
    }

    fn pool(&self, origin: &Origin) -> Arc<Pool> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.entry(origin.clone()).or_default().clone()
    }

    /// Closes what is idle to a server of which nothing more is wanted.
    pub fn forget(&self, origin: &Origin) {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).remove(origin);
    }

    /// Sends a request; the head of its answer, whose body is still to be read.
    pub async fn send(&self, address: &Address, call: &Call) -> Result<Reply, Lost> {
        let pool = self.pool(&address.origin);
        let mut last = Lost::NotSent("no connection was tried".to_owned());
        for _ in 0..limits::STALE_TRIES {
            let linking = pool.link(&self.dialer, &address.origin);
            // Many may wait for the same connection, or for their turn to make one.
            let within = call.wait.max(limits::DIAL);
            let Ok(link) = tokio::time::timeout(within, linking).await else {
                let what = format!("{} gives no connection in {within:?}", address.authority);
                return Err(Lost::NotSent(what));
            };
            let link = link?;
            let request = request(address, call, link.is_two())?;
            match tokio::time::timeout(call.wait, sent(link, request, &pool)).await {
                Ok(Ok(reply)) => return Ok(reply),
                // A connection that was closed while it was idle: the next one is fresh.
                Ok(Err(lost @ Lost::NotSent(_))) => last = lost,
                Ok(Err(lost)) => return Err(lost),
                Err(_) => {
                    let Address { authority, .. } = address;
                    let wait = call.wait.as_secs_f64();
                    let what = format!("{authority} did not answer within {wait:.1} s");
                    return Err(Lost::Unknown(what));
                }
            }
        }
        Err(last)
    }
}

async fn sent(link: Link, request: Request<Full<Bytes>>, pool: &Arc<Pool>) -> Result<Reply, Lost> {
    match link {
        Link::One(mut sender) => match sender.try_send_request(request).await {
            Ok(response) => Ok(Reply::one(response, sender, pool.clone())),
            Err(error) => Err(lost(error)),
        },
        Link::Two(mut sender, slot) => match sender.try_send_request(request).await {
            Ok(response) => Ok(Reply::two(response, slot)),
            Err(error) => Err(lost(error)),
        },
    }
}

fn lost(mut error: hyper::client::conn::TrySendError<Request<Full<Bytes>>>) -> Lost {
    let unsent = error.take_message().is_some();
    let what = told(error.error());
    if unsent { Lost::NotSent(what) } else { Lost::Unknown(what) }
}

/// An error with its causes, in one line.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn request(address: &Address, call: &Call, two: bool) -> Result<Request<Full<Bytes>>, Lost> {
    let Address { origin, authority, prefix, headers } = address;
    let scheme = if origin.https { "https" } else { "http" };
    let uri = match two {
        true => format!("{scheme}://{authority}{prefix}{}", call.path),
        false => format!("{prefix}{}", call.path),
    };
    let bad = |error: &dyn std::error::Error| Lost::NotSent(format!("{uri}: {error}"));
    let parsed: Uri = uri.parse().map_err(|error| bad(&error))?;
    let mut request = Request::new(Full::new(call.body.clone()));
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = parsed;
    let all: &mut HeaderMap = request.headers_mut();
    all.clone_from(headers);
    for (name, value) in &call.headers {
        all.insert(name.clone(), value.clone());
    }
    if !two {
        let host = HeaderValue::try_from(authority).map_err(|error| bad(&error))?;
        all.insert(HOST, host);
    }
    Ok(request)
}
