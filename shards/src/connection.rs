//! One connection of an agent: request after request, until it ends or moves to another shard.

use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::rt::io::AsyncWriteRent;
use crate::rt::net::TcpStream;
use crate::rt::time::now;
use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, select};
use rollgate_pipeline::exchange;
use rollgate_pipeline::fault::{Fault, FaultKind};
use rollgate_pipeline::http::{self, Framing, Method, Plainer, RequestHead, Route};
use rollgate_pipeline::id::{SessionHash, ShardIndex};
use rollgate_pipeline::limits::HANDOVERS;
use rollgate_pipeline::planted::{self, Bug};
use rollgate_pipeline::protocol::Dialect;

use crate::bounds::{JOURNAL_WAITING_BYTES, KEPT_BUFFER_BYTES, LINGER, LINGER_BYTES};
use crate::command::Command;
use crate::exchange::{self as course, Lates};
use crate::fair::Turns;
use crate::guard::Memory;
use crate::handover::Socket;
use crate::sessions::Stay;
use crate::shard::Shard;
use crate::stats::LimitHit;
use crate::stream::{read, within, write};

/// A connection and what was read from it but not used yet.
pub(crate) struct Connection {
    pub(crate) shard: Rc<Shard>,
    pub(crate) stream: TcpStream,
    pub(crate) unread: BytesMut,
    /// What was answered, until the agent is known to have read it.
    pub(crate) lates: Lates,
    pub(crate) turns: Turns,
    /// Stands between our answers and an agent that speaks HTTP/1.0.
    plainer: Option<Plainer>,
    moves: u8,
}

/// What the agent did next.
enum Next {
    /// A request; its head also as it was read, where it may have to move.
    Request(RequestHead, Bytes),
    /// What it sent is no request. Nothing after it can be understood.
    Nonsense(Fault),
    /// It left, or was quiet for too long.
    End,
}

/// What follows a request.
pub(crate) enum After {
    /// Another request may follow.
    Again,
    /// The answer said that the connection closes.
    Close,
    /// There is nobody to answer.
    Gone,
    /// The connection broke.
    Cut,
}

/// Where a request is to be served.
enum Place {
    Here(Route, SessionHash),
    There(ShardIndex),
    /// It was answered.
    Nowhere(After),
}

/// Serves the connection. Panics of exchanges are dealt with inside.
pub(crate) async fn serve(shard: Rc<Shard>, stream: TcpStream, unread: BytesMut, moves: u8) {
    let mut connection = Connection::new(shard, stream, unread, moves);
    loop {
        // What was here before the answer was read says nothing about the answer.
        let pipelined = !connection.unread.is_empty();
        let after = match connection.next().await {
            Next::End => After::Gone,
            Next::Nonsense(fault) => connection.refuse(Dialect::Chat, &fault, false).await,
            Next::Request(mut head, raw) => {
                // Whoever asks again has read its answer.
                if !pipelined {
                    connection.lates.clear();
                }
                // One that moves on and on is asked to come back on a connection of its own.
                head.keep_alive &= connection.moves < HANDOVERS && !head.http10;
                connection.plainer = head.http10.then(Plainer::default);
                match connection.place(&head).await {
                    Place::Nowhere(after) => after,
                    Place::There(owner) => return connection.move_to(owner, raw).await,
                    Place::Here(route, hash) => connection.exchange(head, route, hash).await,
                }
            }
        };
        match after {
            After::Again => {
                connection.shed_buffer();
                connection.turns.answered().await;
            }
            After::Close => return connection.linger().await,
            After::Cut => return connection.broke().await,
            After::Gone => return,
        }
    }
}

/// Tells an agent that there is no room for its connection.
pub(crate) async fn turn_away(shard: Rc<Shard>, stream: TcpStream, most: u32) {
    let message = format!(
        "{most} connections are open on this shard (limits.connections_per_shard): send the request \
         again later"
    );
    let fault = Fault::new(FaultKind::Overload, message);
    let mut connection = Connection::new(shard, stream, BytesMut::new(), 0);
    let told = within(LINGER, connection.refuse(Dialect::Chat, &fault, false)).await;
    if let Some(After::Close) = told {
        connection.linger().await;
    }
}

impl Connection {
    fn new(shard: Rc<Shard>, stream: TcpStream, unread: BytesMut, moves: u8) -> Self {
        let (lates, turns) = (Lates::default(), Turns::default());
        Self { shard, stream, unread, lates, turns, plainer: None, moves }
    }

    /// Writes to the agent within its deadline; an error means that it is gone.
    pub(crate) async fn write(&mut self, bytes: Bytes) -> std::io::Result<()> {
        let bytes = match &mut self.plainer {
            Some(plainer) => plainer.pass(&bytes),
            None => bytes,
        };
        let piece = Duration::from_millis(self.shard.plane.limits().write_ms);
        let written = write(&mut self.stream, bytes, piece).await;
        if written.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::TimedOut) {
            self.shard.counters().hit(LimitHit::WriteMs);
        }
        written
    }

    /// Answers with a fault.
    pub(crate) async fn refuse(
        &mut self,
        dialect: Dialect,
        fault: &Fault,
        keep_alive: bool,
    ) -> After {
        self.shard.counters().faults.add(1);
        let keep_alive = keep_alive && !self.shard.plane.draining();
        match self.write(exchange::refusal(dialect, fault, keep_alive)).await {
            Err(_) => After::Cut,
            Ok(()) if keep_alive => After::Again,
            Ok(()) => After::Close,
        }
    }

    async fn next(&mut self) -> Next {
        let limits = self.shard.plane.limits();
        let idle = now() + Duration::from_millis(limits.idle_ms);
        let head_limit = Duration::from_millis(limits.head_ms);
        let mut begun = None;
        loop {
            if !self.unread.is_empty() {
                let raw = self.copy_of_head();
                let before = self.unread.len();
                match http::read_head(&mut self.unread) {
                    Ok(Some(head)) => {
                        return Next::Request(
                            head,
                            raw.slice(..raw.len().min(before - self.unread.len())),
                        );
                    }
                    Ok(None) => {}
                    Err(fault) => return Next::Nonsense(fault),
                }
                begun.get_or_insert_with(now);
            }
            let deadline = begun.map_or(idle, |begun: Instant| begun + head_limit);
            match self.read_or_drain(deadline).await {
                Some(Ok(read @ 1..)) => self.turns.read(read).await,
                Some(Ok(0)) => return Next::End,
                Some(Err(_)) => {
                    self.broke().await;
                    return Next::End;
                }
                None if begun.is_some() => {
                    self.shard.counters().hit(LimitHit::HeadMs);
                    let limit = self.shard.plane.limits().head_ms;
                    let message = format!("the rest of the head did not come within {limit} ms");
                    return Next::Nonsense(Fault::new(FaultKind::RequestTimeout, message));
                }
                None => {
                    if !self.shard.plane.draining() {
                        self.shard.counters().hit(LimitHit::IdleMs);
                    }
                    return Next::End;
                }
            }
        }
    }

    /// Reads; `None` when the deadline passes, or when it is idle and a drain begins.
    async fn read_or_drain(&mut self, deadline: Instant) -> Option<std::io::Result<usize>> {
        let left = deadline.saturating_duration_since(now());
        let idle = self.unread.is_empty();
        let shard = self.shard.clone();
        let draining = pin!(shard.drain.until(|| idle && shard.plane.draining()));
        let reading = pin!(within(left, read(&mut self.stream, &mut self.unread)));
        match select(reading, draining).await {
            Either::Left((read, _)) => read,
            Either::Right(_) => None,
        }
    }

    /// The bytes of the head in front, for the case that they have to move with the connection.
    fn copy_of_head(&self) -> Bytes {
        if self.shard.plane.shards().0 < 2 {
            return Bytes::new();
        }
        Bytes::copy_from_slice(&self.unread[..head_end(&self.unread)])
    }

    async fn place(&mut self, head: &RequestHead) -> Place {
        // Behind a refused request with a body, nobody knows where the next one begins; and whoever
        // asked with HEAD would take a refusal's body for the next answer.
        let keep_alive =
            head.keep_alive && head.framing == Framing::None && head.method != Method::Head;
        let route = match http::route(head) {
            Ok(route) => route,
            Err((dialect, fault)) => {
                return Place::Nowhere(self.refuse(dialect, &fault, keep_alive).await);
            }
        };
        if let Some((answer, keep_alive)) =
            exchange::without_session(&self.shard.plane.gatehouse, head, &route)
        {
            return Place::Nowhere(match self.write(answer).await {
                Err(_) => After::Cut,
                Ok(()) if keep_alive => After::Again,
                Ok(()) => After::Close,
            });
        }
        let refusal = if self.shard.plane.draining() {
            Fault::new(FaultKind::Draining, "the node is shutting down: send the request again")
        } else if let Some(key) = &route.key {
            let hash = key.hash();
            let owner = self.shard.plane.owner(hash);
            return if owner == self.shard.index {
                Place::Here(route, hash)
            } else {
                Place::There(owner)
            };
        } else {
            wrong_key()
        };
        Place::Nowhere(self.refuse(route.call.dialect(), &refusal, keep_alive).await)
    }

    async fn exchange(&mut self, head: RequestHead, route: Route, hash: SessionHash) -> After {
        let keep_alive = head.keep_alive && head.framing == Framing::None;
        let shard = self.shard.clone();
        let dialect = route.call.dialect();
        if let Some(fault) = overload(&shard) {
            return self.refuse(dialect, &fault, keep_alive).await;
        }
        let fault = match shard.sessions.find(hash).await {
            Ok(Some(stay)) => match closed(&stay).or_else(|| backlog(&shard, &stay)) {
                Some(fault) => fault,
                None => return course::run(self, &head, route, stay).await,
            },
            Ok(None) => wrong_key(),
            Err(fault) => fault,
        };
        self.refuse(dialect, &fault, keep_alive).await
    }

    /// Hands the connection over, the request's head in front of what was read after it.
    async fn move_to(mut self, owner: ShardIndex, raw: Bytes) {
        let mut unread = BytesMut::with_capacity(raw.len() + self.unread.len());
        unread.extend_from_slice(&raw);
        if !planted::on(Bug::MovedWithoutBody) {
            unread.extend_from_slice(&self.unread);
        }
        let moves = self.moves.saturating_add(1);
        let fault = match Socket::pack(&self.stream, unread, moves) {
            Ok(socket) => match self.shard.plane.door(owner).push(Command::Socket(socket)) {
                Ok(()) => return self.shard.counters().handovers_out.add(1),
                Err(_) => {
                    self.shard.counters().hit(LimitHit::Handovers);
                    let message =
                        "too many connections wait for their shard: send the request again";
                    Fault::new(FaultKind::Overload, message)
                }
            },
            Err(error) => {
                let message = format!("the connection cannot move to its shard: {error}");
                Fault::new(FaultKind::Overload, message)
            }
        };
        if let After::Close = self.refuse(Dialect::Chat, &fault, false).await {
            self.linger().await;
        }
    }

    /// Gives memory back that one large request took.
    fn shed_buffer(&mut self) {
        if self.unread.is_empty() && self.unread.capacity() > KEPT_BUFFER_BYTES {
            self.unread = BytesMut::new();
        }
    }

    /// Ends the connection such that the last answer arrives: whoever closes with unread bytes
    /// resets the connection, and the peer may lose what it was sent.
    async fn linger(mut self) {
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let discard = async {
            let mut discarded = 0;
            loop {
                self.unread.clear();
                match read(&mut self.stream, &mut self.unread).await {
                    Ok(0) => return,
                    Err(_) => return self.broke().await,
                    Ok(bytes) if discarded + bytes > LINGER_BYTES => return,
                    Ok(bytes) => discarded += bytes,
                }
            }
        };
        // Whoever still sends after that gets the reset.
        let _ = within(LINGER, discard).await;
    }
}

fn wrong_key() -> Fault {
    let message = "no session has this key: use the key that its session was created with";
    Fault::new(FaultKind::WrongKey, message)
}

/// Why the shard begins no exchange now, if so.
fn overload(shard: &Shard) -> Option<Fault> {
    let limit = shard.plane.limits().exchanges_per_shard;
    let (hit, why) = if shard.counters().in_flight.get() >= u64::from(limit) {
        let why =
            format!("{limit} exchanges are in flight on this shard (limits.exchanges_per_shard)");
        (LimitHit::ExchangesPerShard, why)
    } else if shard.plane.guard.memory() == Memory::Full {
        let why = "the node is short of memory (limits.memory_bytes)".to_owned();
        (LimitHit::MemoryBytes, why)
    } else {
        return None;
    };
    shard.counters().hit(hit);
    Some(Fault::new(FaultKind::Overload, format!("{why}: send the request again later")))
}

/// Why no exchange may begin in the session while its records wait, if so.
fn backlog(shard: &Shard, stay: &Stay) -> Option<Fault> {
    if stay.journal.waiting_bytes() <= JOURNAL_WAITING_BYTES {
        return None;
    }
    shard.counters().hit(LimitHit::JournalBytes);
    let message = "the session's records are written more slowly than they come: look at the disk, \
                   and send the request again later";
    Some(Fault::new(FaultKind::Overload, message))
}

/// Why no exchange may begin in the session, if so, that the session does not know itself.
fn closed(stay: &Stay) -> Option<Fault> {
    let closing = stay.closing.get() && !stay.sealed.get();
    closing.then(|| Fault::new(FaultKind::SessionClosed, "the session is being closed"))
}

/// Where the first head ends, blank line included; 0 when it does not.
fn head_end(bytes: &[u8]) -> usize {
    let Some(begin) = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')) else {
        return 0;
    };
    for (at, _) in bytes.iter().enumerate().skip(begin).filter(|(_, byte)| **byte == b'\n') {
        match bytes[at + 1..] {
            [b'\n', ..] => return at + 2,
            [b'\r', b'\n', ..] => return at + 3,
            _ => {}
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_at_its_blank_line() {
        for (text, end) in [
            ("", 0),
            ("\r\n", 0),
            ("GET / HTTP/1.1\r\n", 0),
            ("GET / HTTP/1.1\r\nA: b\r\n", 0),
            ("GET / HTTP/1.1\r\nA: b\r\n\r\n", 24),
            ("\r\n\r\nGET / HTTP/1.1\r\n\r\nbody\r\n\r\n", 22),
            ("GET / HTTP/1.1\n\nbody", 16),
        ] {
            assert_eq!(head_end(text.as_bytes()), end, "{text:?}");
        }
    }
}
