//! Compressed request bodies: expanded as they come, never further than a bound.
//!
//! A body is `gzip`, `deflate` or `zstd`, once. Both sizes are bounded: what comes by the framing's
//! limit, what is made of it by the same limit and by [`EXPANSION`]. A checksum that a coding has is
//! looked at.

use std::io::{self, Write};

use bytes::BytesMut;
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};

use super::RequestHead;
use crate::fault::{Fault, FaultKind};
use crate::limits::{EXPANSION, EXPANSION_FREE_BYTES, ZSTD_WINDOW_LOG};

/// Room that is given to one step of inflating.
const PIECE_BYTES: usize = 32 << 10;

/// How a body is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coding {
    /// Not at all.
    Identity,
    Gzip,
    /// With the frame of zlib as the standard has it, or without as some clients send it.
    Deflate,
    Zstd,
}

impl Coding {
    /// What the head says. A fault for what is not read here.
    pub(super) fn of(head: &RequestHead) -> Result<Self, Fault> {
        let fields = head.headers.iter().filter(|header| header.name == "content-encoding");
        let names = fields.flat_map(|header| header.value.split(','));
        let mut coding = Coding::Identity;
        for name in names {
            let this = match name.trim().to_ascii_lowercase().as_str() {
                "" | "identity" => continue,
                "gzip" | "x-gzip" => Coding::Gzip,
                "deflate" => Coding::Deflate,
                "zstd" => Coding::Zstd,
                _ => return Err(unsupported()),
            };
            if coding != Coding::Identity {
                return Err(unsupported());
            }
            coding = this;
        }
        Ok(coding)
    }
}

fn unsupported() -> Fault {
    Fault::new(
        FaultKind::UnsupportedEncoding,
        "request bodies are read plain, or compressed once with gzip, deflate or zstd; turn other \
         request compression off in the agent",
    )
}

/// Why a compressed body is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CodingError {
    /// It is not what its header says, or damaged, or cut off.
    Corrupt,
    /// It expands to more than the limit.
    TooLarge,
    /// It expands by more than [`EXPANSION`].
    TooDense,
}

/// Expands one body.
pub(super) struct Expander {
    decoder: Decoder,
    limit_bytes: u64,
    /// Compressed bytes taken.
    taken_bytes: u64,
}

enum Decoder {
    Gzip(Box<MultiGzDecoder<Sink>>),
    Deflate(Box<Inflate>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Sink>>),
}

/// Takes expanded bytes up to a limit.
struct Sink {
    body: BytesMut,
    most_bytes: u64,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.body.len() + bytes.len()) as u64 > self.most_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.body.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `deflate`: what flate2's own writer does not do is to tell a stream that ends from one that is cut.
struct Inflate {
    sink: Sink,
    /// Made once the first two bytes tell whether the frame of zlib is there.
    inner: Option<Decompress>,
    head: Vec<u8>,
    ended: bool,
}

impl Inflate {
    fn new(sink: Sink) -> Self {
        Self { sink, inner: None, head: Vec::new(), ended: false }
    }

    fn write_all(&mut self, wire: &[u8]) -> io::Result<()> {
        if self.inner.is_some() {
            return self.inflate(wire);
        }
        self.head.extend_from_slice(wire);
        let [first, second, ..] = self.head[..] else { return Ok(()) };
        let framed = first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31);
        self.inner = Some(Decompress::new(framed));
        let head = std::mem::take(&mut self.head);
        self.inflate(&head)
    }

    fn inflate(&mut self, mut wire: &[u8]) -> io::Result<()> {
        let Some(inner) = &mut self.inner else { return Ok(()) };
        let mut made = Vec::with_capacity(PIECE_BYTES);
        loop {
            if self.ended {
                return if wire.is_empty() {
                    Ok(())
                } else {
                    Err(io::ErrorKind::InvalidData.into())
                };
            }
            let before = inner.total_in();
            let status = inner.decompress_vec(wire, &mut made, FlushDecompress::None)?;
            wire = &wire[usize::try_from(inner.total_in() - before).unwrap_or(wire.len())..];
            self.ended = status == Status::StreamEnd;
            let stuck = made.is_empty() && wire.is_empty();
            self.sink.write_all(&made)?;
            made.clear();
            if stuck && !self.ended {
                return Ok(());
            }
        }
    }
}

impl Expander {
    /// For a body of this coding; `None` where there is nothing to expand.
    pub(super) fn new(coding: Coding, limit_bytes: u64) -> Result<Option<Self>, CodingError> {
        let sink = Sink { body: BytesMut::new(), most_bytes: 0 };
        let decoder = match coding {
            Coding::Identity => return Ok(None),
            Coding::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(sink))),
            Coding::Deflate => Decoder::Deflate(Box::new(Inflate::new(sink))),
            Coding::Zstd => {
                let decoder = zstd::stream::write::Decoder::new(sink).and_then(|mut decoder| {
                    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                    Ok(decoder)
                });
                Decoder::Zstd(Box::new(decoder.map_err(|_| CodingError::Corrupt)?))
            }
        };
        Ok(Some(Self { decoder, limit_bytes, taken_bytes: 0 }))
    }

    /// Expands all of `wire` and adds what came of it to `body`.
    pub(super) fn take(
        &mut self,
        wire: &mut BytesMut,
        body: &mut BytesMut,
    ) -> Result<(), CodingError> {
        let wire = wire.split();
        if wire.is_empty() {
            return Ok(());
        }
        self.taken_bytes += wire.len() as u64;
        let dense = self.taken_bytes.saturating_mul(EXPANSION).max(EXPANSION_FREE_BYTES);
        let most_bytes = dense.min(self.limit_bytes);
        // The sink goes on with the body itself: nothing is copied.
        let sink = self.sink();
        sink.body = std::mem::take(body);
        sink.most_bytes = most_bytes;
        let written = self.write(&wire);
        *body = std::mem::take(&mut self.sink().body);
        written.map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge if dense < self.limit_bytes => CodingError::TooDense,
            io::ErrorKind::FileTooLarge => CodingError::TooLarge,
            _ => CodingError::Corrupt,
        })
    }

    /// The body has come to its end: so must what it holds.
    pub(super) fn finish(&mut self) -> Result<(), CodingError> {
        match &mut self.decoder {
            Decoder::Gzip(decoder) => decoder.try_finish(),
            Decoder::Deflate(inflate) if inflate.ended => Ok(()),
            Decoder::Deflate(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Decoder::Zstd(decoder) => decoder.do_finish(),
        }
        .map_err(|_| CodingError::Corrupt)
    }

    fn sink(&mut self) -> &mut Sink {
        match &mut self.decoder {
            Decoder::Gzip(decoder) => decoder.get_mut(),
            Decoder::Deflate(inflate) => &mut inflate.sink,
            Decoder::Zstd(decoder) => decoder.get_mut(),
        }
    }

    fn write(&mut self, wire: &[u8]) -> io::Result<()> {
        match &mut self.decoder {
            Decoder::Gzip(decoder) => decoder.write_all(wire).and_then(|()| decoder.flush()),
            Decoder::Deflate(inflate) => inflate.write_all(wire),
            Decoder::Zstd(decoder) => decoder.write_all(wire).and_then(|()| decoder.flush()),
        }
    }
}
