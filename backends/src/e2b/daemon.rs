//! The daemon in a sandbox: what went wrong, and its calls with one answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::address::{Address, with_query};
use super::control::message;
use super::limits;
use super::pause::asked;
use super::transport::{Answer, Call, Lost, Reply, Transport};

/// Why a call to a sandbox has no good answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// There is no such sandbox any more.
    #[error("the sandbox is gone: {0}")]
    Gone(String),
    /// The daemon said no.
    #[error("{code}: {message}")]
    Refused { code: String, message: String },
    /// Something between us and the daemon; may be over soon.
    #[error("{why}")]
    Passing { why: String, wait: Option<Duration> },
}

impl From<Lost> for Trouble {
    fn from(lost: Lost) -> Self {
        Self::passing(lost.to_string())
    }
}

impl Trouble {
    pub fn passing(why: impl Into<String>) -> Self {
        Self::Passing { why: why.into(), wait: None }
    }

    pub fn refused(code: &str, message: impl Into<String>) -> Self {
        Self::Refused { code: code.to_owned(), message: message.into() }
    }

    /// Whether the daemon knows no such process or file.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "not_found")
    }

    /// An error of the protocol by its code: some codes tell of a bad moment.
    pub fn coded(code: &str, message: &str) -> Self {
        match code {
            "unavailable" | "resource_exhausted" | "aborted" | "unknown" | "internal"
            | "canceled" => Self::passing(format!("{code}: {message}")),
            _ => Self::refused(code, message),
        }
    }

    /// What an answer other than 2xx means. Only the text tells one 502 from the other.
    pub fn answered(answer: &Answer) -> Self {
        let said = message(&answer.body);
        let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if let Some(code) = value["code"].as_str() {
            return Self::coded(code, &said);
        }
        let status = answer.status;
        match status.as_u16() {
            502 if said.to_ascii_lowercase().contains("not found") => Self::Gone(said),
            404 => Self::refused("not_found", said),
            408 | 429 | 500..=506 | 508..=599 => {
                let wait = asked(&answer.headers);
                Self::Passing { why: format!("{status}: {said}"), wait }
            }
            507 => Self::refused("disk_full", said),
            _ => Self::refused(status.as_str(), said),
        }
    }
}

/// The daemon of one sandbox.
#[derive(Debug)]
pub(super) struct Daemon {
    transport: Arc<Transport>,
    pub address: Address,
    user: Option<String>,
    octets: bool,
    /// Longest wait for the head of an answer.
    pub request: Duration,
}

impl Daemon {
    pub fn new(
        transport: Arc<Transport>,
        address: Address,
        user: Option<String>,
        version: Option<&str>,
        request: Duration,
    ) -> Self {
        let octets = version.is_some_and(|version| at_least(version, [0, 5, 7]));
        Self { transport, address, user, octets, request }
    }

    /// Headers of a call on behalf of this user; `None`: the configured one.
    pub fn as_user(&self, user: Option<&str>) -> Option<(HeaderName, HeaderValue)> {
        use base64::Engine as _;
        let user = user.or(self.user.as_deref())?;
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("{user}:"));
        Some((AUTHORIZATION, HeaderValue::try_from(format!("Basic {basic}")).ok()?))
    }

    pub async fn send(&self, call: &Call) -> Result<Reply, Trouble> {
        Ok(self.transport.send(&self.address, call).await?)
    }

    /// Writes a file; parents are made.
    pub async fn write(&self, path: &str, contents: &[u8]) -> Result<(), Trouble> {
        let (kind, body) = if self.octets {
            ("application/octet-stream".to_owned(), Bytes::copy_from_slice(contents))
        } else {
            form(contents)
        };
        let kind = HeaderValue::try_from(kind)
            .map_err(|error| Trouble::refused("invalid_argument", error.to_string()))?;
        let wait = self.request + transfer(contents.len());
        let path = self.files(path);
        let headers = vec![(CONTENT_TYPE, kind)];
        let call = Call { method: Method::POST, path, headers, body, wait };
        let answer = self.send(&call).await?.whole(limits::MESSAGE_BYTES, self.request).await?;
        match answer.status.is_success() {
            true => Ok(()),
            false => Err(Trouble::answered(&answer)),
        }
    }

    /// Reads a file of at most so many bytes.
    pub async fn read(&self, path: &str, cap_bytes: usize) -> Result<Read, Trouble> {
        let (path, wait) = (self.files(path), self.request);
        let call =
            Call { method: Method::GET, path, headers: Vec::new(), body: Bytes::new(), wait };
        let mut reply = self.send(&call).await?;
        match reply.status {
            status if status.is_success() => {}
            StatusCode::NOT_FOUND => return Ok(Read::Absent),
            _ => {
                let answer = reply.whole(limits::MESSAGE_BYTES, wait).await?;
                return Err(Trouble::answered(&answer));
            }
        }
        let reading = async {
            let mut contents = Vec::new();
            while let Some(piece) = reply.next(wait).await? {
                if contents.len() + piece.len() > cap_bytes {
                    return Ok(Read::TooLarge);
                }
                contents.extend_from_slice(&piece);
            }
            Ok(Read::Contents(contents))
        };
        // A body that comes a byte now and then is never silent, and never there.
        match tokio::time::timeout(wait + transfer(cap_bytes.min(1 << 30)), reading).await {
            Ok(read) => read,
            Err(_) => Err(Trouble::passing("a file came too slowly")),
        }
    }

    fn files(&self, path: &str) -> String {
        let mut query = vec![("path", path)];
        query.extend(self.user.as_deref().map(|user| ("username", user)));
        with_query("/files", &query)
    }
}

/// What reading a file came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Read {
    Contents(Vec<u8>),
    Absent,
    TooLarge,
}

/// Time that so many bytes may take.
pub(super) fn transfer(bytes: usize) -> Duration {
    Duration::from_secs(bytes as u64 / limits::BYTES_PER_SECOND)
}

/// An upload as older daemons take it.
fn form(contents: &[u8]) -> (String, Bytes) {
    // Long enough that no file has it by chance; one that has it on purpose harms only itself.
    let mark = "rollgate-7f3a9c51e2d84b06a1c9";
    let head = format!(
        "--{mark}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    let mut body = Vec::with_capacity(head.len() + contents.len() + mark.len() + 8);
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(contents);
    body.extend_from_slice(format!("\r\n--{mark}--\r\n").as_bytes());
    (format!("multipart/form-data; boundary={mark}"), body.into())
}

/// Whether a version such as `0.5.7` or `v0.6.13-x` is at least this one.
fn at_least(version: &str, least: [u32; 3]) -> bool {
    let digits = |part: &str| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part.get(..end).and_then(|digits| digits.parse::<u32>().ok()).unwrap_or(0)
    };
    let mut parts = version.trim_start_matches('v').split('.').map(digits);
    let version = [(); 3].map(|()| parts.next().unwrap_or(0));
    version >= least
}

/// Headers of every call to the daemon's services.
pub(super) fn add(headers: &mut Vec<(HeaderName, HeaderValue)>, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.push((HeaderName::from_static(name), value));
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderMap;

    use super::*;

    fn check(status: u16, body: &str, want: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        let body_bytes = Bytes::copy_from_slice(body.as_bytes());
        let answer = Answer { status, headers: HeaderMap::new(), body: body_bytes };
        let said = match Trouble::answered(&answer) {
            Trouble::Gone(_) => "gone".to_owned(),
            Trouble::Refused { code, .. } => code,
            Trouble::Passing { .. } => "passing".to_owned(),
        };
        assert_eq!(said, want, "{status} {body}");
    }

    #[test]
    fn answers_are_told_apart_by_status_code_and_text() {
        check(502, r#"{"sandboxId":"a","message":"The sandbox was not found","code":502}"#, "gone");
        check(502, r#"{"message":"The sandbox is running but port is not open"}"#, "passing");
        check(502, "<html>bad gateway</html>", "passing");
        check(404, r#"{"code":"not_found","message":"no process"}"#, "not_found");
        check(503, r#"{"code":"unavailable","message":"x"}"#, "passing");
        check(401, r#"{"code":"unauthenticated","message":"x"}"#, "unauthenticated");
        check(400, r#"{"code":400,"message":"is a directory"}"#, "400");
        check(507, "full", "disk_full");
        check(429, "", "passing");
    }

    #[test]
    fn versions_are_compared_by_numbers() {
        assert!(at_least("0.6.13", [0, 5, 7]));
        assert!(at_least("v0.5.7-rc1", [0, 5, 7]));
        assert!(!at_least("0.5.6", [0, 5, 7]));
        assert!(at_least("1", [0, 5, 7]));
        assert!(!at_least("unknown", [0, 5, 7]));
    }
}
