//! Sockets, with monoio's faces and with plainer ones for simulated agents and engines.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use monoio::BufResult;
use monoio::buf::{IoBuf, IoBufMut, IoVecBuf, IoVecBufMut};
use monoio::io::{AsyncReadRent, AsyncWriteRent};

use super::clock::sleep;
use super::pipes::{self, End};
use super::unsafe_buf::{bytes_of, fill};
use super::world::show_write;

/// One end of a connection. Dropped, it is closed.
pub struct TcpStream {
    end: End,
    /// Closing resets.
    hard: bool,
}

/// A listener. Dropped, it is closed.
pub struct Listener(u64);

/// A listening socket that no shard has yet.
pub(crate) struct Bound(Listener);

/// A connection on its way between shards.
pub(crate) struct Loose(TcpStream);

/// Ends the accepting of a listener from aside.
pub(crate) struct Closer(u64);

impl Drop for TcpStream {
    fn drop(&mut self) {
        pipes::let_go(self.end, self.hard);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if super::world::is_there() {
            pipes::close_listener(self.0);
        }
    }
}

impl Listener {
    /// Listens for the process that runs. Several may listen at one address.
    pub fn bind(addr: SocketAddr) -> Self {
        Self(pipes::listen(addr))
    }

    /// The next connection.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let end = poll_fn(|cx| pipes::accept(self.0, cx.waker())).await?;
        let peer = SocketAddr::from(([10, 9, 9, 9], 9));
        Ok((TcpStream { end, hard: false }, peer))
    }
}

impl Bound {
    pub(crate) fn new(addr: SocketAddr) -> Self {
        Self(Listener::bind(addr))
    }
}

pub(crate) fn open(listener: Bound) -> io::Result<(Closer, Listener)> {
    Ok((Closer(listener.0.0), listener.0))
}

impl Closer {
    pub(crate) fn close(self) -> io::Result<()> {
        pipes::close_listener(self.0);
        Ok(())
    }
}

/// One more descriptor of the connection.
pub(crate) fn duplicate(stream: &TcpStream) -> io::Result<Loose> {
    pipes::keep(stream.end);
    Ok(Loose(TcpStream { end: stream.end, hard: false }))
}

/// Whether the other end was closed and nothing is left to read.
pub(crate) fn has_ended(stream: &TcpStream) -> bool {
    pipes::has_ended(stream.end)
}

/// Whether the other end has neither closed nor sent anything.
pub(crate) fn is_quiet(stream: &TcpStream) -> bool {
    pipes::is_quiet(stream.end)
}

impl TcpStream {
    /// Connects.
    pub async fn connect(addr: SocketAddr) -> io::Result<Self> {
        sleep(Duration::from_micros(super::pick(20..400))).await;
        Ok(Self { end: pipes::connect(addr)?, hard: false })
    }

    pub(crate) async fn connect_addr(addr: SocketAddr) -> io::Result<Self> {
        Self::connect(addr).await
    }

    pub(crate) fn from_std(loose: Loose) -> io::Result<Self> {
        Ok(loose.0)
    }

    pub(crate) fn set_nodelay(&self, _nodelay: bool) -> io::Result<()> {
        Ok(())
    }

    pub(crate) async fn readable(&self, _relaxed: bool) -> io::Result<()> {
        poll_fn(|cx| pipes::readable(self.end, cx.waker())).await;
        Ok(())
    }

    /// Reads once, at most so many bytes; none is the end.
    pub async fn take(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut watch = GivenUp { end: self.end, armed: true };
        let read = poll_fn(|cx| pipes::read(self.end, most, cx.waker())).await;
        watch.armed = false;
        read
    }

    /// Writes all of it.
    pub async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = poll_fn(|cx| pipes::write(self.end, bytes, cx.waker())).await?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Says that nothing more will be sent, and goes on reading.
    pub fn half_close(&mut self) {
        // Who was cut off has nothing to say.
        let _ = pipes::shut(self.end);
    }

    /// Closes with a reset.
    pub fn reset(mut self) {
        self.hard = true;
    }

    /// Which connection it is, for traces.
    pub fn number(&self) -> u64 {
        self.end
    }
}

/// Tells of a read that was dropped before it was done.
struct GivenUp {
    end: End,
    armed: bool,
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if self.armed && super::world::is_there() {
            pipes::read_given_up(self.end);
        }
    }
}

impl AsyncReadRent for TcpStream {
    async fn read<T: IoBufMut>(&mut self, mut buf: T) -> BufResult<usize, T> {
        match self.take(buf.bytes_total()).await {
            Ok(bytes) => {
                fill(&mut buf, &bytes);
                (Ok(bytes.len()), buf)
            }
            Err(error) => (Err(error), buf),
        }
    }

    fn readv<T: IoVecBufMut>(&mut self, buf: T) -> impl Future<Output = BufResult<usize, T>> {
        std::future::ready((Err(io::ErrorKind::Unsupported.into()), buf))
    }
}

impl AsyncWriteRent for TcpStream {
    async fn write<T: IoBuf>(&mut self, buf: T) -> BufResult<usize, T> {
        show_write(bytes_of(&buf));
        let written = poll_fn(|cx| pipes::write(self.end, bytes_of(&buf), cx.waker())).await;
        (written, buf)
    }

    async fn writev<T: IoVecBuf>(&mut self, buf_vec: T) -> BufResult<usize, T> {
        let bytes = super::unsafe_buf::gather(&buf_vec);
        show_write(&bytes);
        let written = poll_fn(|cx| pipes::write(self.end, &bytes, cx.waker())).await;
        (written, buf_vec)
    }

    async fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn shutdown(&mut self) -> io::Result<()> {
        pipes::shut(self.end)
    }
}
