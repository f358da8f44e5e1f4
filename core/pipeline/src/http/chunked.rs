//! Chunked transfer coding, read.

use bytes::BytesMut;

/// Longest line of a chunk size with its extensions, or of a trailer field, in bytes.
const LINE_BYTES: usize = 1 << 10;
/// Most bytes of extensions and trailers of one body: they carry nothing for us.
const EXTRA_BYTES: usize = 16 << 10;

/// Why a chunked body was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChunkError {
    /// It is malformed.
    Bad(&'static str),
    /// It holds more than the limit.
    TooLarge,
}

/// Decodes one chunked body.
pub(super) struct Chunked {
    place: Place,
    limit_bytes: u64,
    /// Data announced so far.
    data_bytes: u64,
    extra_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Size,
    Data { left: u64 },
    DataEnd,
    Trailers,
    Done,
}

impl Chunked {
    pub(super) fn new(limit_bytes: u64) -> Self {
        Self { place: Place::Size, limit_bytes, data_bytes: 0, extra_bytes: 0 }
    }

    /// Moves what belongs to the body from `buf` to `body`; `true` when the body is complete.
    pub(super) fn read(
        &mut self,
        buf: &mut BytesMut,
        body: &mut BytesMut,
    ) -> Result<bool, ChunkError> {
        loop {
            match self.place {
                Place::Done => return Ok(true),
                Place::Data { left } => {
                    let left = left - move_up_to(left, buf, body);
                    self.place = if left > 0 { Place::Data { left } } else { Place::DataEnd };
                    if left > 0 {
                        return Ok(false);
                    }
                }
                Place::Size | Place::DataEnd | Place::Trailers => {
                    let Some(line) = take_line(buf)? else { return Ok(false) };
                    self.place = self.after_line(&line)?;
                }
            }
        }
    }

    fn after_line(&mut self, line: &[u8]) -> Result<Place, ChunkError> {
        match self.place {
            Place::Size => {
                let (size, extension_bytes) = chunk_size(line)?;
                self.spend(extension_bytes)?;
                if size > self.limit_bytes.saturating_sub(self.data_bytes) {
                    return Err(ChunkError::TooLarge);
                }
                self.data_bytes += size;
                Ok(if size == 0 { Place::Trailers } else { Place::Data { left: size } })
            }
            Place::Trailers if !line.is_empty() => {
                self.spend(line.len())?;
                Ok(Place::Trailers)
            }
            Place::Trailers => Ok(Place::Done),
            _ if line.is_empty() => Ok(Place::Size),
            _ => Err(ChunkError::Bad("a chunk is longer than its size says")),
        }
    }

    fn spend(&mut self, extra_bytes: usize) -> Result<(), ChunkError> {
        self.extra_bytes += extra_bytes;
        if self.extra_bytes > EXTRA_BYTES {
            return Err(ChunkError::Bad("chunk extensions and trailers are too long"));
        }
        Ok(())
    }
}

/// Moves at most `most` bytes; says how many.
pub(super) fn move_up_to(most: u64, buf: &mut BytesMut, body: &mut BytesMut) -> u64 {
    let count = most.min(buf.len() as u64);
    // Joins without a copy where the pieces lie side by side, which is the common case.
    body.unsplit(buf.split_to(count as usize));
    count
}

/// Takes a line off `buf`, without its end.
fn take_line(buf: &mut BytesMut) -> Result<Option<BytesMut>, ChunkError> {
    let window = &buf[..buf.len().min(LINE_BYTES)];
    let Some(end) = window.iter().position(|&byte| byte == b'\n') else {
        return match buf.len() < LINE_BYTES {
            true => Ok(None),
            false => Err(ChunkError::Bad("a line between chunks is too long")),
        };
    };
    let mut line = buf.split_to(end + 1);
    line.truncate(end);
    if line.last() != Some(&b'\r') {
        return Err(ChunkError::Bad("a line between chunks ends without a carriage return"));
    }
    line.truncate(end - 1);
    if line.contains(&b'\r') {
        return Err(ChunkError::Bad("a line between chunks holds a bare carriage return"));
    }
    Ok(Some(line))
}

/// The size, and how many bytes of extensions follow it.
fn chunk_size(line: &[u8]) -> Result<(u64, usize), ChunkError> {
    const BAD: ChunkError = ChunkError::Bad("a chunk size is not a hexadecimal number");
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let mut rest = &line[digits..];
    let extension_bytes = rest.len();
    while let Some((b' ' | b'\t', after)) = rest.split_first() {
        rest = after;
    }
    if digits == 0 || digits > 16 || !(rest.is_empty() || rest.starts_with(b";")) {
        return Err(BAD);
    }
    let text = std::str::from_utf8(&line[..digits]).map_err(|_| BAD)?;
    let size = u64::from_str_radix(text, 16).map_err(|_| BAD)?;
    Ok((size, extension_bytes))
}
