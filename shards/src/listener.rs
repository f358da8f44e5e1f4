//! One common port: every shard has a listening socket of its own on it.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

use crate::bounds::BACKLOG;
use crate::{Driver, StartError};

/// Binds a socket per shard. With port 0 the first one settles the port.
pub(crate) fn bind(
    addr: SocketAddr,
    shards: usize,
    driver: Driver,
) -> Result<(SocketAddr, Vec<TcpListener>), StartError> {
    let fail = |source| StartError::Listen { addr, source };
    if addr.port() != 0 {
        // Sharing a port between our shards must not share it with another process in silence.
        socket(addr).and_then(|alone| alone.bind(&addr.into())).map_err(fail)?;
    }
    let mut settled = addr;
    let mut listeners = Vec::with_capacity(shards);
    for _ in 0..shards {
        let listener = listen(settled, driver).map_err(fail)?;
        settled = listener.local_addr().map_err(fail)?;
        listeners.push(listener);
    }
    Ok((settled, listeners))
}

fn listen(addr: SocketAddr, driver: Driver) -> io::Result<TcpListener> {
    let socket = socket(addr)?;
    socket.set_reuse_port(true)?;
    // A ring waits by itself, and answers EAGAIN at once for a socket that must not block.
    socket.set_nonblocking(driver == Driver::Epoll)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn socket(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_a_port_but_not_with_strangers() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (settled, listeners) = bind(any, 3, Driver::Epoll).unwrap();
        assert_eq!(listeners.len(), 3);
        assert_ne!(settled.port(), 0);
        let second = bind(settled, 1, Driver::Epoll);
        assert!(matches!(second, Err(StartError::Listen { .. })), "{second:?}");
    }
}
