//! HTTP POST of JSON, for hooks and evaluations: sent again where the other side is not there or
//! says 429 or 5xx, within one deadline.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::host::{Unset, expanded};
use crate::limits;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    /// The other side refuses it for good.
    #[error("{url} answered with status {status}: {body:?}")]
    Refused {
        /// Where.
        url: String,
        /// Its status.
        status: u16,
        /// How its answer begins.
        body: String,
    },
    /// It is not there, or broken, also when asked again.
    #[error("{url} gave no answer in {tries} tries; the last: {last}")]
    Unreachable {
        /// Where.
        url: String,
        /// How often it was asked.
        tries: u32,
        /// What the last try said.
        last: String,
    },
    /// A header asks for a variable that is not set.
    #[error(transparent)]
    Unset(#[from] Unset),
}

/// One try.
enum Tried {
    Answer(Vec<u8>),
    Refused(u16, String),
    Again(String),
}

/// Posts `body`; the answer's bytes. Header values may hold `${NAME}`.
pub(crate) async fn post(
    url: &str,
    headers: &BTreeMap<String, String>,
    body: &Value,
    deadline: Duration,
) -> Result<Vec<u8>, PostError> {
    let headers = expanded(headers)?;
    let body = body.to_string();
    let end = Instant::now() + deadline;
    let (mut pause, mut tries) = (limits::POST_PAUSE, 0);
    loop {
        tries += 1;
        let left = end.saturating_duration_since(Instant::now());
        let (to, with, what) = (url.to_owned(), headers.clone(), body.clone());
        let last = match apart(move || once(&to, &with, &what, left)).await {
            Tried::Answer(bytes) => return Ok(bytes),
            Tried::Refused(status, body) => {
                return Err(PostError::Refused { url: url.to_owned(), status, body });
            }
            Tried::Again(last) => last,
        };
        if tries == limits::POST_TRIES || Instant::now() + pause >= end {
            return Err(PostError::Unreachable { url: url.to_owned(), tries, last });
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

/// Sends on a thread of its own: one that nobody waits for any more holds up no exit.
async fn apart(send: impl FnOnce() -> Tried + Send + 'static) -> Tried {
    let (tell, told) = oneshot::channel();
    let thread = std::thread::Builder::new().name("post".to_owned());
    // Whoever was told may be gone.
    let started = thread.spawn(move || drop(tell.send(send())));
    if let Err(error) = started {
        return Tried::Again(format!("no thread to send it: {error}"));
    }
    told.await
        .unwrap_or_else(|_| Tried::Again("a bug in Rollgate: the thread broke off".to_owned()))
}

fn once(url: &str, headers: &BTreeMap<String, String>, body: &str, left: Duration) -> Tried {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(left))
        .build()
        .into();
    let mut request = agent.post(url).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut answer = match request.send(body) {
        Ok(answer) => answer,
        Err(error) => return Tried::Again(error.to_string()),
    };
    let status = answer.status().as_u16();
    let read = answer.body_mut().with_config().limit(limits::POST_ANSWER_BYTES).read_to_vec();
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) => return Tried::Again(format!("status {status}, then {error}")),
    };
    let head = || String::from_utf8_lossy(&bytes).chars().take(300).collect::<String>();
    match status {
        200..=299 => Tried::Answer(bytes),
        429 | 500..=599 => Tried::Again(format!("status {status}: {:?}", head())),
        _ => Tried::Refused(status, head()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
