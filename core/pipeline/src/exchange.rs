//! One exchange, as a state machine without I/O.
//!
//! A shard gives it events and does what it [`Want`]s. It knows no dialect and no model family.
//!
//! Bytes of the agent become an engine call ([`prepare`]); the engine's reply becomes a record and
//! an answer ([`answer`]); the answer leaves only after the record is durable. A request may be the
//! retry of one that is under way or over ([`ticket`], [`retry`]), and a call may have to wait until
//! its engine samples again ([`park`]).
//!
//! An exchange whose agent is gone goes on as if it were not: its driver skips the writes, and the
//! journal says that the answer did not get there.

mod again;
mod answer;
mod aside;
mod budget;
mod count;
mod counts;
mod desk;
mod free;
mod park;
mod prepare;
mod prompt;
mod retry;
mod session;
mod ticket;

pub use aside::{EncodeJob, Encoded};
pub use desk::Desk;
pub use free::{refusal, without_session};
pub use session::{
    Gatehouse, ReplayError, Session, SessionDefaults, SessionState, rule_set, scene_set,
};

use std::rc::Rc;

use bytes::{Bytes, BytesMut};

use crate::engine::EngineRequest;
use crate::fault::{Fault, FaultKind, Whose};
use crate::http::{self, BodyState, Call, Framing, Header, ReplyReader, RequestHead, Route};
use crate::ingest::{Intake, Request};
use crate::protocol::{Dialect, StreamMeta};
use crate::render::HeadUse;
use crate::scene::Scene;
use crate::turn::ReplyForm;
use desk::Share;
use prepare::{Extent, Prepared};
use retry::Halted;
use session::InFlight;
use ticket::{Adoption, Kept, Key};

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
    /// What the exchanges of the shard share.
    pub desk: &'a mut Desk,
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
    /// Run this beside the shard, then call [`Exchange::encoded`] with what came of it; where nothing
    /// can, with a fault.
    Encode(EncodeJob),
    /// Wait until so much time has passed or another exchange of the session is over, whichever is
    /// first; then call [`Exchange::woken`].
    Wait {
        /// Longest wait, in milliseconds.
        ms: u64,
    },
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

/// What an exchange went through, for counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passage {
    /// It took over what another exchange with the same request had, whose agent was gone.
    pub adopted: bool,
    /// That was an answer already.
    pub replayed: bool,
    /// How often its turn was parked.
    pub parks: u32,
    /// How often the engine was asked again after that.
    pub resumptions: u32,
    /// Bytes of its body that were read, not having been seen before.
    pub unseen_bytes: u64,
    /// What became of the head of its prompt, where that was rendered whole.
    pub head: HeadUse,
    /// How many texts were too long to be encoded on the shard's own thread.
    pub encodes_aside: u32,
    /// Its tokens were counted: no engine was asked.
    pub counted: bool,
    /// It was cancelled, since its session is being closed.
    pub cancelled: bool,
    /// The fault that it was refused with.
    pub refused: Option<FaultKind>,
    /// It was refused since too many bytes of requests were on their way in (`limits.unseen_bytes`).
    pub crowded_out: bool,
    /// The scene of the turn that was recorded of it.
    pub recorded: Option<Scene>,
}

/// What becomes of a request's body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    /// The model is asked.
    Turn,
    /// The model is asked for a summary of the conversation.
    Compact,
    /// Its tokens are counted.
    Count,
}

impl Task {
    fn of(call: &Call) -> Self {
        match call {
            Call::CountTokens => Task::Count,
            Call::Compact => Task::Compact,
            _ => Task::Turn,
        }
    }
}

/// One exchange.
pub struct Exchange {
    dialect: Dialect,
    task: Task,
    /// The scene that the URL names.
    entry: Option<Scene>,
    /// The request's headers: evidence of what it is for.
    headers: Vec<Header>,
    /// Id of the reply, in 32 hex digits.
    id: String,
    keep_alive: bool,
    started: Now,
    /// When a stream last got bytes, in monotonic milliseconds; set once the head of one was sent.
    stream: Option<u64>,
    /// Whether the engine keeps its connection open after the reply that was read.
    engine_reusable: bool,
    /// What was wrong with the reply that was read last, until it is asked for.
    reply_fault: Option<Fault>,
    /// How long calls waited for their turn at an engine.
    queue_ms: u64,
    tries: again::Tries,
    /// What went wrong, where the agent is not to blame.
    fault: Option<Fault>,
    /// What its head says of who asks.
    lineage: ticket::Key,
    /// The model name the agent used, once that is known.
    model: String,
    /// How the answer is to be framed, once that is known.
    form: Option<ReplyForm>,
    /// What others with the same request see of it, once it is prepared.
    ticket: Option<ticket::Own>,
    /// The agent's connection is gone.
    gone: bool,
    /// The engine was told to give up, for want of an agent.
    given_up: bool,
    /// The answer that was written, in case it turns out that nobody read it.
    written: Option<Rc<Kept>>,
    passage: Passage,
    stage: Stage,
    /// Counts the exchange in its session for as long as it lives.
    _in_flight: InFlight,
}

enum Stage {
    Body(Box<Intake>, Share),
    /// The session's budget is all reserved: waits for calls under way.
    Queue(Box<Request>),
    /// Waits for what comes of the same request, whose agent is gone.
    Adopt {
        adoption: Adoption,
        request: Box<Request>,
    },
    /// Its prompt is being encoded beside the shard.
    Encode(Box<Halted>),
    /// Its prompt is known; the session's budget is all reserved: waits for calls under way.
    Room(Box<(Extent, Key)>),
    Engine {
        prepared: Box<Prepared>,
        reply: ReplyReader,
    },
    /// The engine gave up: waits before it is asked again.
    Park(Box<Prepared>),
    /// The answer waits for its record.
    Record(Rc<Kept>),
    /// The last bytes are on their way: of an answer, or of a refusal.
    Write(Option<Rc<Kept>>),
    /// What became of the answer is being recorded.
    Deliver,
    Over,
}

impl Exchange {
    /// Starts an exchange. Nothing of the body has been read.
    pub fn new(head: &RequestHead, route: &Route, cx: &mut Context<'_>) -> (Self, Want) {
        let mut exchange = Self {
            dialect: route.call.dialect(),
            task: Task::of(&route.call),
            // The path of a compaction names its scene, too.
            entry: route.scene.or((route.call == Call::Compact).then_some(Scene::Compaction)),
            headers: head.headers.clone(),
            id: format!("{:032x}", cx.random),
            keep_alive: head.keep_alive,
            started: cx.now,
            stream: None,
            engine_reusable: false,
            reply_fault: None,
            queue_ms: 0,
            tries: again::Tries::default(),
            fault: None,
            lineage: ticket::lineage(head, route),
            model: String::new(),
            form: None,
            ticket: None,
            gone: false,
            given_up: false,
            written: None,
            passage: Passage::default(),
            stage: Stage::Over,
            _in_flight: cx.session.enter(),
        };
        let body = cx
            .session
            .admit(cx.gatehouse)
            .and_then(|()| Intake::of(head, cx.gatehouse.limits.body_bytes));
        let want = match body {
            Ok(body) => {
                exchange.stage = Stage::Body(Box::new(body), cx.desk.share());
                Want::AgentBytes
            }
            Err(fault) => {
                // What was not read would be taken for the next request.
                exchange.keep_alive &= head.framing == Framing::None;
                exchange.refuse(&fault)
            }
        };
        (exchange, want)
    }

    /// Body bytes have been appended to `buf`; what belongs to this request is taken off it, sooner or
    /// later: a piece that may turn out to be known is left there until it is whole.
    /// Call it once at the start even when `buf` is empty, and after each read.
    pub fn agent_bytes(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Want {
        let hash = cx.desk.hash(cx.random);
        let Stage::Body(body, share) = &mut self.stage else { return self.misuse("agent_bytes") };
        let limit_bytes = cx.gatehouse.limits.unseen_bytes;
        if !body.compares() {
            body.compare(hash, || cx.session.seen.candidates(self.dialect));
        }
        let read = share.grow(body.unseen_bytes() as u64, limit_bytes).and_then(|()| {
            let state = body.read(buf)?;
            share.grow(body.held_bytes() as u64, limit_bytes).map(|()| state)
        });
        match read {
            Ok(BodyState::More) => Want::AgentBytes,
            Ok(BodyState::Done) => match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Body(body, _) => self.arrived(cx, body.into_arrived(hash)),
                _ => self.misuse("agent_bytes"),
            },
            Err(fault) => {
                self.keep_alive = false;
                match fault.kind {
                    FaultKind::Overload => {
                        self.passage.crowded_out = true;
                        self.fail(cx, &fault)
                    }
                    _ => self.refuse(&fault),
                }
            }
        }
    }

    /// Bytes of the request's body that are held while the rest of it comes in: those that were not
    /// seen before.
    pub fn held_bytes(&self) -> usize {
        match &self.stage {
            Stage::Body(body, _) => body.held_bytes(),
            _ => 0,
        }
    }

    /// Reply bytes have been appended to `buf`; `eof`: the engine closed the connection.
    pub fn engine_bytes(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut, eof: bool) -> Want {
        let Stage::Engine { reply, .. } = &mut self.stage else {
            return self.misuse("engine_bytes");
        };
        match reply.read(buf, eof) {
            Ok(BodyState::More) => Want::EngineBytes,
            Ok(BodyState::Done) => self.answer(cx),
            Err(fault) => {
                self.engine_reusable = false;
                self.reply_fault = Some(fault.clone());
                self.engine_failed(cx, &fault)
            }
        }
    }

    /// What was wrong with the engine's reply that was read last; told once. The exchange has gone
    /// on by then: it may want another call already.
    pub fn reply_fault(&mut self) -> Option<Fault> {
        self.reply_fault.take()
    }

    /// A call waited this long for its turn at an engine.
    pub fn queued(&mut self, ms: u64) {
        self.queue_ms = self.queue_ms.saturating_add(ms);
    }

    /// A [`Want::Wait`] is over.
    pub fn woken(&mut self, cx: &mut Context<'_>) -> Want {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            // Nothing was sampled for it yet, and who asks again asks for itself.
            Stage::Queue(_) if self.gone => {
                let message = "the agent left while the request waited for the session's budget";
                self.refuse(&Fault::new(FaultKind::RequestTimeout, message))
            }
            Stage::Queue(request) => self.begin(cx, request),
            Stage::Room(waiting) => self.ask_in_turn(cx, waiting.0, waiting.1),
            Stage::Adopt { adoption, request } => self.look_after(cx, adoption, request),
            Stage::Park(prepared) => self.unpark(cx, prepared),
            _ => self.misuse("woken"),
        }
    }

    /// The job of [`Want::Encode`] is done, or could not be done.
    pub fn encoded(&mut self, cx: &mut Context<'_>, encoded: Result<Encoded, Fault>) -> Want {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Encode(halted) => self.go_on(cx, *halted, encoded),
            _ => self.misuse("encoded"),
        }
    }

    /// The agent's connection is gone, or was cut while it took the answer. The exchange goes on: it
    /// may be asked for again. Call it once, whenever that is noticed; it changes no want. Writes
    /// that fail, or are skipped, are still reported as [`Exchange::written`].
    pub fn agent_gone(&mut self, _cx: &mut Context<'_>) {
        self.gone = true;
        if let Some(ticket) = &self.ticket {
            ticket.gone();
        }
    }

    /// What to send to the engine, besides the call that is under way, so that it gives up on it; then
    /// go on with the call. `None` where the engine has no such call, or none is under way: then drop
    /// the call's connection, or end the wait, and report [`Exchange::engine_failed`]. The shard asks
    /// once, when the agent has been gone for the grace period and nobody asked again
    /// ([`Exchange::adopted`]).
    pub fn give_up(&mut self, cx: &mut Context<'_>) -> Option<EngineRequest> {
        self.given_up = true;
        if let Some(ticket) = &self.ticket {
            ticket.close();
        }
        match &self.stage {
            Stage::Engine { prepared, .. } => cx.gatehouse.engine.abort_request(&prepared.call_id),
            _ => None,
        }
    }

    /// The session is being closed: like [`Exchange::give_up`], and whatever comes of the call is
    /// not given to the agent, which must not act on what no later call can follow.
    pub fn cancel(&mut self, cx: &mut Context<'_>) -> Option<EngineRequest> {
        self.passage.cancelled = true;
        self.give_up(cx)
    }

    /// Whether another exchange waits for what comes of this one, whose agent is gone.
    pub fn adopted(&self) -> bool {
        self.ticket.as_ref().is_some_and(|own| own.0.adopted())
    }

    /// Whether any byte of the engine's reply has been seen (then a resend may sample twice).
    pub fn engine_started(&self) -> bool {
        matches!(&self.stage, Stage::Engine { reply, .. } if reply.started())
    }

    /// Whether the engine's connection may be used again: its reply was read to the end.
    pub fn engine_reusable(&self) -> bool {
        self.engine_reusable
    }

    /// The fault that it ended in, where the agent is not to blame.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// The engine could not be asked or did not answer.
    pub fn engine_failed(&mut self, cx: &mut Context<'_>, fault: &Fault) -> Want {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Engine { prepared, .. } | Stage::Park(prepared) => {
                self.engine_fault(cx, prepared, fault.clone())
            }
            _ => self.fail(cx, fault),
        }
    }

    /// The frame is durable.
    pub fn durable(&mut self, cx: &mut Context<'_>) -> Want {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Record(kept) => self.hand_out(cx, kept),
            Stage::Deliver => self.done(),
            _ => self.misuse("durable"),
        }
    }

    /// The frame could not be written: nothing derived from it may leave.
    pub fn not_durable(&mut self, cx: &mut Context<'_>, fault: &Fault) -> Want {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            // The answer is out already, or nobody waits for it.
            Stage::Deliver => {
                self.fault = Some(fault.clone());
                self.done()
            }
            _ => {
                self.passage.recorded = None;
                self.fail(cx, fault)
            }
        }
    }

    /// The bytes of [`Want::Agent`] are with the kernel, or [`Exchange::agent_gone`] was called.
    pub fn written(&mut self, cx: &mut Context<'_>) -> Want {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Write(Some(kept)) => {
                self.written = Some(kept.clone()).filter(|_| !self.passage.cancelled);
                self.delivered(cx, &kept)
            }
            _ => self.done(),
        }
    }

    /// The exchange is over, its answer went to the kernel, and now the connection breaks in a way
    /// that says that the agent did not read all of it. For as long as the exchange is kept for
    /// this, nobody takes its answer for theirs; from now on a retry does.
    pub fn lost(&mut self, cx: &mut Context<'_>) -> Want {
        let Some(kept) = self.written.take().filter(|_| !self.gone) else { return self.done() };
        self.agent_gone(cx);
        kept.lost();
        self.delivered(cx, &kept)
    }

    /// What it has gone through so far.
    pub fn passage(&self) -> Passage {
        self.passage
    }

    /// Time passed while the exchange waits. Bytes to write to the agent now, if a
    /// sign of life is due.
    pub fn tick(&mut self, gatehouse: &Gatehouse, now: Now) -> Option<Bytes> {
        let waits = matches!(
            self.stage,
            Stage::Engine { .. }
                | Stage::Park(_)
                | Stage::Adopt { .. }
                | Stage::Queue(_)
                | Stage::Encode(_)
                | Stage::Room(_)
        );
        if !waits || !matches!(self.form, Some(ReplyForm::Events { .. })) {
            return None;
        }
        let (since, wait_ms) = match self.stream {
            None => (self.started.mono_ms, gatehouse.keepalive_first_ms),
            Some(last) => (last, gatehouse.keepalive_next_ms),
        };
        if now.mono_ms.saturating_sub(since) < wait_ms {
            return None;
        }
        let mut bytes = BytesMut::new();
        if self.stream.is_none() {
            bytes.extend_from_slice(&http::events_head(self.keep_alive, &[self.request_id()]));
        }
        bytes.extend_from_slice(&http::chunk(self.dialect.keepalive()));
        self.stream = Some(now.mono_ms);
        Some(bytes.freeze())
    }

    /// Answers with a fault that the session remembers, unless the agent is to blame: an agent that
    /// ends after it must not be judged by it.
    fn fail(&mut self, cx: &mut Context<'_>, fault: &Fault) -> Want {
        if fault.kind.whose() != Whose::Agent {
            cx.session.last_fault = Some(fault.kind);
            self.fault = Some(fault.clone());
        }
        if let Some(ticket) = &self.ticket {
            ticket.failed(fault);
        }
        self.refuse(fault)
    }

    /// Answers with a fault, in the stream if one has begun.
    fn refuse(&mut self, fault: &Fault) -> Want {
        self.stage = Stage::Write(None);
        self.passage.refused = Some(fault.kind);
        Want::Agent(self.frame_fault(fault))
    }

    /// A fault as bytes, continuing a stream that keepalives have begun.
    fn frame_fault(&self, fault: &Fault) -> Bytes {
        if self.stream.is_none() {
            return free::refusal_with(self.dialect, fault, self.keep_alive, &[self.request_id()]);
        }
        let event = self.dialect.error_event(fault, &self.stream_meta());
        let mut bytes = BytesMut::from(&http::chunk(&event)[..]);
        bytes.extend_from_slice(&http::last_chunk());
        bytes.freeze()
    }

    /// The header by which clients know an answer of a server from one of something in between.
    fn request_id(&self) -> (&'static str, &str) {
        (self.dialect.request_id_header(), &self.id)
    }

    fn stream_meta(&self) -> StreamMeta {
        let created_s = self.started.wall_ms / 1_000;
        StreamMeta { id: self.id.clone(), created_s, model: self.model.clone() }
    }

    /// The shard called what the stage does not expect: a bug of ours, answered as one.
    fn misuse(&mut self, call: &str) -> Want {
        self.keep_alive = false;
        self.refuse(&Fault::new(FaultKind::Internal, format!("unexpected event: {call}")))
    }
}

#[cfg(test)]
mod tests;
