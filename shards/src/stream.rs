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
#[cfg(not(feature = "sim"))]
use crate::unsafe_iovec::Pieces;

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

/// Writes all pieces in order, one after the other.
#[cfg(feature = "sim")]
pub(crate) async fn write_pieces(
    stream: &mut TcpStream,
    pieces: Vec<Bytes>,
    wait: Duration,
) -> io::Result<()> {
    for piece in pieces {
        write(stream, piece, wait).await?;
    }
    Ok(())
}

/// Writes all pieces in order, as they lie. `wait` bounds the wait for the peer to take some of them.
#[cfg(not(feature = "sim"))]
pub(crate) async fn write_pieces(
    stream: &mut TcpStream,
    pieces: Vec<Bytes>,
    wait: Duration,
) -> io::Result<()> {
    let mut left = Pieces::new(pieces);
    while !left.is_empty() {
        let (written, back) = within(wait, stream.writev(left))
            .await
            .ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut))?;
        left = back;
        match written? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => left.advance(written),
        }
    }
    Ok(())
}

/// The outcome of `work`, or `None` when it takes longer.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    crate::rt::time::timeout(limit, work).await.ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::{DriverChoice, driver};

    /// A peer that reads everything, at first a little at a time.
    fn peer(mut stream: std::net::TcpStream) -> Vec<u8> {
        let mut got = Vec::new();
        for _ in 0..50 {
            let mut some = [0; 777];
            let read = stream.read(&mut some).unwrap();
            got.extend_from_slice(&some[..read]);
        }
        stream.read_to_end(&mut got).unwrap();
        got
    }

    #[test]
    fn pieces_arrive_in_order_on_both_drivers() {
        // 3,000 small pieces and a few that no socket buffer holds: writes come up short.
        let mut pieces: Vec<Bytes> =
            (0..3_000_usize).map(|at| vec![at as u8; at % 90].into()).collect();
        pieces.extend((0..3).map(|at| Bytes::from(vec![at; 3 << 20])));
        let whole = pieces.concat();
        for chosen in [DriverChoice::Epoll, DriverChoice::Auto] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let reading = std::thread::spawn(move || peer(listener.accept().unwrap().0));
            let pieces = pieces.clone();
            let written = driver::run(driver::choose(chosen).unwrap(), || async move {
                let mut stream = TcpStream::connect_addr(address).await?;
                write_pieces(&mut stream, pieces, Duration::from_secs(20)).await
            });
            written.unwrap().unwrap();
            assert!(reading.join().unwrap() == whole, "{chosen:?}");
        }
    }

    #[test]
    fn a_peer_that_takes_nothing_ends_the_write() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pieces = vec![Bytes::from(vec![7; 32 << 20]); 2];
        let written = driver::run(driver::choose(DriverChoice::Auto).unwrap(), || async move {
            let mut stream = TcpStream::connect_addr(address).await?;
            write_pieces(&mut stream, pieces, Duration::from_millis(50)).await
        });
        assert_eq!(written.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
