//! Request bodies: by length or chunked, plain or compressed, bounded.

use bytes::{Buf, Bytes, BytesMut};

use super::chunked::{ChunkError, Chunked};
use super::coding::{Coding, CodingError, Expander};
use super::{Framing, RequestHead};
use crate::fault::{Fault, FaultKind};
use crate::limits::EXPANSION;

/// Bytes of a body for which room is made before they are here.
const TRUSTED_BYTES: usize = 64 << 10;

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

    /// Whether it is compressed.
    pub(crate) fn expands(&self) -> bool {
        self.expander.is_some()
    }

    /// Takes what belongs to the body off the front of `buf`.
    pub fn read(&mut self, buf: &mut BytesMut) -> Result<BodyState, Fault> {
        let into = if self.expander.is_some() { &mut self.wire } else { &mut self.body };
        let done = match &mut self.rest {
            Rest::Length { left } => {
                let here = (*left).min(buf.len() as u64) as usize;
                if into.is_empty() && here as u64 == *left {
                    *into = buf.split_to(here);
                } else {
                    reserve(into, here, *left);
                    into.extend_from_slice(&buf[..here]);
                    buf.advance(here);
                }
                *left -= here as u64;
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

    /// How many bytes at the front of `buf` belong to the body, where they can be looked at before
    /// they are read: where its length is known and it is not compressed.
    pub(crate) fn ahead(&self, buf: &BytesMut) -> Option<usize> {
        match &self.rest {
            _ if self.expander.is_some() => None,
            Rest::Length { left } => Some((*left).min(buf.len() as u64) as usize),
            Rest::Chunked(_) => None,
        }
    }

    /// Drops so many bytes of those instead of reading them. Whether all that are left are here.
    pub(crate) fn pass(&mut self, bytes: usize, buf: &mut BytesMut) -> bool {
        match &mut self.rest {
            Rest::Length { left } => {
                let bytes = bytes.min(buf.len()).min(*left as usize);
                buf.advance(bytes);
                *left -= bytes as u64;
                *left <= buf.len() as u64
            }
            Rest::Chunked(_) => false,
        }
    }

    /// The body as far as it was read and not forgotten.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// Forgets so many bytes at its front.
    pub(crate) fn forget(&mut self, bytes: usize) {
        self.body.advance(bytes.min(self.body.len()));
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

    /// The body as far as it was read.
    pub fn into_bytes(self) -> Bytes {
        self.body.freeze()
    }
}

/// Makes room for what is here. What is promised counts only up to what came already: a length is
/// easily said.
fn reserve(body: &mut BytesMut, here: usize, left: u64) {
    if body.capacity() - body.len() < here {
        let likely = body.len().max(TRUSTED_BYTES).min(left as usize);
        body.reserve(likely.max(here));
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
