//! One shard: a thread, its runtime, its sessions, and the loop that lets things in.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::rt::net::{Bound, TcpStream};
use bytes::BytesMut;
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use rollgate_pipeline::exchange::{Desk, Gatehouse};
use rollgate_pipeline::id::ShardIndex;

use crate::aside::Helper;
use crate::bodies::Bodies;
use crate::bounds::{ACCEPT_PAUSE, COMMANDS_AT_ONCE, SWEEP, TURNED_AWAY_AT_ONCE};
use crate::command::{Command, answer};
use crate::connection;
use crate::exchange::Watched;
use crate::guard::Memory;
use crate::handover::Socket;
use crate::journal::{Files, Journals};
use crate::plane::{Door, Plane};
use crate::pool::{self, Pool};
use crate::sessions::Sessions;
use crate::stall;
use crate::stats::{Counters, LimitHit};
use crate::stream::within;
use crate::wake::Bell;

/// What the tasks of a shard share. Never leaves its thread.
pub(crate) struct Shard {
    pub(crate) plane: Arc<Plane>,
    /// The node's, with a model that no other thread renders or encodes with.
    pub(crate) gatehouse: Gatehouse,
    pub(crate) index: ShardIndex,
    pub(crate) sessions: Rc<Sessions>,
    pub(crate) pool: Pool,
    pub(crate) helper: Helper,
    /// Rings when the drain begins.
    pub(crate) drain: Bell,
    random: RefCell<Random>,
    pub(crate) desk: RefCell<Desk>,
    /// Request bodies on their way in.
    pub(crate) bodies: Rc<Bodies>,
    /// Connections whose last answers may not have been read.
    pub(crate) lates: Watched,
    /// Connections that are told that there is no room.
    turned_away: Cell<usize>,
    /// Connections and commands at work.
    tasks: Cell<usize>,
    commands: Cell<usize>,
    /// Rings when a task ends.
    ended: Bell,
}

/// Lives until the drain is over.
pub(crate) async fn run(
    plane: Arc<Plane>,
    gatehouse: Gatehouse,
    index: ShardIndex,
    listener: Bound,
) {
    let shard = Shard::new(plane, gatehouse, index);
    let (closer, listener) = match crate::rt::net::open(listener) {
        Ok(opened) => opened,
        Err(error) => {
            tracing::error!(%error, shard = index.0, "a listening socket cannot be used");
            shard.plane.begin_drain();
            return;
        }
    };
    crate::rt::spawn(sweep(shard.clone()));
    pool::tend(&shard);
    crate::rt::spawn(stall::beat(shard.clone()));
    let accepting = crate::rt::spawn(accept(shard.clone(), listener));
    let_in(shard.clone()).await;
    // Ends the accept under way with an error, so that no connection is lost in between.
    if let Err(error) = closer.close() {
        tracing::warn!(%error, "a listening socket could not be closed");
    }
    accepting.await;
    shard.drain.ring();
    let limit = Duration::from_millis(shard.plane.limits().drain_ms);
    let finished = pin!(shard.ended.until(|| shard.tasks.get() == 0));
    let serving = pin!(serve_commands(shard.clone()));
    if within(limit, select(finished, serving)).await.is_none() {
        tracing::warn!(left = shard.tasks.get(), "the drain's limit passed with work under way");
    }
    shard.door().close();
    shard.helper.stop();
    // Closing descriptors is an operation of the ring, too: give it a turn.
    crate::rt::time::sleep(Duration::from_millis(5)).await;
}

/// Accepts agents' connections, until the listener is shut down for a drain.
async fn accept(shard: Rc<Shard>, listener: crate::rt::net::TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => shard.serve(stream, BytesMut::new(), 0),
            Err(_) if shard.plane.draining() => return,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                crate::rt::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Lets commands and sockets in, until the drain begins.
async fn let_in(shard: Rc<Shard>) {
    poll_fn(|cx| {
        shard.door().register(cx.waker());
        shard.let_in_waiting();
        if shard.plane.draining() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Lets in what comes while the drain goes on. Never ends.
async fn serve_commands(shard: Rc<Shard>) {
    poll_fn::<(), _>(|cx| {
        shard.door().register(cx.waker());
        shard.let_in_waiting();
        Poll::Pending
    })
    .await;
}

/// Drops idle sessions from memory, until the drain begins.
async fn sweep(shard: Rc<Shard>) {
    loop {
        let draining = pin!(shard.drain.until(|| shard.plane.draining()));
        let pause = pin!(crate::rt::time::sleep(SWEEP));
        match select(draining, pause).await {
            Either::Left(_) => return,
            Either::Right(_) => shard.tidy_up(),
        }
    }
}

impl Shard {
    fn new(plane: Arc<Plane>, gatehouse: Gatehouse, index: ShardIndex) -> Rc<Self> {
        let files = Files::new(plane.open_journals);
        let journals = Rc::new(Journals { plane: plane.clone(), shard: index, files });
        Rc::new(Self {
            sessions: Sessions::new(journals),
            pool: Pool::new(plane.clone(), index),
            helper: Helper::new(index),
            plane,
            gatehouse,
            index,
            drain: Bell::default(),
            random: RefCell::new(Random::default()),
            desk: RefCell::default(),
            bodies: Rc::default(),
            lates: Watched::default(),
            turned_away: Cell::new(0),
            tasks: Cell::new(0),
            commands: Cell::new(0),
            ended: Bell::default(),
        })
    }

    pub(crate) fn door(&self) -> &Door {
        self.plane.door(self.index)
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.door().counters
    }

    /// Fresh random bits.
    pub(crate) fn random(&self) -> u128 {
        self.random.borrow_mut().next()
    }

    /// Lets go of what nobody is expected to ask for any more, and looks at memory.
    fn tidy_up(&self) {
        let guard = &self.plane.guard;
        if self.index.0 == 0 {
            guard.look();
        }
        self.lates.sweep(self.plane.now().mono_ms);
        self.sessions.evict_idle();
        if guard.memory() != Memory::Enough {
            self.counters().hit(LimitHit::MemoryBytes);
            self.sessions.evict_oldest();
        }
    }

    /// An exchange panicked. When that happens again soon, the data plane ends.
    pub(crate) fn panicked(&self) {
        if self.plane.guard.panicked(self.plane.now().mono_ms) {
            tracing::error!("exchanges panic one after the other: the data plane stops");
            self.plane.begin_drain();
        }
    }

    /// Whether there is room for one more connection. Where there is none, it is told so.
    fn has_room(self: &Rc<Self>, stream: TcpStream) -> Option<TcpStream> {
        let most = self.plane.limits().connections_per_shard;
        if self.counters().connections.get() < u64::from(most) {
            return Some(stream);
        }
        self.counters().hit(LimitHit::ConnectionsPerShard);
        if self.turned_away.get() < TURNED_AWAY_AT_ONCE {
            self.turned_away.set(self.turned_away.get() + 1);
            let task = Task::begin(self);
            crate::rt::spawn(async move {
                connection::turn_away(task.shard.clone(), stream, most).await;
                task.shard.turned_away.set(task.shard.turned_away.get() - 1);
            });
        }
        None
    }

    /// Serves an agent's connection until it ends or moves.
    pub(crate) fn serve(self: &Rc<Self>, stream: TcpStream, unread: BytesMut, moves: u8) {
        let Some(stream) = self.has_room(stream) else { return };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection ended before it was served");
            return;
        }
        let task = Task::begin(self);
        self.counters().connections.add(1);
        crate::rt::spawn(async move {
            let served = connection::serve(task.shard.clone(), stream, unread, moves);
            if AssertUnwindSafe(served).catch_unwind().await.is_err() {
                tracing::error!("a connection was dropped after a panic");
                task.shard.panicked();
            }
            task.shard.counters().connections.sub(1);
        });
    }

    /// Goes on with a connection that another shard had.
    pub(crate) fn take_over(self: &Rc<Self>, socket: Socket) {
        self.counters().handovers_in.add(1);
        match socket.unpack() {
            Ok((stream, unread, moves)) => self.serve(stream, unread, moves),
            Err(error) => tracing::warn!(%error, "a connection was lost between shards"),
        }
    }

    fn let_in_waiting(self: &Rc<Self>) {
        while let Some(Command::Socket(socket)) = self.door().next_socket() {
            self.take_over(socket);
        }
        while self.commands.get() < COMMANDS_AT_ONCE
            && let Some(command) = self.door().next_command()
        {
            self.carry_out(command);
        }
    }

    fn carry_out(self: &Rc<Self>, command: Command) {
        let task = Task::begin(self);
        // A close may wait for exchanges for long: it must not keep others from being heard.
        let counted = usize::from(!matches!(command, Command::Close { .. }));
        self.commands.set(self.commands.get() + counted);
        crate::rt::spawn(async move {
            let answering = answer(task.shard.clone(), command);
            if AssertUnwindSafe(answering).catch_unwind().await.is_err() {
                tracing::error!("a command of the control plane was dropped after a panic");
            }
            task.shard.commands.set(task.shard.commands.get() - counted);
            // Those beyond the bound are still queued.
            task.shard.door().wake();
        });
    }
}

/// Counts a task until it ends.
struct Task {
    shard: Rc<Shard>,
}

impl Task {
    fn begin(shard: &Rc<Shard>) -> Self {
        shard.tasks.set(shard.tasks.get() + 1);
        Self { shard: shard.clone() }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.shard.tasks.set(self.shard.tasks.get() - 1);
        self.shard.ended.ring();
    }
}

/// Random bits of the kernel, fetched in bulk.
struct Random {
    pool: [u8; 4096],
    used: usize,
}

impl Default for Random {
    fn default() -> Self {
        Self { pool: [0; 4096], used: 4096 }
    }
}

impl Random {
    fn next(&mut self) -> u128 {
        if self.used == self.pool.len() {
            if let Err(error) = crate::rt::random::fill(&mut self.pool) {
                // Only before the kernel's pool is ready; ids must not repeat even then.
                tracing::error!(%error, "the kernel gives no random bits");
                self.pool.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
            }
            self.used = 0;
        }
        let mut bits = [0; 16];
        bits.copy_from_slice(&self.pool[self.used..self.used + 16]);
        self.used += 16;
        u128::from_ne_bytes(bits)
    }
}
