//! A descriptor is duplicated, so that one leaves its driver. Unsafe: it is a bare number.

#![expect(unsafe_code, reason = "monoio shows a descriptor as a bare number only")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::rt::net::TcpStream;

/// The same socket under a descriptor that no driver knows. Taking the driver's own one off it
/// would fail as long as a cancelled watch is still on its way out of the ring.
pub(crate) fn duplicate(stream: &TcpStream) -> io::Result<std::net::TcpStream> {
    // SAFETY: `stream` owns the descriptor and is borrowed for longer than `fd` lives.
    let fd = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
    Ok(fd.try_clone_to_owned()?.into())
}
