//! The one place with unsafe code: a descriptor leaves its driver without being closed.

#![expect(unsafe_code, reason = "monoio gives a descriptor back as a bare number only")]

use std::os::fd::{FromRawFd, IntoRawFd};

use monoio::net::TcpStream;

/// Takes the descriptor off the driver (an epoll driver deregisters it). Panics, before anything is
/// lost, when an operation is still in flight on it.
pub(crate) fn release(stream: TcpStream) -> std::net::TcpStream {
    let fd = stream.into_raw_fd();
    // SAFETY: `into_raw_fd` succeeds for the only owner of the descriptor and forgets it without
    // closing it, so nothing else owns `fd` from here on.
    unsafe { std::net::TcpStream::from_raw_fd(fd) }
}
