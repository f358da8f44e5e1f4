//! Replies of engines.

use bytes::{Bytes, BytesMut};

use super::BodyState;
use crate::fault::Fault;

/// How a reply's body is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyFraming {
    Length(u64),
    Chunked,
    UntilClose,
}

/// Head of a reply.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplyHead {
    pub status: u16,
    pub framing: ReplyFraming,
    pub keep_alive: bool,
    pub retry_after_s: Option<u32>,
}

/// Takes one reply head off the front of `buf`; 1xx heads are skipped.
pub fn read_reply_head(_buf: &mut BytesMut) -> Result<Option<ReplyHead>, Fault> {
    todo!()
}

/// Reads one whole reply, head and body.
pub struct ReplyReader {}

impl ReplyReader {
    pub fn new(_limit_bytes: u64) -> Self {
        todo!()
    }
    /// Takes what belongs to the reply off the front of `buf`; `eof` says that no more will come.
    pub fn read(&mut self, _buf: &mut BytesMut, _eof: bool) -> Result<BodyState, Fault> {
        todo!()
    }
    /// Whether any byte of a reply was seen.
    pub fn started(&self) -> bool {
        todo!()
    }
    /// Head and body of a reply that is `Done`.
    pub fn into_parts(self) -> Option<(ReplyHead, Bytes)> {
        todo!()
    }
}
