//! Calls to the API: which failures are tried again, and when.

use std::io::BufReader;
use std::time::Duration;

use serde_json::Value;
use ureq::http::Response;

use super::AgentError;
use super::reply::{self, Reply, Unread};

/// Tries after the first one.
const RETRIES: u32 = 5;
/// Wait before the first retry; doubles with each.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// Longest wait that a server may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest reply that is read, in bytes.
const REPLY_BYTES: u64 = 256 << 20;
/// Longest quotation of an error body, in characters.
const QUOTE_CHARS: usize = 500;

/// Where the API is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Endpoint {
    pub base_url: String,
    pub key: String,
}

/// The API, with a connection kept open between calls.
pub(super) struct Api {
    url: String,
    authorization: String,
    http: ureq::Agent,
}

/// One try that failed.
enum Failure {
    Again { why: String, wait: Option<Duration> },
    Final(String),
}

impl Api {
    pub fn new(endpoint: Endpoint) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            // Only the given base URL is meant; a proxy of the machine would see the key.
            .proxy(None)
            .build();
        Self {
            url: format!("{}/chat/completions", endpoint.base_url.trim_end_matches('/')),
            authorization: format!("Bearer {}", endpoint.key),
            http: config.new_agent(),
        }
    }

    /// Sends a request until it is answered, refused for good, or tried often enough.
    pub fn ask(&self, request: &Value) -> Result<Reply, AgentError> {
        let mut backoff = FIRST_BACKOFF;
        let mut tries = 0;
        loop {
            tries += 1;
            match self.once(request) {
                Ok(reply) => return Ok(reply),
                Err(Failure::Final(why)) => return Err(AgentError::Api(self.blame(&why))),
                Err(Failure::Again { why, .. }) if tries > RETRIES => {
                    let text = format!("{}; gave up after {tries} tries", self.blame(&why));
                    return Err(AgentError::Api(text));
                }
                Err(Failure::Again { wait, .. }) => {
                    std::thread::sleep(wait.unwrap_or(backoff).min(LONGEST_WAIT));
                    backoff *= 2;
                }
            }
        }
    }

    fn blame(&self, why: &str) -> String {
        format!("{}: {why}", self.url)
    }

    fn once(&self, request: &Value) -> Result<Reply, Failure> {
        let sent = self
            .http
            .post(&self.url)
            .header("authorization", &self.authorization)
            .send_json(request);
        let mut response = sent.map_err(|error| failed(&error))?;
        let status = response.status().as_u16();
        if status != 200 {
            let why = format!("status {status}: {}", quote(&mut response));
            let wait = retry_after(&response);
            return Err(match status {
                429 | 503 => Failure::Again { why, wait },
                _ => Failure::Final(why),
            });
        }
        let streamed = response
            .headers()
            .get("content-type")
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        let body = response.body_mut().with_config().limit(REPLY_BYTES);
        let read = if streamed {
            reply::stream(BufReader::new(body.reader()))
        } else {
            let body = body.read_to_vec();
            reply::whole(&body.map_err(|error| failed(&error))?)
        };
        read.map_err(|unread| match unread {
            Unread::Broken(why) => Failure::Again { why, wait: None },
            Unread::Wrong(why) => Failure::Final(why),
        })
    }
}

/// Broken connections are tried again; a wrong URL is not.
fn failed(error: &ureq::Error) -> Failure {
    let why = error.to_string();
    match error {
        ureq::Error::Io(_)
        | ureq::Error::Timeout(_)
        | ureq::Error::ConnectionFailed
        | ureq::Error::HostNotFound
        | ureq::Error::Protocol(_) => Failure::Again { why, wait: None },
        _ => Failure::Final(why),
    }
}

fn retry_after(response: &Response<ureq::Body>) -> Option<Duration> {
    let value = response.headers().get("retry-after")?.to_str().ok()?;
    let seconds = value.trim().parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The error's message, or the start of whatever the body is.
fn quote(response: &mut Response<ureq::Body>) -> String {
    let body = response.body_mut().read_to_string();
    let body = body.unwrap_or_else(|error| format!("(unreadable body: {error})"));
    let message = serde_json::from_str::<Value>(&body).ok();
    let message = message.as_ref().and_then(|body| body.get("error")?.get("message")?.as_str());
    message.unwrap_or(&body).chars().take(QUOTE_CHARS).collect()
}
