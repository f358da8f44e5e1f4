//! Reading and writing sockets with deadlines.

use std::future::Future;
use std::io;
use std::time::Duration;

use crate::rt::buf::IoBufMut;
use crate::rt::io::{AsyncReadRent, AsyncWriteRent};
use crate::rt::net::TcpStream;
pub(crate) use crate::rt::net::{has_ended, is_quiet};
use bytes::{Buf, Bytes, BytesMut};

use crate::bounds::{MOST_READ_BYTES, READ_BYTES};

/// Reads once, appending to `buf`; 0 is the end. When dropped early, bytes may be lost: give up the
/// stream then.
pub(crate) async fn read(stream: &mut TcpStream, buf: &mut BytesMut) -> io::Result<usize> {
    let mut space = std::mem::take(buf);
    space.reserve(READ_BYTES);
    let (begin, end) = (space.len(), space.capacity());
    let (read, space) = stream.read(space.slice_mut(begin..end)).await;
    *buf = space.into_inner();
    if matches!(read, Ok(read) if read == end - begin) {
        // There is more: let the next read take more at once.
        buf.reserve((2 * (end - begin)).min(MOST_READ_BYTES));
    }
    read
}

/// Writes all of it. `piece` bounds the wait for the peer to take one piece.
pub(crate) async fn write(
    stream: &mut TcpStream,
    mut bytes: Bytes,
    piece: Duration,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let (written, _) = within(piece, stream.write(bytes.clone()))
            .await
            .ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut))?;
        match written? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes.advance(written),
        }
    }
    Ok(())
}

/// The outcome of `work`, or `None` when it takes longer.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    crate::rt::time::timeout(limit, work).await.ok()
}
