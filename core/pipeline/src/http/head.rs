//! Request heads.

use bytes::BytesMut;

use crate::fault::Fault;

/// Request method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Patch,
    Other,
}

/// How a request's body is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// No body.
    None,
    /// This many bytes.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
}

/// One header field; the name in lower case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    pub name: String,
    pub value: String,
}

/// A request head.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestHead {
    pub method: Method,
    /// Request target as sent, query included.
    pub target: String,
    pub headers: Vec<Header>,
    pub framing: Framing,
    pub keep_alive: bool,
    pub expect_continue: bool,
    pub upgrade: bool,
}

impl RequestHead {
    /// First value of the header with this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|h| h.name == name).map(|h| h.value.as_str())
    }
}

/// Takes one head off the front of `buf`; `None` when it is not complete yet.
pub fn read_head(_buf: &mut BytesMut) -> Result<Option<RequestHead>, Fault> {
    todo!()
}
