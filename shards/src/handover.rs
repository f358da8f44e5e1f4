//! Moving an agent's connection to the shard that owns its session.
//!
//! Only between requests, with no operation in flight, by the one task that owns the descriptor.
//! The bytes read so far go along, the head of the request included.

use bytes::BytesMut;
use monoio::net::TcpStream;

use crate::unsafe_fd;

/// A connection on its way.
pub(crate) struct Socket {
    stream: std::net::TcpStream,
    /// What was read and not yet answered.
    pub(crate) unread: BytesMut,
    /// How often it has moved, this time included.
    pub(crate) moves: u8,
}

impl Socket {
    /// Takes the connection off this shard's driver. No operation may be in flight on it.
    pub(crate) fn pack(stream: TcpStream, unread: BytesMut, moves: u8) -> Self {
        Self { stream: unsafe_fd::release(stream), unread, moves }
    }

    /// Puts it on the driver of the shard that this runs on.
    pub(crate) fn unpack(self) -> std::io::Result<(TcpStream, BytesMut, u8)> {
        Ok((TcpStream::from_std(self.stream)?, self.unread, self.moves))
    }
}
