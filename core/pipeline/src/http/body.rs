//! Request bodies: by length or chunked, plain or compressed, bounded.

use bytes::{Bytes, BytesMut};

use super::chunked::{ChunkError, Chunked, move_up_to};
use super::coding::{Coding, CodingError, Expander};
use super::{Framing, RequestHead};
use crate::fault::{Fault, FaultKind};
use crate::limits::EXPANSION;

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
    /// What came of the body and is compressed. Emptied by every read.
    wire: BytesMut,
    expander: Option<Expander>,
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
        let (wire, body) = (BytesMut::new(), BytesMut::new());
        Ok(Self { rest, wire, expander: None, body, limit_bytes })
    }

    /// A reader for the body behind this head. What is compressed is expanded as it comes, to no more
    /// than the limit.
    pub fn of(head: &RequestHead, limit_bytes: u64) -> Result<Self, Fault> {
        let mut reader = Self::new(head.framing, limit_bytes)?;
        let expander = Expander::new(Coding::of(head)?, limit_bytes);
        reader.expander = expander.map_err(|error| reader.refusal(error))?;
        Ok(reader)
    }

    /// Takes what belongs to the body off the front of `buf`.
    pub fn read(&mut self, buf: &mut BytesMut) -> Result<BodyState, Fault> {
        let into = if self.expander.is_some() { &mut self.wire } else { &mut self.body };
        let done = match &mut self.rest {
            Rest::Length { left } => {
                *left -= move_up_to(*left, buf, into);
                *left == 0
            }
            Rest::Chunked(chunked) => chunked.read(buf, into).map_err(|error| match error {
                ChunkError::TooLarge => too_large(self.limit_bytes),
                ChunkError::Bad(why) => Fault::new(
                    FaultKind::BadHttp,
                    format!("the chunked request body is malformed: {why}"),
                ),
            })?,
        };
        if let Some(expander) = &mut self.expander {
            let taken = expander.take(&mut self.wire, &mut self.body);
            let ended = if done { taken.and_then(|()| expander.finish()) } else { taken };
            ended.map_err(|error| self.refusal(error))?;
        }
        Ok(if done { BodyState::Done } else { BodyState::More })
    }

    fn refusal(&self, error: CodingError) -> Fault {
        match error {
            CodingError::TooLarge => too_large(self.limit_bytes),
            CodingError::TooDense => Fault::new(
                FaultKind::BodyTooLarge,
                format!(
                    "the compressed request body expands to more than {EXPANSION} times its size; \
                     send it plain"
                ),
            ),
            CodingError::Corrupt => Fault::new(
                FaultKind::BadHttp,
                "the compressed request body cannot be expanded: it is damaged, cut off or not what \
                 Content-Encoding says",
            ),
        }
    }

    /// Bytes that are held of it.
    pub fn held_bytes(&self) -> usize {
        self.body.len()
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
