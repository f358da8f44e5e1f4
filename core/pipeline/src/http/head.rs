//! Request heads.

use bytes::{Buf, BytesMut};

use super::Framing;
use super::framing::{self, Version};
use crate::fault::{Fault, FaultKind};
use crate::limits::{HEAD_BYTES, HEADERS};

/// Request method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// `GET`.
    Get,
    /// `HEAD`.
    Head,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
    /// `OPTIONS`.
    Options,
    /// `PATCH`.
    Patch,
    /// Any other token.
    Other,
}

impl Method {
    fn parse(name: &str) -> Self {
        match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "DELETE" => Method::Delete,
            "OPTIONS" => Method::Options,
            "PATCH" => Method::Patch,
            _ => Method::Other,
        }
    }
}

/// One header field; the name in lower case.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// Name, in lower case.
    pub name: String,
    /// Value without outer blanks; bytes that are not UTF-8 are replaced by U+FFFD.
    pub value: String,
}

// Values hold keys: they are never printed.
impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ({} bytes)", self.name, self.value.len())
    }
}

/// A request head.
#[derive(Clone, PartialEq)]
pub struct RequestHead {
    /// Method.
    pub method: Method,
    /// Request target as sent, query included. May hold a key: never log it.
    pub target: String,
    /// Fields, in order.
    pub headers: Vec<Header>,
    /// How the body is delimited.
    pub framing: Framing,
    /// Whether another request may follow on the connection.
    pub keep_alive: bool,
    /// Whether the agent waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// Whether the agent speaks HTTP/1.0, which knows no chunks: see [`super::Plainer`].
    pub http10: bool,
    /// Whether a WebSocket upgrade was asked for.
    pub upgrade: bool,
}

impl RequestHead {
    /// First value of the header with this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|h| h.name == name).map(|h| h.value.as_str())
    }
}

// The target may hold a key: it is never printed.
impl std::fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestHead")
            .field("method", &self.method)
            .field("headers", &self.headers)
            .field("framing", &self.framing)
            .field("keep_alive", &self.keep_alive)
            .finish_non_exhaustive()
    }
}

/// Takes one head off the front of `buf`; `None` when it is not complete yet. Empty lines before it
/// are dropped.
pub fn read_head(buf: &mut BytesMut) -> Result<Option<RequestHead>, Fault> {
    while buf.starts_with(b"\r\n") {
        buf.advance(2);
    }
    let window = &buf[..buf.len().min(HEAD_BYTES)];
    let mut fields = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(window) {
        Ok(httparse::Status::Complete(length)) => {
            if !framing::lines_end_in_crlf(&window[..length]) {
                return Err(bad("a line of the head ends without a carriage return"));
            }
            let head = digest(&request)?;
            buf.advance(length);
            Ok(Some(head))
        }
        Ok(httparse::Status::Partial) if buf.len() >= HEAD_BYTES => Err(Fault::new(
            FaultKind::HeadTooLarge,
            format!("the request head is larger than {HEAD_BYTES} bytes"),
        )),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(httparse::Error::TooManyHeaders) => Err(Fault::new(
            FaultKind::HeadTooLarge,
            format!("the request head has more than {HEADERS} fields"),
        )),
        Err(httparse::Error::Version) => Err(bad("only HTTP/1.1 and HTTP/1.0 are spoken here")),
        Err(error) => Err(bad(error)),
    }
}

fn digest(request: &httparse::Request<'_, '_>) -> Result<RequestHead, Fault> {
    let version = Version::of(request.version);
    let fields = &*request.headers;
    let headers = fields.iter().map(|field| Header {
        name: field.name.to_ascii_lowercase(),
        value: String::from_utf8_lossy(field.value).into_owned(),
    });
    Ok(RequestHead {
        method: Method::parse(request.method.unwrap_or_default()),
        target: request.path.unwrap_or_default().to_owned(),
        headers: headers.collect(),
        framing: framing::framing(version, fields).map_err(bad)?,
        keep_alive: framing::keep_alive(version, fields),
        expect_continue: version == Version::Http11
            && framing::names(fields, "expect", "100-continue"),
        http10: version == Version::Http10,
        // Other upgrades (`h2c`, which some HTTP clients offer on each call) may be ignored.
        upgrade: framing::names(fields, "upgrade", "websocket"),
    })
}

fn bad(why: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::BadHttp, format!("the request is not sound HTTP/1.1: {why}"))
}
