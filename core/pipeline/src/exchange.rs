//! One exchange, as a state machine without I/O.
//!
//! A shard gives it events and does what it [`Want`]s. It knows no protocol and no model family.

mod session;

pub use session::{Gatehouse, Session, SessionState};

use bytes::{Bytes, BytesMut};

use crate::engine::EngineRequest;
use crate::fault::Fault;
use crate::http::{RequestHead, Route};

/// The time, as the shard sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// Milliseconds since the epoch.
    pub wall_ms: u64,
    /// Milliseconds of a clock that never goes back.
    pub mono_ms: u64,
}

/// What an exchange may use while it takes a step.
pub struct Context<'a> {
    /// What all exchanges of the node share.
    pub gatehouse: &'a Gatehouse,
    /// The session it belongs to. Not held between steps.
    pub session: &'a mut Session,
    /// The time.
    pub now: Now,
    /// Fresh random bits.
    pub random: u128,
}

/// What an exchange wants next.
#[derive(Debug)]
pub enum Want {
    /// Bytes of the request's body: read, then call [`Exchange::agent_bytes`].
    AgentBytes,
    /// Send this to an engine, then feed what it answers to [`Exchange::engine_bytes`]; when that
    /// fails, call [`Exchange::engine_failed`].
    Engine(EngineRequest),
    /// More bytes of the engine's reply.
    EngineBytes,
    /// Append this frame to the session's journal, in the order in which frames were handed out
    /// within the session; then call [`Exchange::durable`] or [`Exchange::not_durable`].
    Durable(Bytes),
    /// Write these bytes to the agent, then call [`Exchange::written`].
    Agent(Bytes),
    /// The exchange is over. Without `keep_alive` the connection is closed.
    Done {
        /// Whether another request may follow on the connection.
        keep_alive: bool,
    },
}

/// One exchange.
pub struct Exchange {}

impl Exchange {
    /// Starts an exchange. Nothing of the body has been read.
    pub fn new(_head: &RequestHead, _route: Route, _cx: &mut Context<'_>) -> (Self, Want) {
        todo!()
    }
    /// Body bytes have been appended to `buf`; what belongs to this request is taken off it.
    /// Call it once at the start even when `buf` is empty, and after each read.
    pub fn agent_bytes(&mut self, _cx: &mut Context<'_>, _buf: &mut BytesMut) -> Want {
        todo!()
    }
    /// Reply bytes have been appended to `buf`; `eof`: the engine closed the connection.
    pub fn engine_bytes(&mut self, _cx: &mut Context<'_>, _buf: &mut BytesMut, _eof: bool) -> Want {
        todo!()
    }
    /// Whether the engine's connection may be used again, once it was read to the end.
    pub fn engine_reusable(&self) -> bool {
        todo!()
    }
    /// Whether any byte of the engine's reply has been seen (then a resend may sample twice).
    pub fn engine_started(&self) -> bool {
        todo!()
    }
    /// The engine could not be asked or did not answer.
    pub fn engine_failed(&mut self, _cx: &mut Context<'_>, _fault: Fault) -> Want {
        todo!()
    }
    /// The frame is durable.
    pub fn durable(&mut self, _cx: &mut Context<'_>) -> Want {
        todo!()
    }
    /// The frame could not be written: nothing derived from it may leave.
    pub fn not_durable(&mut self, _cx: &mut Context<'_>, _fault: Fault) -> Want {
        todo!()
    }
    /// The bytes of [`Want::Agent`] are with the kernel.
    pub fn written(&mut self, _cx: &mut Context<'_>) -> Want {
        todo!()
    }
    /// Time passed while the exchange waits for an engine. Bytes to write to the agent now, if a
    /// sign of life is due.
    pub fn tick(&mut self, _gatehouse: &Gatehouse, _now: Now) -> Option<Bytes> {
        todo!()
    }
}

/// The answer to a request that belongs to no session: hello, health, models without one, and every
/// refusal. The connection is to be closed after it unless `keep_alive`.
pub fn refusal(_dialect: crate::protocol::Dialect, _fault: &Fault, _keep_alive: bool) -> Bytes {
    todo!()
}

/// The answer to a call that needs no session, if it is one.
pub fn without_session(
    _gatehouse: &Gatehouse,
    _head: &RequestHead,
    _route: &Route,
) -> Option<Bytes> {
    todo!()
}
