//! Connections in memory: what is on its way, what has arrived, how each side ended.
//!
//! As with TCP: a close with unread bytes is a reset; a close without is an end behind everything
//! that was written; bytes for someone who has closed are answered with a reset.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::task::{Poll, Waker};

use super::world::{Event, Process, State, is_there, with};

/// One side of a connection.
pub(super) type End = u64;

/// All connections and listeners.
#[derive(Default)]
pub(super) struct Pipes {
    sides: BTreeMap<End, Side>,
    listeners: BTreeMap<u64, Listening>,
    next: u64,
}

enum Packet {
    Data(Vec<u8>),
    End,
    Reset,
}

struct Side {
    process: Process,
    peer: End,
    /// Descriptors of it. At zero it is closed.
    handles: u32,
    arrived: VecDeque<u8>,
    coming: VecDeque<(u64, Packet)>,
    coming_bytes: usize,
    capacity: usize,
    /// The peer's end has arrived.
    ended: bool,
    /// It was reset; the first read or write is told so.
    reset: bool,
    /// Our end was sent.
    shut: bool,
    /// Until then arriving bytes are lost with a read that was given up.
    ghost_until_ns: u64,
    readers: Vec<Waker>,
    /// Those who wait to write to this side.
    writers: Vec<Waker>,
}

struct Listening {
    process: Process,
    addr: SocketAddr,
    backlog: VecDeque<End>,
    closed: bool,
    waiting: Vec<Waker>,
}

impl Side {
    fn closed(&self) -> bool {
        self.handles == 0
    }

    fn room(&self) -> usize {
        self.capacity.saturating_sub(self.arrived.len() + self.coming_bytes)
    }
}

impl State {
    /// Puts a packet on its way; never before one that was sent earlier.
    fn send(&mut self, to: End, packet: Packet) {
        let delay = match self.rng.chance(self.faults.slow_packet) {
            true => self.rng.within(1_000_000..80_000_000),
            false => self.rng.within(10_000..200_000),
        };
        let at = self.now_ns + delay;
        let Some(side) = self.pipes.sides.get_mut(&to) else { return };
        let at = side.coming.back().map_or(at, |(last, _)| at.max(*last));
        if let Packet::Data(bytes) = &packet {
            side.coming_bytes += bytes.len();
        }
        side.coming.push_back((at, packet));
        self.at(at, Event::Arrive(to));
    }

    /// Ends this side as the kernel does when its last descriptor is closed.
    fn close(&mut self, end: End, hard: bool) {
        let Some(side) = self.pipes.sides.get_mut(&end) else { return };
        side.handles = 0;
        let unread = hard || !side.arrived.is_empty();
        side.arrived = VecDeque::new();
        let (peer, shut, reset) = (side.peer, side.shut, side.reset);
        side.shut = true;
        if reset {
            return;
        }
        if unread {
            self.note("reset sent", [end, peer]);
            self.send(peer, Packet::Reset);
        } else if !shut {
            self.send(peer, Packet::End);
        }
    }
}

fn wake(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

/// The next packet for this side is there.
pub(super) fn arrive(end: End) {
    let wakers = with(|world| {
        let purge = world.rng.chance(500);
        let now_ns = world.now_ns;
        let side = world.pipes.sides.get_mut(&end)?;
        let (_, packet) = side.coming.pop_front()?;
        let (peer, closed) = (side.peer, side.closed());
        match packet {
            Packet::Data(bytes) => {
                side.coming_bytes -= bytes.len();
                if side.reset {
                    return None;
                }
                if closed {
                    world.send(peer, Packet::Reset);
                    return None;
                }
                if side.ghost_until_ns > now_ns {
                    side.ghost_until_ns = 0;
                    world.note("lost with a read", [end, bytes.len() as u64]);
                    return None;
                }
                side.arrived.extend(bytes);
            }
            Packet::End => side.ended = true,
            Packet::Reset => {
                side.reset = true;
                if purge {
                    side.arrived = VecDeque::new();
                }
                world.note("reset arrived", [end, peer]);
            }
        }
        let mut wakers = Vec::new();
        let side = world.pipes.sides.get_mut(&end)?;
        wakers.append(&mut side.readers);
        if side.reset {
            // Who waits to write to the peer waits in vain.
            wakers.append(&mut world.pipes.sides.get_mut(&peer)?.writers);
        }
        Some(wakers)
    });
    wake(wakers.unwrap_or_default());
}

/// A listener of the process that runs.
pub(super) fn listen(addr: SocketAddr) -> u64 {
    with(|world| {
        let process = world.process;
        world.pipes.next += 1;
        let id = world.pipes.next;
        let listening = Listening {
            process,
            addr,
            backlog: VecDeque::new(),
            closed: false,
            waiting: Vec::new(),
        };
        world.pipes.listeners.insert(id, listening);
        id
    })
}

/// Whom the kernel deals a connection to this address to; the new side of it.
pub(super) fn connect(addr: SocketAddr) -> io::Result<End> {
    let (end, waiting) = with(|world| {
        let open: Vec<u64> = world
            .pipes
            .listeners
            .iter()
            .filter(|(_, listening)| listening.addr == addr && !listening.closed)
            .map(|(id, _)| *id)
            .collect();
        if open.is_empty() {
            return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
        }
        let id = open[world.rng.within(0..open.len() as u64) as usize];
        let capacity = match world.rng.chance(200) {
            true => world.rng.within(600..4_000),
            false => 256 << 10,
        };
        let near = world.pipes.next + 1;
        let far = near + 1;
        world.pipes.next = far;
        let process = world.process;
        let side = |process, peer| Side {
            process,
            peer,
            handles: 1,
            arrived: VecDeque::new(),
            coming: VecDeque::new(),
            coming_bytes: 0,
            capacity: capacity as usize,
            ended: false,
            reset: false,
            shut: false,
            ghost_until_ns: 0,
            readers: Vec::new(),
            writers: Vec::new(),
        };
        let Some(listening) = world.pipes.listeners.get_mut(&id) else {
            return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
        };
        listening.backlog.push_back(far);
        let waiting = std::mem::take(&mut listening.waiting);
        let owner = listening.process;
        world.pipes.sides.insert(near, side(process, far));
        world.pipes.sides.insert(far, side(owner, near));
        world.note("connect", [near, far]);
        Ok((near, waiting))
    })?;
    wake(waiting);
    Ok(end)
}

/// The next connection of a listener.
pub(super) fn accept(id: u64, waker: &Waker) -> Poll<io::Result<End>> {
    with(|world| match world.pipes.listeners.get_mut(&id) {
        Some(listening) if !listening.closed => match listening.backlog.pop_front() {
            Some(end) => Poll::Ready(Ok(end)),
            None => {
                listening.waiting.push(waker.clone());
                Poll::Pending
            }
        },
        _ => Poll::Ready(Err(io::ErrorKind::InvalidInput.into())),
    })
}

/// Ends a listener. Connections that wait to be accepted are reset.
pub(super) fn close_listener(id: u64) {
    let waiting = with(|world| {
        let listening = world.pipes.listeners.get_mut(&id)?;
        listening.closed = true;
        let backlog = std::mem::take(&mut listening.backlog);
        let waiting = std::mem::take(&mut listening.waiting);
        backlog.into_iter().for_each(|end| world.close(end, true));
        Some(waiting)
    });
    wake(waiting.unwrap_or_default());
}

/// Takes up to `most` bytes; 0 is the end.
pub(super) fn read(end: End, most: usize, waker: &Waker) -> Poll<io::Result<Vec<u8>>> {
    let taken = with(|world| {
        let short = world.rng.chance(world.faults.short);
        let part = world.rng.next();
        let side = world.pipes.sides.get_mut(&end)?;
        if !side.arrived.is_empty() {
            let mut most = most.min(side.arrived.len());
            if short {
                most = 1 + part as usize % most;
            }
            let bytes: Vec<u8> = side.arrived.drain(..most).collect();
            return Some((Poll::Ready(Ok(bytes)), std::mem::take(&mut side.writers)));
        }
        let done = if side.reset {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        } else if side.ended {
            Poll::Ready(Ok(Vec::new()))
        } else {
            side.readers.push(waker.clone());
            Poll::Pending
        };
        Some((done, Vec::new()))
    });
    let Some((read, writers)) = taken else {
        return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
    };
    wake(writers);
    read
}

/// Whether a read would not wait.
pub(super) fn readable(end: End, waker: &Waker) -> Poll<()> {
    with(|world| match world.pipes.sides.get_mut(&end) {
        Some(side) if side.arrived.is_empty() && !side.reset && !side.ended => {
            side.readers.push(waker.clone());
            Poll::Pending
        }
        _ => Poll::Ready(()),
    })
}

/// Whether the end has arrived and nothing is left before it.
pub(super) fn has_ended(end: End) -> bool {
    with(|world| {
        let side = world.pipes.sides.get(&end);
        side.is_some_and(|side| side.arrived.is_empty() && side.ended && !side.reset)
    })
}

/// Whether the other end has neither closed nor sent anything that has arrived.
pub(super) fn is_quiet(end: End) -> bool {
    with(|world| {
        let side = world.pipes.sides.get(&end);
        side.is_some_and(|side| side.arrived.is_empty() && !side.ended && !side.reset)
    })
}

/// A read was dropped before it was done.
pub(super) fn read_given_up(end: End) {
    with(|world| {
        let lost = world.rng.chance(world.faults.lost_read);
        let until_ns = world.now_ns + 500_000;
        if let Some(side) = world.pipes.sides.get_mut(&end).filter(|_| lost) {
            side.ghost_until_ns = until_ns;
        }
    });
}

/// Sends a part of these bytes, at least one.
pub(super) fn write(end: End, bytes: &[u8], waker: &Waker) -> Poll<io::Result<usize>> {
    with(|world| {
        let short = world.rng.chance(world.faults.short);
        let part = world.rng.next();
        let cut = world.rng.chance(world.faults.reset);
        let Some(side) = world.pipes.sides.get(&end) else { return broken() };
        if side.reset || side.shut {
            return broken();
        }
        let peer = side.peer;
        if cut {
            world.note("cut", [end, peer]);
            world.send(end, Packet::Reset);
            world.send(peer, Packet::Reset);
            return Poll::Ready(Ok(bytes.len()));
        }
        let Some(other) = world.pipes.sides.get_mut(&peer) else { return broken() };
        let mut most = bytes.len().min(other.room());
        if most == 0 {
            other.writers.push(waker.clone());
            return Poll::Pending;
        }
        if short {
            most = 1 + part as usize % most;
        }
        world.note("write", [end, most as u64]);
        world.send(peer, Packet::Data(bytes[..most].to_vec()));
        Poll::Ready(Ok(most))
    })
}

fn broken<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
}

/// Nothing more will be sent.
pub(super) fn shut(end: End) -> io::Result<()> {
    with(|world| {
        let Some(side) = world.pipes.sides.get_mut(&end).filter(|side| !side.reset) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let peer = side.peer;
        if !std::mem::replace(&mut side.shut, true) {
            world.send(peer, Packet::End);
        }
        Ok(())
    })
}

/// One more descriptor.
pub(super) fn keep(end: End) {
    with(|world| {
        if let Some(side) = world.pipes.sides.get_mut(&end) {
            side.handles += 1;
        }
    });
}

/// One descriptor less. `hard`: the connection is reset with it.
pub(super) fn let_go(end: End, hard: bool) {
    if !is_there() {
        return;
    }
    with(|world| {
        let Some(side) = world.pipes.sides.get_mut(&end) else { return };
        // Those of a killed process are closed already.
        if side.handles == 0 {
            return;
        }
        side.handles -= 1;
        if side.handles == 0 {
            world.close(end, hard);
        }
    });
}

/// The kernel closes what a process has left behind.
pub(super) fn close_all(process: Process) {
    let listeners = with(|world| {
        let of = world.pipes.listeners.iter().filter(|(_, it)| it.process == process);
        of.map(|(id, _)| *id).collect::<Vec<_>>()
    });
    listeners.into_iter().for_each(close_listener);
    with(|world| {
        let of = world.pipes.sides.iter();
        let open = of.filter(|(_, side)| side.process == process && side.handles > 0);
        let open: Vec<End> = open.map(|(end, _)| *end).collect();
        open.into_iter().for_each(|end| world.close(end, false));
    });
}
