//! Driving one exchange: doing what it wants, telling it what came of that.
//!
//! Decisions are the pipeline's. Here are deadlines, order, and what happens when a step panics.

mod engine;
mod late;
mod stages;
mod watch;

use std::convert::identity;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use rollgate_pipeline::exchange::{Context, Desk, Exchange, Want};
use rollgate_pipeline::fault::{Fault, FaultKind};
use rollgate_pipeline::http::{self, Framing, RequestHead, Route};
use rollgate_pipeline::limits::BODY_BYTES_PER_S;
use rollgate_pipeline::planted::{self, Bug};
use rollgate_pipeline::protocol::Dialect;
use rollgate_pipeline::render::HeadUse;

use crate::bodies::Held;
use crate::bounds::ROOM;
use crate::connection::{After, Connection};
use crate::pool::{Reply, Trail};
use crate::rt::time::now;
use crate::sessions::{ExchangeSeat, Stay};
use crate::shard::Shard;
use crate::stats::LimitHit;
use crate::stream::{has_ended, read, within};
pub(crate) use late::{Lates, Watched};
use stages::Stages;
use watch::{Leave, Pause, Presence};

/// One exchange under way.
struct Course<'a> {
    agent: &'a mut Connection,
    shard: Rc<Shard>,
    exchange: Exchange,
    _in_flight: InFlight,
    _seat: ExchangeSeat,
    stay: Stay,
    /// The engine's reply, while it is read.
    reply: Option<Reply>,
    /// What the call has been through.
    trail: Trail,
    body: Body,
    /// What is held of it.
    held: Held,
    presence: Presence,
    /// Something of an answer has left.
    answered: bool,
    stages: Stages,
}

/// How far the request's body is.
enum Body {
    /// Nothing was asked for.
    Untouched {
        /// The agent waits for a word before it sends.
        wait: bool,
    },
    /// What had been read with the head was given to the exchange.
    Begun {
        /// See [`Body::Untouched`].
        wait: bool,
        /// Since when more is waited for, in monotonic milliseconds.
        since_ms: u64,
        /// Bytes that came since.
        bytes: u64,
    },
}

/// Why a course ends before its exchange says so.
enum Broken {
    /// A step panicked.
    Panic,
    /// The request never came whole.
    NoBody(Option<Fault>),
    /// The connection broke before the request was whole.
    Cut,
}

/// Serves one exchange of the session.
pub(crate) async fn run(
    agent: &mut Connection,
    head: &RequestHead,
    route: Route,
    stay: Stay,
) -> After {
    let shard = agent.shard.clone();
    let (in_flight, mut stages) = (InFlight::begin(&shard), Stages::begin());
    let seat = stay.sit();
    let dialect = route.call.dialect();
    let since = now();
    let begun = step(&shard, &stay, |cx| Exchange::new(head, &route, cx));
    stages.worked(now().saturating_duration_since(since));
    let Ok((exchange, want)) = begun else {
        return panicked(agent, &stay, dialect, false).await;
    };
    let wait = head.expect_continue && head.framing != Framing::None && agent.unread.is_empty();
    let held = Held::new(&shard.bodies);
    let mut course = Course {
        agent,
        shard,
        exchange,
        _in_flight: in_flight,
        _seat: seat,
        stay,
        reply: None,
        trail: Trail::default(),
        body: Body::Untouched { wait },
        held,
        presence: Presence::default(),
        answered: false,
        stages,
    };
    let driven = course.drive(want).await;
    course.hold(0);
    match driven {
        Ok(keep_alive) => course.end(keep_alive),
        Err(Broken::NoBody(None)) => After::Gone,
        Err(Broken::Cut) => After::Cut,
        Err(Broken::NoBody(Some(fault))) => course.agent.refuse(dialect, &fault, false).await,
        Err(Broken::Panic) => {
            let answered = course.answered || course.presence.cut();
            panicked(course.agent, &course.stay, dialect, answered).await
        }
    }
}

/// The session goes back to what its journal says.
async fn panicked(agent: &mut Connection, stay: &Stay, dialect: Dialect, answered: bool) -> After {
    tracing::error!(session = %stay.id, "an exchange panicked: its session is loaded anew");
    agent.shard.sessions.forget(stay.cell());
    agent.shard.panicked();
    if answered {
        return After::Gone;
    }
    let message = "a bug of ours ended this exchange; nothing was recorded: send it again";
    agent.refuse(dialect, &Fault::new(FaultKind::Internal, message), false).await
}

/// Lets the exchange take one step, with the session borrowed for no longer than that.
fn step<T>(
    shard: &Shard,
    stay: &Stay,
    take: impl FnOnce(&mut Context<'_>) -> T,
) -> Result<T, Broken> {
    let (mut session, mut desk) = (stay.session.borrow_mut(), shard.desk.borrow_mut());
    let mut cx = Context {
        gatehouse: &shard.gatehouse,
        session: &mut session,
        desk: &mut desk,
        now: shard.plane.now(),
        random: shard.random(),
    };
    // What a panic leaves behind, session, desk and exchange, is never used again.
    catch_unwind(AssertUnwindSafe(|| take(&mut cx))).map_err(|_| {
        *desk = Desk::default();
        Broken::Panic
    })
}

impl Course<'_> {
    /// Does what the exchange wants until it is over. Whether another request may follow.
    async fn drive(&mut self, mut want: Want) -> Result<bool, Broken> {
        loop {
            let waiting = self.stages.wait(&want);
            want = match want {
                Want::AgentBytes => self.agent_bytes().await?,
                Want::Engine(request) => self.engine(request).await?,
                Want::EngineBytes => self.engine_bytes().await?,
                Want::Encode(job) => self.encode(job).await?,
                Want::Wait { ms } => self.wait(ms).await?,
                Want::Durable(frame) => self.durable(frame).await?,
                Want::Agent(bytes) => self.agent(bytes).await?,
                Want::Done { keep_alive } => {
                    self.release_engine();
                    self.count();
                    if let Some(fault) = self.exchange.fault() {
                        let (session, kind) = (&self.stay.id, fault.kind.label());
                        tracing::warn!(%session, kind, "an exchange failed: {fault}");
                    }
                    return Ok(keep_alive);
                }
            };
            self.stages.waited(&waiting);
        }
    }

    fn count(&self) {
        let (passage, counters) = (self.exchange.passage(), self.shard.counters());
        counters.retries_adopted.add(passage.adopted.into());
        counters.answers_replayed.add(passage.replayed.into());
        counters.turns_parked.add(passage.parks.into());
        counters.turns_resumed.add(passage.resumptions.into());
        counters.counted.add(passage.counted.into());
        counters.cancelled.add(passage.cancelled.into());
        counters.heads_known.add((passage.head == HeadUse::Known).into());
        counters.heads_new.add((passage.head == HeadUse::New).into());
        counters.encodes_aside.add(passage.encodes_aside.into());
        if passage.refused == Some(FaultKind::BodyTooLarge) {
            counters.hit(LimitHit::BodyBytes);
        }
        if passage.crowded_out {
            counters.hit(LimitHit::UnseenBytes);
        }
        if let Some(scene) = passage.recorded {
            counters.turn(scene);
        }
        self.stages.end(counters, &self.stay, &self.exchange);
    }

    fn step<T>(
        &mut self,
        take: impl FnOnce(&mut Exchange, &mut Context<'_>) -> T,
    ) -> Result<T, Broken> {
        let (exchange, since) = (&mut self.exchange, now());
        let taken = step(&self.shard, &self.stay, |cx| take(exchange, cx));
        self.stages.worked(now().saturating_duration_since(since));
        taken
    }

    async fn agent_bytes(&mut self) -> Result<Want, Broken> {
        let now_ms = self.shard.plane.now().mono_ms;
        match self.body {
            Body::Untouched { wait } => {
                self.body = Body::Begun { wait, since_ms: now_ms, bytes: 0 };
            }
            Body::Begun { wait, since_ms, bytes } => {
                if wait {
                    let go_on = Bytes::from_static(http::CONTINUE);
                    self.agent.write(go_on).await.map_err(|_| Broken::Cut)?;
                }
                self.room().await?;
                let read = self.read_body(now_ms.saturating_sub(since_ms), bytes).await?;
                self.body = Body::Begun { wait: false, since_ms, bytes: bytes + read as u64 };
                self.agent.turns.read(read).await;
            }
        }
        let mut unread = std::mem::take(&mut self.agent.unread);
        let want = self.step(|exchange, cx| exchange.agent_bytes(cx, &mut unread));
        self.agent.unread = unread;
        self.hold(self.exchange.held_bytes() as u64);
        want
    }

    /// Takes note of how much is held of the body.
    fn hold(&mut self, bytes: u64) {
        self.held.set(bytes);
        self.shard.counters().bodies_bytes.set(self.shard.bodies.held_bytes());
    }

    /// Waits until bodies on their way in have room for more.
    async fn room(&self) -> Result<(), Broken> {
        let most_bytes = self.shard.plane.limits().bodies_bytes_per_shard;
        if self.held.room(most_bytes, ROOM).await {
            return Ok(());
        }
        self.shard.counters().hit(LimitHit::BodiesBytesPerShard);
        let message = format!(
            "request bodies of more than {most_bytes} bytes are on their way in \
             (limits.bodies_bytes_per_shard): send the request again later"
        );
        Err(Broken::NoBody(Some(Fault::new(FaultKind::Overload, message))))
    }

    /// Reads more of the body. A piece must come in time, and all of it at a least rate.
    async fn read_body(&mut self, waited_ms: u64, bytes: u64) -> Result<usize, Broken> {
        let limit_ms = self.shard.plane.limits().body_ms;
        let fair_ms = limit_ms.saturating_add(bytes.saturating_mul(1_000) / BODY_BYTES_PER_S);
        let left_ms = match waited_ms < limit_ms {
            true => limit_ms,
            false => limit_ms.min(fair_ms.saturating_sub(waited_ms)),
        };
        let reading = read(&mut self.agent.stream, &mut self.agent.unread);
        match within(Duration::from_millis(left_ms), reading).await {
            Some(Ok(read @ 1..)) => Ok(read),
            Some(Ok(0)) => Err(Broken::NoBody(None)),
            Some(Err(_)) => Err(Broken::Cut),
            None => {
                self.shard.counters().hit(LimitHit::BodyMs);
                let message = if left_ms == limit_ms {
                    format!("no more of the body came for {limit_ms} ms")
                } else {
                    format!(
                        "after {waited_ms} ms the body came more slowly than \
                         {BODY_BYTES_PER_S} bytes a second"
                    )
                };
                Err(Broken::NoBody(Some(Fault::new(FaultKind::RequestTimeout, message))))
            }
        }
    }

    async fn durable(&mut self, frame: Bytes) -> Result<Want, Broken> {
        // The frame takes its place before anything is awaited: the order of steps is the order of
        // the journal.
        let recorded = if self.stay.sealed.get() && !planted::on(Bug::SealedTakesTurns) {
            let message = "the session was sealed while this exchange was under way";
            Err(Fault::new(FaultKind::SessionClosed, message))
        } else {
            let cell = self.stay.cell().clone();
            let append = cell.journal.append(frame);
            match planted::on(Bug::AnswerBeforeRecord) {
                true => Ok(()),
                false => self.watched(Pause::Record, append).await?.and_then(identity),
            }
        };
        match recorded {
            Ok(()) => self.step(Exchange::durable),
            Err(fault) => {
                self.shard.counters().faults.add(1);
                self.shard.sessions.forget(self.stay.cell());
                self.step(|exchange, cx| exchange.not_durable(cx, &fault))
            }
        }
    }

    async fn agent(&mut self, bytes: Bytes) -> Result<Want, Broken> {
        // Who closed before the answer was written has not read it. Records are written too fast to
        // be watched, so it is looked at here.
        if !self.presence.alone() && has_ended(&self.agent.stream) {
            self.left(Leave::End)?;
        }
        self.show_agent(bytes).await?;
        if !self.presence.cut() {
            self.presence.answered();
        }
        self.step(Exchange::written)
    }

    /// Writes, unless nobody can read any more.
    async fn show_agent(&mut self, bytes: Bytes) -> Result<(), Broken> {
        if self.presence.cut() {
            return Ok(());
        }
        self.answered = true;
        match self.agent.write(bytes).await {
            Ok(()) => Ok(()),
            Err(_) => self.left(Leave::Cut),
        }
    }
}

/// Counts an exchange while it is under way.
struct InFlight {
    shard: Rc<Shard>,
}

impl InFlight {
    fn begin(shard: &Rc<Shard>) -> Self {
        shard.counters().exchanges.add(1);
        shard.counters().in_flight.add(1);
        Self { shard: shard.clone() }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.shard.counters().in_flight.sub(1);
    }
}
