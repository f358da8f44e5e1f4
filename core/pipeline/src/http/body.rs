//! Request bodies: by length or chunked, bounded.

use bytes::{Bytes, BytesMut};

use super::Framing;
use super::chunked::{ChunkError, Chunked, move_up_to};
use crate::fault::{Fault, FaultKind};

/// Whether a body is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyState {
    /// Bytes are missing.
    More,
    /// Complete; what follows it is still in the buffer.
    Done,
}

/// Reads one body from a stream of bytes, leaving what follows it.
pub struct BodyReader {
    rest: Rest,
    body: BytesMut,
    limit_bytes: u64,
}

enum Rest {
    Length { left: u64 },
    Chunked(Chunked),
}

impl BodyReader {
    /// A reader for a body so delimited. A length over the limit is refused before a byte is read.
    pub fn new(framing: Framing, limit_bytes: u64) -> Result<Self, Fault> {
        let rest = match framing {
            Framing::None => Rest::Length { left: 0 },
            Framing::Length(left) if left > limit_bytes => return Err(too_large(limit_bytes)),
            Framing::Length(left) => Rest::Length { left },
            Framing::Chunked => Rest::Chunked(Chunked::new(limit_bytes)),
        };
        Ok(Self { rest, body: BytesMut::new(), limit_bytes })
    }

    /// Takes what belongs to the body off the front of `buf`.
    pub fn read(&mut self, buf: &mut BytesMut) -> Result<BodyState, Fault> {
        let done = match &mut self.rest {
            Rest::Length { left } => {
                *left -= move_up_to(*left, buf, &mut self.body);
                *left == 0
            }
            Rest::Chunked(chunked) => {
                chunked.read(buf, &mut self.body).map_err(|error| match error {
                    ChunkError::TooLarge => too_large(self.limit_bytes),
                    ChunkError::Bad(why) => Fault::new(
                        FaultKind::BadHttp,
                        format!("the chunked request body is malformed: {why}"),
                    ),
                })?
            }
        };
        Ok(if done { BodyState::Done } else { BodyState::More })
    }

    /// The body as far as it was read.
    pub fn into_bytes(self) -> Bytes {
        self.body.freeze()
    }
}

fn too_large(limit_bytes: u64) -> Fault {
    Fault::new(
        FaultKind::BodyTooLarge,
        format!(
            "the request body is larger than {limit_bytes} bytes; raise `limits.body_bytes` of the \
             node or send less"
        ),
    )
}
