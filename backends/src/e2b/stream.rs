//! Streams of a process's events: started or attached to, read until their end or their loss.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::daemon::{Daemon, Trouble, add};
use super::limits;
use super::transport::{Call, Reply};

/// Bytes before the payload of an envelope.
const HEAD_BYTES: usize = 5;
/// Flags of an envelope.
const COMPRESSED: u8 = 1;
const LAST: u8 = 2;

/// What a process said or did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Started,
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// How it ended; 0 when all is well.
    Ended {
        code: i32,
        error: Option<String>,
    },
    Alive,
}

/// A process to be started.
#[derive(Clone, Debug)]
pub(super) struct Start<'a> {
    pub argv: &'a [String],
    pub env: &'a [(String, String)],
    pub tag: &'a str,
    /// Past this the server ends it.
    pub limit: Duration,
    /// `None`: the configured one.
    pub user: Option<&'a str>,
}

/// Events on their way.
#[derive(Debug)]
pub(super) struct Events {
    reply: Reply,
    buffer: BytesMut,
    idle: Duration,
}

impl Daemon {
    /// Starts a process.
    pub async fn start(&self, start: &Start<'_>, keepalive: Duration) -> Result<Events, Trouble> {
        let (program, args) = start.argv.split_first().ok_or_else(|| {
            Trouble::refused("invalid_argument", "a command needs at least a program")
        })?;
        let envs: serde_json::Map<String, Value> =
            start.env.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let request = json!({
            "process": {"cmd": program, "args": args, "envs": envs},
            "tag": start.tag,
            "stdin": false,
        });
        let limit = start.limit.as_millis().to_string();
        self.events("Start", &request, start.user, Some(&limit), keepalive).await
    }

    /// Attaches to a process that runs, or ended a short while ago.
    pub async fn attach(&self, tag: &str, keepalive: Duration) -> Result<Events, Trouble> {
        let request = json!({"process": {"tag": tag}});
        self.events("Connect", &request, None, None, keepalive).await
    }

    async fn events(
        &self,
        method: &str,
        request: &Value,
        user: Option<&str>,
        limit_ms: Option<&str>,
        keepalive: Duration,
    ) -> Result<Events, Trouble> {
        let mut headers =
            vec![(CONTENT_TYPE, HeaderValue::from_static("application/connect+json"))];
        add(&mut headers, "connect-protocol-version", "1");
        add(&mut headers, "keepalive-ping-interval", &keepalive.as_secs().max(1).to_string());
        if let Some(limit) = limit_ms {
            add(&mut headers, "connect-timeout-ms", limit);
        }
        headers.extend(self.as_user(user));
        let call = Call {
            method: Method::POST,
            path: format!("/process.Process/{method}"),
            headers,
            body: envelope(request),
            wait: self.request,
        };
        let reply = self.send(&call).await?;
        if !reply.status.is_success() {
            let answer = reply.whole(limits::MESSAGE_BYTES, self.request).await?;
            return Err(Trouble::answered(&answer));
        }
        // The daemon gives a sign of life every keepalive; one may be late, two are not.
        Ok(Events { reply, buffer: BytesMut::new(), idle: keepalive.max(SECOND) * 2 })
    }
}

const SECOND: Duration = Duration::from_secs(1);

impl Events {
    /// The next event; `None` at the end that the server announced. A stream that just stops is a
    /// loss, not an end.
    pub async fn next(&mut self) -> Result<Option<Event>, Trouble> {
        loop {
            if let Some((flags, payload)) = taken(&mut self.buffer)? {
                if flags & COMPRESSED != 0 {
                    return Err(Trouble::passing("the server compresses, which was not asked for"));
                }
                if flags & LAST != 0 {
                    self.drain().await;
                    return ended(&payload);
                }
                if let Some(event) = event(&payload)? {
                    return Ok(Some(event));
                }
                continue;
            }
            match self.reply.next(self.idle).await? {
                Some(piece) => self.buffer.extend_from_slice(&piece),
                None => return Err(Trouble::passing("the stream stopped without its end")),
            }
        }
    }

    /// Reads to the end of the body, so that its connection can be used again.
    async fn drain(&mut self) {
        while let Ok(Some(_)) = self.reply.next(SECOND).await {}
    }
}

fn envelope(message: &Value) -> Bytes {
    let payload = message.to_string();
    let mut bytes = BytesMut::with_capacity(HEAD_BYTES + payload.len());
    bytes.put_u8(0);
    // A request is far from 4 GiB: arguments are bounded by the kernel of the sandbox.
    bytes.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    bytes.put_slice(payload.as_bytes());
    bytes.freeze()
}

/// Takes one whole envelope off the buffer.
fn taken(buffer: &mut BytesMut) -> Result<Option<(u8, Bytes)>, Trouble> {
    let Some(mut head) = buffer.get(..HEAD_BYTES) else { return Ok(None) };
    let (flags, length) = (head.get_u8(), head.get_u32() as usize);
    if length > limits::ENVELOPE_BYTES {
        return Err(Trouble::passing(format!("an envelope claims {length} bytes")));
    }
    if buffer.len() < HEAD_BYTES + length {
        return Ok(None);
    }
    buffer.advance(HEAD_BYTES);
    Ok(Some((flags, buffer.split_to(length).freeze())))
}

#[derive(Deserialize)]
struct Message {
    event: Option<Kinds>,
}

#[derive(Deserialize)]
struct Kinds {
    start: Option<Value>,
    data: Option<Data>,
    end: Option<End>,
}

#[derive(Deserialize)]
struct Data {
    stdout: Option<String>,
    stderr: Option<String>,
}

#[derive(Deserialize)]
struct End {
    /// Left out when it is 0.
    #[serde(rename = "exitCode", default)]
    code: i32,
    error: Option<String>,
}

/// `None`: a kind of event that is not known here.
fn event(payload: &[u8]) -> Result<Option<Event>, Trouble> {
    let bad = |error: &dyn std::fmt::Display| Trouble::passing(format!("a bad event: {error}"));
    let message: Message = serde_json::from_slice(payload).map_err(|error| bad(&error))?;
    let Some(kinds) = message.event else { return Ok(None) };
    if let Some(End { code, error }) = kinds.end {
        return Ok(Some(Event::Ended { code, error }));
    }
    if let Some(data) = kinds.data {
        let decoded = |text: String| STANDARD.decode(text).map_err(|error| bad(&error));
        return match (data.stdout, data.stderr) {
            (Some(text), _) => Ok(Some(Event::Stdout(decoded(text)?))),
            (None, Some(text)) => Ok(Some(Event::Stderr(decoded(text)?))),
            (None, None) => Ok(None),
        };
    }
    Ok(Some(if kinds.start.is_some() { Event::Started } else { Event::Alive }))
}

#[derive(Deserialize)]
struct Final {
    error: Option<FinalError>,
}

#[derive(Deserialize)]
struct FinalError {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

fn ended(payload: &[u8]) -> Result<Option<Event>, Trouble> {
    let end: Final = serde_json::from_slice(payload)
        .map_err(|error| Trouble::passing(format!("a bad end of a stream: {error}")))?;
    match end.error {
        Some(FinalError { code, message }) => Err(Trouble::coded(&code, &message)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(flags: u8, payload: &str) -> Vec<u8> {
        let mut bytes = envelope(&Value::Null).to_vec();
        bytes.truncate(HEAD_BYTES);
        bytes[0] = flags;
        bytes[1..].copy_from_slice(&(payload.len() as u32).to_be_bytes());
        bytes.extend_from_slice(payload.as_bytes());
        bytes
    }

    #[test]
    fn envelopes_come_whole_from_any_pieces() {
        let mut bytes = framed(0, r#"{"event":{"start":{"pid":7}}}"#);
        bytes.extend(framed(0, r#"{"event":{"data":{"stdout":"aGk="}}}"#));
        bytes.extend(framed(2, "{}"));
        for size in 1..bytes.len() {
            let (mut buffer, mut found) = (BytesMut::new(), Vec::new());
            for piece in bytes.chunks(size) {
                buffer.extend_from_slice(piece);
                while let Some((flags, payload)) = taken(&mut buffer).unwrap() {
                    found.push((flags, payload.len()));
                }
            }
            assert_eq!(found, [(0, 29), (0, 36), (2, 2)], "pieces of {size}");
        }
    }

    #[test]
    fn events_are_read_and_zero_is_left_out() {
        let read = |text: &str| event(text.as_bytes()).unwrap();
        assert_eq!(read(r#"{"event":{"start":{"pid":7}}}"#), Some(Event::Started));
        let data = r#"{"event":{"data":{"stderr":"aGk="}}}"#;
        assert_eq!(read(data), Some(Event::Stderr(b"hi".to_vec())));
        assert_eq!(read(r#"{"event":{"keepalive":{}}}"#), Some(Event::Alive));
        let end = read(r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#);
        assert_eq!(end, Some(Event::Ended { code: 0, error: None }));
        let end = read(r#"{"event":{"end":{"exitCode":3,"error":"exit status 3"}}}"#);
        assert_eq!(end, Some(Event::Ended { code: 3, error: Some("exit status 3".to_owned()) }));
        assert_eq!(read("{}"), None);
        assert!(event(b"{\"event\":{\"data\":{\"stdout\":\"?\"}}}").is_err());
    }

    #[test]
    fn errors_arrive_inside_a_good_status() {
        assert_eq!(ended(b"{}").unwrap(), None);
        let error = ended(br#"{"error":{"code":"not_found","message":"no process"}}"#);
        assert!(error.unwrap_err().is_absent());
        let error = ended(br#"{"error":{"code":"unavailable","message":"restarting"}}"#);
        assert!(matches!(error, Err(Trouble::Passing { .. })));
    }

    #[test]
    fn a_giant_envelope_is_not_waited_for() {
        let mut buffer = BytesMut::from(&[0, 0xff, 0, 0, 0][..]);
        assert!(taken(&mut buffer).is_err());
    }
}
