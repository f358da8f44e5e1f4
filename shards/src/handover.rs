//! Moving an agent's connection to the shard that owns its session.
//!
//! Only between requests, with no read or write in flight, by the one task that uses the socket. What
//! moves is a second descriptor of it; the task drops the first one and does not touch it before.
//! The bytes read so far go along, the head of the request included.

use bytes::BytesMut;

use crate::rt::net::{Loose, TcpStream, duplicate};

/// A connection on its way.
pub(crate) struct Socket {
    stream: Loose,
    /// What was read and not yet answered.
    pub(crate) unread: BytesMut,
    /// How often it has moved, this time included.
    pub(crate) moves: u8,
}

impl Socket {
    /// The connection, for another shard's driver. An error is a lack of descriptors.
    pub(crate) fn pack(stream: &TcpStream, unread: BytesMut, moves: u8) -> std::io::Result<Self> {
        Ok(Self { stream: duplicate(stream)?, unread, moves })
    }

    /// Puts it on the driver of the shard that this runs on.
    pub(crate) fn unpack(self) -> std::io::Result<(TcpStream, BytesMut, u8)> {
        Ok((TcpStream::from_std(self.stream)?, self.unread, self.moves))
    }
}
