//! Request bodies: by length or chunked, bounded.

use bytes::{Bytes, BytesMut};

use super::Framing;
use crate::fault::Fault;

/// Whether a body is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyState {
    More,
    Done,
}

/// Reads one body from a stream of bytes, leaving what follows it.
pub struct BodyReader {}

impl BodyReader {
    pub fn new(_framing: Framing, _limit_bytes: u64) -> Result<Self, Fault> {
        todo!()
    }
    /// Takes what belongs to the body off the front of `buf`.
    pub fn read(&mut self, _buf: &mut BytesMut) -> Result<BodyState, Fault> {
        todo!()
    }
    pub fn into_bytes(self) -> Bytes {
        todo!()
    }
}
