//! Engines, as one shard calls them: which one, when, on which connection, and what came of it.
//!
//! - [`affinity`]: a session's calls go to one engine while that is well and not overloaded.
//! - [`turnstile`], [`queue`]: how many calls an engine has at once, and whose turn is next.
//! - [`health`], [`probe`]: which engines are well.
//! - [`lane`]: connections that are kept. A connection is never half closed: an engine takes that for
//!   a hang-up.
//! - [`trail`]: what a call has been through that is made again. Whether it is, the exchange decides.

mod affinity;
pub(crate) mod health;
mod lane;
pub(crate) mod meter;
mod probe;
mod queue;
mod trail;
mod turnstile;

use std::cell::Cell;
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

use crate::EngineFailure;
use crate::bounds::{CIRCUIT_STRIKES, ENGINE_BACKOFF, TELL};
use crate::plane::Plane;
use crate::stats::Counters;
use crate::stream::{read, within, write_pieces};
use lane::Lane;
pub(crate) use probe::tend;
pub(crate) use trail::Trail;
use turnstile::{Permit, Turnstile};

/// The shard's connections to every engine.
pub(crate) struct Pool {
    plane: Arc<Plane>,
    shard: ShardIndex,
    lanes: Vec<Lane>,
    turnstile: Rc<Turnstile>,
}

/// A reply that has begun.
pub(crate) struct Reply {
    stream: TcpStream,
    /// Bytes of the reply that were not taken yet.
    pub(crate) unread: BytesMut,
    engine: usize,
    deadline: Instant,
    /// How long the call waited for its turn, in milliseconds.
    pub(crate) queued_ms: u64,
    _permit: Permit,
}

/// Which engine has a call, for whoever waits for the reply.
#[derive(Default)]
pub(crate) struct Asked(Cell<Option<usize>>);

/// Why there is no reply.
enum NoReply {
    /// There is no connection.
    Unreachable(String),
    /// Reset or closed before any byte of a reply.
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
        let lanes = plane.engines.iter().map(|_| Lane::default()).collect();
        let turnstile = Turnstile::new(plane.clone(), shard);
        Self { plane, shard, lanes, turnstile }
    }

    /// Asks an engine, once. Returns with the first bytes of the reply. A failure is noted in the
    /// trail, for the choice of the next engine.
    pub(crate) async fn call(
        &self,
        session: &SessionId,
        request: &EngineRequest,
        asked: &Asked,
        trail: &mut Trail,
    ) -> Result<Reply, Fault> {
        if self.lanes.is_empty() {
            let message = "no engine is configured: name one in the node's configuration";
            return Err(Fault::new(FaultKind::EngineDown, message));
        }
        // Waiting for its turn counts: engines that are busy for that long are late, too.
        let deadline = trail.deadline(Duration::from_millis(self.plane.limits().engine_ms));
        let left = deadline.saturating_duration_since(now());
        let turn = self.turnstile.take(session.hash().0, trail.failed());
        let (permit, queued_ms) = match within(left, turn).await {
            None => return Err(self.no_turn()),
            Some(Err(turnstile::Full)) => return Err(self.queue_full()),
            Some(Ok(turn)) => turn,
        };
        let engine = permit.engine;
        asked.0.set(Some(engine));
        match self.attempt(engine, session, request, deadline).await {
            Ok((stream, unread)) => {
                Ok(Reply { stream, unread, engine, deadline, queued_ms, _permit: permit })
            }
            Err(no_reply) => {
                asked.0.set(None);
                let tries = trail.tries() + 1;
                let (failure, fault) = match no_reply {
                    NoReply::Unreachable(reason) => {
                        (EngineFailure::Unreachable, self.down(engine, tries, &reason))
                    }
                    NoReply::Broken(reason) => {
                        (EngineFailure::Broken, self.down(engine, tries, &reason))
                    }
                    NoReply::Late => (EngineFailure::Late, self.late(engine)),
                };
                self.failed(engine, failure, &fault);
                trail.note(engine, failure, &fault);
                Err(fault)
            }
        }
    }

    /// Reads more of the reply; `true` at its end.
    pub(crate) async fn more(&self, reply: &mut Reply, trail: &mut Trail) -> Result<bool, Fault> {
        let stall_ms = self.plane.limits().engine_stall_ms;
        let left = reply.deadline.saturating_duration_since(now());
        let limit = left.min(Duration::from_millis(stall_ms));
        let url = &self.plane.engines[reply.engine].url;
        let broken = |what: String| {
            let message =
                format!("the engine at {url} {what}: look at its log, then send the request again");
            Fault::new(FaultKind::EngineDown, message)
        };
        let (failure, fault) = match within(limit, read(&mut reply.stream, &mut reply.unread)).await
        {
            Some(Ok(read)) => return Ok(read == 0),
            Some(Err(error)) => {
                let what = format!("broke off in the middle of its reply ({error})");
                (EngineFailure::Cut, broken(what))
            }
            None if limit < left => {
                let what = format!("sent nothing for {stall_ms} ms in the middle of its reply");
                (EngineFailure::Stalled, broken(what))
            }
            None => (EngineFailure::Late, self.late(reply.engine)),
        };
        self.failed(reply.engine, failure, &fault);
        trail.note(reply.engine, failure, &fault);
        Err(fault)
    }

    /// The reply was read and says this: what it means for the engine, and for the next choice.
    pub(crate) fn judge(&self, reply: &Reply, fault: Option<(&Fault, bool)>, trail: &mut Trail) {
        let engine = reply.engine;
        let Some((fault, cut)) = fault else { return self.succeeded(engine) };
        let failure = EngineFailure::of_reply(fault.kind, cut);
        self.failed(engine, failure, fault);
        trail.note(engine, failure, fault);
    }

    /// How long to wait before a call is made again: not at all where another engine can have it.
    pub(crate) fn back_off(&self, trail: &Trail) -> Option<Duration> {
        let (failure, fault) = trail.last()?;
        if self.turnstile.has_other(trail.failed()) {
            return None;
        }
        let pause = ENGINE_BACKOFF[trail.tries().clamp(1, ENGINE_BACKOFF.len()) - 1];
        let told = fault.retry_after_s.filter(|_| *failure == EngineFailure::Busy);
        Some(pause.max(Duration::from_secs(told.unwrap_or_default().into())))
    }

    /// A call is made again: it is counted, and told, since the engine may sample it twice.
    pub(crate) fn count_retry(&self, session: &SessionId, trail: &Trail) {
        let (Some((failure, _)), Some(&engine)) = (trail.last(), trail.failed().last()) else {
            return;
        };
        self.counters().engine_retries.add(1);
        let again = failure.may_have_sampled();
        self.counters().engine_resends.add(again.into());
        let (engine, reason) = (&self.plane.engines[engine].url, failure.label());
        tracing::info!(%session, engine, reason, may_sample_twice = again, "a call is made again");
    }

    /// Takes back the connection of a reply that was read to its end.
    pub(crate) fn keep(&self, reply: Reply) {
        if reply.unread.is_empty() {
            self.lanes[reply.engine].put(reply.stream);
        }
    }

    /// Closes connections that are too old, and lets calls through that have room meanwhile.
    fn tend(&self) {
        self.lanes.iter().for_each(|lane| lane.trim(self.idle_limit()));
        self.turnstile.pump();
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
            Some(Err(NoReply::Broken(reason) | NoReply::Unreachable(reason))) => Err(reason),
            Some(Err(NoReply::Late)) | None => Err("it took too long".to_owned()),
        }
    }

    /// One try, on a kept connection first. The engine may close that at the same moment, which says
    /// nothing about the engine: then a fresh one follows at once.
    async fn attempt(
        &self,
        engine: usize,
        session: &SessionId,
        request: &EngineRequest,
        deadline: Instant,
    ) -> Result<(TcpStream, BytesMut), NoReply> {
        self.counters().engine_calls.add(1);
        self.plane.meters[usize::from(self.shard.0)][engine].calls.add(1);
        let bytes = self.bytes(engine, session, request);
        if let Some(stream) = self.lanes[engine].take(self.idle_limit()) {
            match self.ask(stream, bytes.clone(), deadline).await {
                Err(NoReply::Broken(reason)) => {
                    self.lanes[engine].forget();
                    self.counters().engine_resends.add(1);
                    let engine = &self.plane.engines[engine].url;
                    tracing::info!(
                        %session, engine, %reason,
                        "a kept connection was closed under a call, which is made again"
                    );
                }
                asked => return asked,
            }
        }
        let stream = self.connect(engine).await?;
        self.ask(stream, bytes, deadline).await
    }

    /// The request in pieces; those of the body are shared, so that another try costs nothing.
    fn bytes(&self, engine: usize, session: &SessionId, request: &EngineRequest) -> Vec<Bytes> {
        let engine = &self.plane.engines[engine];
        let length = request.body.iter().map(Bytes::len).sum();
        let path = format!("{}{}", engine.prefix, request.path);
        let session = session.to_string();
        let extra = [("X-SMG-Routing-Key", session.as_str())];
        let head = http::request_head(&engine.host, &path, length, &extra);
        std::iter::once(head).chain(request.body.iter().cloned()).collect()
    }

    async fn connect(&self, engine: usize) -> Result<TcpStream, NoReply> {
        let limit = Duration::from_millis(self.plane.limits().connect_ms);
        let broken = |error: std::io::Error| NoReply::Unreachable(error.to_string());
        let connected =
            within(limit, TcpStream::connect_addr(self.plane.engines[engine].addr)).await;
        let stream = connected
            .ok_or_else(|| NoReply::Unreachable("connecting took too long".to_owned()))?
            .map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        Ok(stream)
    }

    async fn ask(
        &self,
        mut stream: TcpStream,
        request: Vec<Bytes>,
        deadline: Instant,
    ) -> Result<(TcpStream, BytesMut), NoReply> {
        let left = deadline.saturating_duration_since(now());
        let ask = async {
            let broken = |error: std::io::Error| NoReply::Broken(error.to_string());
            write_pieces(&mut stream, request, left).await.map_err(broken)?;
            let mut unread = BytesMut::new();
            match read(&mut stream, &mut unread).await.map_err(broken)? {
                0 => Err(NoReply::Broken("it closed the connection without a reply".to_owned())),
                _ => Ok(unread),
            }
        };
        let unread = within(left, ask).await.ok_or(NoReply::Late)??;
        Ok((stream, unread))
    }

    /// A connection of its own, for questions that are no calls. The error says why there is none.
    async fn open(&self, engine: usize) -> Result<TcpStream, String> {
        self.connect(engine).await.map_err(|no| match no {
            NoReply::Unreachable(reason) | NoReply::Broken(reason) => reason,
            NoReply::Late => "it took too long".to_owned(),
        })
    }

    fn failed(&self, engine: usize, failure: EngineFailure, fault: &Fault) {
        self.plane.meters[usize::from(self.shard.0)][engine].failed(failure);
        let strikes = &self.lanes[engine].strikes;
        let Some(cause) = failure.cause() else { return strikes.set(0) };
        strikes.set(strikes.get() + 1);
        if strikes.get() < CIRCUIT_STRIKES {
            return;
        }
        strikes.set(0);
        let looked_at = self.plane.limits().engine_health_ms > 0;
        let change = self.plane.healths[engine].trip(cause, looked_at, self.plane.now().mono_ms);
        self.plane.tell_change(engine, change, &fault.message);
    }

    fn succeeded(&self, engine: usize) {
        self.lanes[engine].strikes.set(0);
        let change = self.plane.healths[engine].succeeded();
        self.plane.tell_change(engine, change, "a call succeeded");
    }

    fn idle_limit(&self) -> Duration {
        Duration::from_millis(self.plane.limits().engine_idle_ms)
    }

    fn counters(&self) -> &Counters {
        &self.plane.door(self.shard).counters
    }

    fn no_turn(&self) -> Fault {
        let limit = self.plane.limits().engine_ms;
        let message = format!(
            "no engine had room for the call within {limit} ms: add engines, or raise \
             engines.max_in_flight where they can take more"
        );
        Fault::new(FaultKind::EngineTimeout, message)
    }

    fn queue_full(&self) -> Fault {
        let limit = self.plane.limits().engine_queue;
        let message = format!(
            "{limit} calls wait for an engine already (limits.engine_queue): send the request \
             again later"
        );
        Fault::new(FaultKind::Overload, message)
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
