//! The runtime that serves: monoio, the kernel's clock and random bits.

/// Sockets.
pub(crate) mod net {
    use std::io;
    use std::net::Shutdown;
    use std::os::fd::AsRawFd;

    pub(crate) use monoio::net::{TcpListener, TcpStream};
    use nix::errno::Errno;
    use nix::sys::socket::{MsgFlags, recv};

    pub(crate) use crate::unsafe_fd::duplicate;

    /// A listening socket that no driver knows yet.
    pub(crate) type Bound = std::net::TcpListener;
    /// A connection that is on no driver.
    pub(crate) type Loose = std::net::TcpStream;

    /// Ends the accepting of a listener from aside.
    pub(crate) struct Closer(socket2::Socket);

    /// Puts a listener on this thread's driver.
    pub(crate) fn open(listener: Bound) -> io::Result<(Closer, TcpListener)> {
        let closer = Closer(listener.try_clone()?.into());
        Ok((closer, TcpListener::from_std(listener)?))
    }

    impl Closer {
        /// The accept under way, and every later one, ends with an error.
        pub(crate) fn close(self) -> io::Result<()> {
            self.0.shutdown(Shutdown::Both)
        }
    }

    /// Whether the other end was closed and nothing is left to read, as far as is known by now.
    /// Does not wait.
    pub(crate) fn has_ended(stream: &TcpStream) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        matches!(recv(stream.as_raw_fd(), &mut [0], flags), Ok(0))
    }

    /// Whether the other end has neither closed nor sent anything, as far as is known by now. Does
    /// not wait.
    pub(crate) fn is_quiet(stream: &TcpStream) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        recv(stream.as_raw_fd(), &mut [0], flags) == Err(Errno::EAGAIN)
    }
}

/// File operations that block: rare, and short.
pub(crate) mod disk {
    use std::io;
    use std::path::Path;

    pub(crate) use std::fs::remove_file;

    /// Shortens the file to so many bytes; one that is no longer than that stays as it is.
    pub(crate) fn shorten(path: &Path, bytes: u64) -> io::Result<()> {
        let file = std::fs::OpenOptions::new().write(true).open(path)?;
        if file.metadata()?.len() > bytes {
            file.set_len(bytes)?;
        }
        Ok(())
    }
}

/// Time.
#[expect(clippy::disallowed_methods, reason = "this is where the clock comes from")]
pub(crate) mod time {
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    pub(crate) use monoio::time::{sleep, timeout};

    /// Now, by a clock that never goes back.
    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    /// Milliseconds since the epoch.
    pub(crate) fn wall_ms() -> u64 {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Random bits.
#[expect(clippy::disallowed_methods, reason = "this is where random bits come from")]
pub(crate) mod random {
    /// Fills with bits of the kernel.
    pub(crate) fn fill(bits: &mut [u8]) -> Result<(), getrandom::Error> {
        getrandom::fill(bits)
    }
}
