//! Connections to engines, of one shard: kept alive, bounded, and tried again where that is safe.
//!
//! After the first byte of a reply nothing is sent again. A connection is never half closed: an
//! engine takes that for a hang-up.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::rt::net::TcpStream;
use crate::rt::time::now;
use bytes::{Bytes, BytesMut};
use rollgate_pipeline::engine::EngineRequest;
use rollgate_pipeline::fault::{Fault, FaultKind};
use rollgate_pipeline::http::{self, BodyState, ReplyReader};
use rollgate_pipeline::id::{SessionId, ShardIndex};
use rollgate_pipeline::limits::ENGINE_IDLE_CONNECTIONS;

use crate::bounds::{ENGINE_BACKOFF, TELL};
use crate::engine::Engine;
use crate::plane::Plane;
use crate::stats::Counters;
use crate::stream::{read, within, write};
use crate::wake::{Permit, Permits};

/// The shard's connections to every engine.
pub(crate) struct Pool {
    plane: Arc<Plane>,
    shard: ShardIndex,
    lanes: Vec<Lane>,
}

/// One engine.
struct Lane {
    permits: Rc<Permits>,
    idle: RefCell<Vec<TcpStream>>,
}

/// A reply that has begun.
pub(crate) struct Reply {
    stream: TcpStream,
    /// Bytes of the reply that were not taken yet.
    pub(crate) unread: BytesMut,
    engine: usize,
    deadline: Instant,
    _permit: Permit,
}

/// Which engine has a call, for whoever waits for the reply.
#[derive(Default)]
pub(crate) struct Asked(Cell<Option<usize>>);

/// Why there is no reply.
enum NoReply {
    /// Refused, reset or closed before any byte of a reply.
    Broken(String),
    /// It took too long.
    Late,
}

impl Reply {
    /// The engine that it comes from.
    pub(crate) fn asked(&self) -> Asked {
        Asked(Cell::new(Some(self.engine)))
    }
}

impl Asked {
    /// The engine's place in the configuration; `None` while the call waits for its turn.
    pub(crate) fn engine(&self) -> Option<usize> {
        self.0.get()
    }
}

impl Pool {
    pub(crate) fn new(plane: Arc<Plane>, shard: ShardIndex) -> Self {
        let lane = |engine: &Engine| Lane {
            permits: Permits::new(engine.per_shard),
            idle: RefCell::default(),
        };
        let lanes = plane.engines.iter().map(lane).collect();
        Self { plane, shard, lanes }
    }

    /// Asks an engine, and others when it cannot be reached. Returns with the first bytes of the
    /// reply.
    pub(crate) async fn call(
        &self,
        session: &SessionId,
        request: &EngineRequest,
        asked: &Asked,
    ) -> Result<Reply, Fault> {
        let engines = self.lanes.len();
        if engines == 0 {
            let message = "no engine is configured: name one in the node's configuration";
            return Err(Fault::new(FaultKind::EngineDown, message));
        }
        let first = usize::try_from(session.hash().0 % engines as u128).unwrap_or_default();
        let retries = self.plane.limits().engine_retries as usize;
        let mut attempt = 0;
        loop {
            let engine = (first + attempt) % engines;
            let reason = match self.attempt(engine, session, request, asked).await {
                Ok(reply) => return Ok(reply),
                Err(NoReply::Late) => return Err(self.late(engine)),
                Err(NoReply::Broken(reason)) => reason,
            };
            asked.0.set(None);
            if attempt == retries {
                return Err(self.down(engine, attempt + 1, &reason));
            }
            self.counters().engine_retries.add(1);
            crate::rt::time::sleep(ENGINE_BACKOFF[attempt.min(ENGINE_BACKOFF.len() - 1)]).await;
            attempt += 1;
        }
    }

    /// Reads more of the reply; `true` at its end.
    pub(crate) async fn more(&self, reply: &mut Reply) -> Result<bool, Fault> {
        let left = reply.deadline.saturating_duration_since(now());
        match within(left, read(&mut reply.stream, &mut reply.unread)).await {
            None => Err(self.late(reply.engine)),
            Some(Ok(read)) => Ok(read == 0),
            Some(Err(error)) => {
                let url = &self.plane.engines[reply.engine].url;
                let message = format!(
                    "the engine at {url} broke off in the middle of its reply ({error}): \
                     look at its log, then send the request again"
                );
                Err(Fault::new(FaultKind::EngineDown, message))
            }
        }
    }

    /// Takes back the connection of a reply that was read to its end.
    pub(crate) fn keep(&self, reply: Reply) {
        let mut idle = self.lanes[reply.engine].idle.borrow_mut();
        if idle.len() < ENGINE_IDLE_CONNECTIONS && reply.unread.is_empty() {
            idle.push(reply.stream);
        }
    }

    /// Tells an engine something about a call that it has. Waits for no turn, since this is to make
    /// room for others, and not for long. The error says why the engine did not take it in.
    pub(crate) async fn tell(
        &self,
        engine: usize,
        session: &SessionId,
        request: &EngineRequest,
    ) -> Result<(), String> {
        let deadline = now() + TELL;
        let bytes = self.bytes(engine, session, request);
        let told = async {
            let stream = self.connect(engine).await?;
            let (mut stream, mut unread) = self.ask(stream, bytes, deadline).await?;
            let mut reader = ReplyReader::new(self.plane.limits().engine_reply_bytes);
            let bad = |fault: Fault| NoReply::Broken(fault.message);
            let mut eof = false;
            while let BodyState::More = reader.read(&mut unread, eof).map_err(bad)? {
                let broken = |error: std::io::Error| NoReply::Broken(error.to_string());
                eof = read(&mut stream, &mut unread).await.map_err(broken)? == 0;
            }
            Ok(reader.into_parts().map_or(0, |(head, _)| head.status))
        };
        match within(TELL, told).await {
            Some(Ok(200..=299)) => Ok(()),
            Some(Ok(status)) => Err(format!("it answered with status {status}")),
            Some(Err(NoReply::Broken(reason))) => Err(reason),
            Some(Err(NoReply::Late)) | None => Err("it took too long".to_owned()),
        }
    }

    /// One try, on a kept connection first. The engine may have closed that meanwhile, which says
    /// nothing about the engine: then a fresh one follows at once.
    async fn attempt(
        &self,
        engine: usize,
        session: &SessionId,
        request: &EngineRequest,
        asked: &Asked,
    ) -> Result<Reply, NoReply> {
        // Waiting for its turn counts: an engine that is busy for that long is late, too.
        let limit = Duration::from_millis(self.plane.limits().engine_ms);
        let deadline = now() + limit;
        let permit = within(limit, self.lanes[engine].permits.take()).await;
        let permit = permit.ok_or(NoReply::Late)?;
        asked.0.set(Some(engine));
        self.counters().engine_calls.add(1);
        let bytes = self.bytes(engine, session, request);
        let kept = self.lanes[engine].idle.borrow_mut().pop();
        if let Some(stream) = kept {
            match self.ask(stream, bytes.clone(), deadline).await {
                Ok((stream, unread)) => {
                    return Ok(Reply { stream, unread, engine, deadline, _permit: permit });
                }
                Err(NoReply::Late) => return Err(NoReply::Late),
                Err(NoReply::Broken(_)) => self.lanes[engine].idle.borrow_mut().clear(),
            }
        }
        let stream = self.connect(engine).await?;
        let (stream, unread) = self.ask(stream, bytes, deadline).await?;
        Ok(Reply { stream, unread, engine, deadline, _permit: permit })
    }

    /// The request in one piece: a copy at memory speed, and one write.
    fn bytes(&self, engine: usize, session: &SessionId, request: &EngineRequest) -> Bytes {
        let engine = &self.plane.engines[engine];
        let length = request.body.iter().map(Bytes::len).sum();
        let path = format!("{}{}", engine.prefix, request.path);
        let session = session.to_string();
        let extra = [("X-SMG-Routing-Key", session.as_str())];
        let head = http::request_head(&engine.host, &path, length, &extra);
        let mut bytes = BytesMut::with_capacity(head.len() + length);
        bytes.extend_from_slice(&head);
        request.body.iter().for_each(|piece| bytes.extend_from_slice(piece));
        bytes.freeze()
    }

    async fn connect(&self, engine: usize) -> Result<TcpStream, NoReply> {
        let limit = Duration::from_millis(self.plane.limits().connect_ms);
        let broken = |error: std::io::Error| NoReply::Broken(error.to_string());
        let connected =
            within(limit, TcpStream::connect_addr(self.plane.engines[engine].addr)).await;
        let stream = connected
            .ok_or_else(|| NoReply::Broken("connecting took too long".to_owned()))?
            .map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        Ok(stream)
    }

    async fn ask(
        &self,
        mut stream: TcpStream,
        request: Bytes,
        deadline: Instant,
    ) -> Result<(TcpStream, BytesMut), NoReply> {
        let left = deadline.saturating_duration_since(now());
        let ask = async {
            let broken = |error: std::io::Error| NoReply::Broken(error.to_string());
            write(&mut stream, request, left).await.map_err(broken)?;
            let mut unread = BytesMut::new();
            match read(&mut stream, &mut unread).await.map_err(broken)? {
                0 => Err(NoReply::Broken("it closed the connection without a reply".to_owned())),
                _ => Ok(unread),
            }
        };
        let unread = within(left, ask).await.ok_or(NoReply::Late)??;
        Ok((stream, unread))
    }

    fn counters(&self) -> &Counters {
        &self.plane.door(self.shard).counters
    }

    fn down(&self, engine: usize, tries: usize, reason: &str) -> Fault {
        let url = &self.plane.engines[engine].url;
        let message = format!(
            "the engine at {url} cannot be reached ({reason}; {tries} tries): \
             check that it runs and that the address is right"
        );
        Fault::new(FaultKind::EngineDown, message)
    }

    fn late(&self, engine: usize) -> Fault {
        let url = &self.plane.engines[engine].url;
        let limit = self.plane.limits().engine_ms;
        let message = format!(
            "the engine at {url} did not finish its reply within {limit} ms: \
             look at its load, or raise limits.engine_ms"
        );
        Fault::new(FaultKind::EngineTimeout, message)
    }
}
