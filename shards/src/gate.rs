//! The handle of the data plane: start, commands, drain.

use std::cell::Cell;
use std::fs::{File, TryLockError};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::Thread;
use std::time::Instant;

use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::{Shared, join_all};
use rollgate_pipeline::exchange::SessionState;
use rollgate_pipeline::fault::{Fault, FaultKind};
use rollgate_pipeline::id::{SessionId, SessionKey, ShardIndex};
use rollgate_pipeline::record::{Reward, SessionOptions};

use crate::command::{Answer, Command};
use crate::engine::Engine;
use crate::plane::{Door, Plane};
use crate::pool::health::Health;
use crate::pool::meter::Meter;
use crate::{
    CommandError, Created, Driver, EngineStats, GateConfig, NotReady, ShardStats, StartError,
};
use crate::{cores, driver, listener, shard, sync};

/// The running data plane. Clones speak to the same one; it stops when the last is dropped.
#[derive(Clone)]
pub struct Gate {
    inner: Arc<Inner>,
}

struct Inner {
    plane: Arc<Plane>,
    agents_addr: SocketAddr,
    /// Resolves when every thread has ended and everything is synced.
    ended: Shared<oneshot::Receiver<()>>,
}

/// Takes the state directory, since two data planes on one would write the same journals. It is let
/// go of when the file is closed, by whatever ends the process too.
fn lock(state_dir: &Path) -> Result<File, StartError> {
    let path = state_dir.join("lock");
    let failed = |error: std::io::Error| environment(format!("{}: {error}", path.display()));
    let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) => Err(failed(error)),
        Err(TryLockError::WouldBlock) => Err(environment(format!(
            "the state directory {} is in use by another rollgate: stop it, or choose another one",
            state_dir.display()
        ))),
    }
}

impl Gate {
    /// Starts the shards and waits until each listens.
    pub fn start(config: GateConfig) -> Result<Gate, StartError> {
        let driver = driver::choose(config.driver)?;
        let shards = config.shards.0.max(1);
        let journals = config.state_dir.join("sessions");
        make_directories(&journals)?;
        let lock = lock(&config.state_dir)?;
        let directory = File::open(&journals)
            .map_err(|error| environment(format!("{}: {error}", journals.display())))?;
        let engines = config.engines.iter().map(|target| Engine::settle(target, shards));
        let engines = engines.collect::<Result<Vec<_>, _>>()?;
        let looked_at = config.gatehouse.limits.engine_health_ms > 0;
        let meters = || engines.iter().map(|_| Meter::default()).collect();
        let (agents_addr, listeners) = listener::bind(config.listen, usize::from(shards), driver)?;
        let plane = Arc::new(Plane {
            gatehouse: config.gatehouse,
            driver,
            durability: config.durability,
            journals,
            healths: engines.iter().map(|_| Health::new(looked_at)).collect(),
            meters: (0..shards).map(|_| meters()).collect(),
            engines,
            idle_evict_ms: config.idle_evict_ms,
            pin: config.pin,
            open_journals: cores::open_journals(usize::from(shards)),
            doors: (0..shards).map(|_| Door::default()).collect(),
            draining: AtomicBool::new(false),
            running: AtomicUsize::new(usize::from(shards)),
            unsynced: AtomicBool::new(false),
            epoch: Instant::now(),
        });
        let (sender, ended) = oneshot::channel();
        let syncing = sync::start(plane.clone(), directory, lock, sender).map_err(environment)?;
        let gate = Gate {
            inner: Arc::new(Inner { plane: plane.clone(), agents_addr, ended: ended.shared() }),
        };
        // On an error the gate is dropped, which stops the shards that did start.
        start_shards(&plane, listeners, syncing.thread())?;
        tracing::info!(%agents_addr, shards, ?driver, "the agents' port is open");
        Ok(gate)
    }

    /// Resolves when the data plane has stopped: after a drain, or because a shard died.
    pub async fn ended(&self) {
        // The sender lives until then; that it is gone says the same.
        let _ = self.inner.ended.clone().await;
    }

    /// The agents' address, port settled.
    pub fn agents_addr(&self) -> SocketAddr {
        self.inner.agents_addr
    }

    /// The driver that the shards run on.
    pub fn driver(&self) -> Driver {
        self.inner.plane.driver
    }

    /// Makes a session. Its opening record is durable when this returns.
    pub async fn create(&self, options: SessionOptions) -> Result<Created, CommandError> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits).map_err(|error| {
            let message = format!("the kernel gives no random bits for a key: {error}");
            Fault::new(FaultKind::Internal, message)
        })?;
        let key = SessionKey::from_random(u128::from_ne_bytes(bits));
        let hash = key.hash();
        let session_id = SessionId::new(&self.inner.plane.gatehouse.node, hash);
        let (id, options) = (session_id.clone(), Box::new(options));
        let shard = self.inner.plane.owner(hash);
        self.ask(shard, |answer| Command::Create { id, options, answer }).await?;
        Ok(Created { session_id, key })
    }

    /// What the session is like now.
    pub async fn describe(&self, id: &SessionId) -> Result<SessionState, CommandError> {
        let hash = id.hash();
        self.ask(self.owner(id)?, |answer| Command::Describe { hash, answer }).await
    }

    /// Sessions in memory, of every shard.
    pub async fn list(&self) -> Result<Vec<SessionState>, CommandError> {
        let shards = (0..self.inner.plane.shards().0).map(ShardIndex);
        let lists =
            join_all(shards.map(|shard| self.ask(shard, |answer| Command::List { answer })));
        let mut all = Vec::new();
        for list in lists.await {
            all.extend(list?);
        }
        Ok(all)
    }

    /// Sets the session's reward; the last one counts. A closed session still takes one.
    pub async fn reward(&self, id: &SessionId, reward: Reward) -> Result<(), CommandError> {
        let hash = id.hash();
        self.ask(self.owner(id)?, |answer| Command::Reward { hash, reward, answer }).await
    }

    /// Seals; waits for exchanges in flight first. Idempotent.
    pub async fn close(&self, id: &SessionId) -> Result<SessionState, CommandError> {
        let hash = id.hash();
        self.ask(self.owner(id)?, |answer| Command::Close { hash, answer }).await
    }

    /// Forgets the session: its journal is unlinked.
    pub async fn delete(&self, id: &SessionId) -> Result<(), CommandError> {
        let hash = id.hash();
        self.ask(self.owner(id)?, |answer| Command::Delete { hash, answer }).await
    }

    /// Where the session's journal lies. The file is only ever appended to.
    pub fn journal_path(&self, id: &SessionId) -> PathBuf {
        self.inner.plane.journal_path(id.hash())
    }

    /// Counters, by shard.
    pub fn stats(&self) -> Vec<ShardStats> {
        let now_ms = self.inner.plane.now().mono_ms;
        self.inner.plane.doors.iter().map(|door| door.counters.read(now_ms)).collect()
    }

    /// How each engine is, and what came of its calls.
    pub fn engines(&self) -> Vec<EngineStats> {
        let plane = &self.inner.plane;
        let engines = plane.engines.iter().zip(&plane.healths).enumerate();
        let stats = engines.map(|(at, (engine, health))| EngineStats {
            name: engine.name.clone(),
            state: health.state().name(),
            up: health.state().up(),
            changes: health.changes(),
            shards: plane.meters.iter().map(|meters| meters[at].read()).collect(),
        });
        stats.collect()
    }

    /// Why this node should be given no work now; empty: it should. Blocks: it writes a file.
    pub fn unready(&self) -> Vec<NotReady> {
        crate::ready::look(&self.inner.plane)
    }

    /// Stops accepting, finishes what is in flight within the limit, syncs, ends the threads.
    pub async fn drain(&self) {
        self.inner.plane.begin_drain();
        // A sender dropped without a word means that the thread is gone as well.
        let _ = self.inner.ended.clone().await;
    }

    fn owner(&self, id: &SessionId) -> Result<ShardIndex, CommandError> {
        if id.node() != self.inner.plane.gatehouse.node {
            return Err(CommandError::NoSession);
        }
        Ok(self.inner.plane.owner(id.hash()))
    }

    async fn ask<T>(
        &self,
        shard: ShardIndex,
        command: impl FnOnce(Answer<T>) -> Command,
    ) -> Result<T, CommandError> {
        if self.inner.plane.draining() {
            return Err(CommandError::Stopped);
        }
        let (answer, answered) = oneshot::channel();
        self.inner.plane.door(shard).push(command(answer)).map_err(|_| CommandError::Busy)?;
        answered.await.unwrap_or(Err(CommandError::Stopped))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.plane.begin_drain();
    }
}

fn environment(reason: impl std::fmt::Display) -> StartError {
    StartError::Environment(reason.to_string())
}

/// All 256 folders at once, so that no shard makes one later.
fn make_directories(journals: &std::path::Path) -> Result<(), StartError> {
    for first in 0..=u8::MAX {
        let path = journals.join(format!("{first:02x}"));
        std::fs::create_dir_all(&path).map_err(|error| {
            environment(format!(
                "the state directory cannot be used ({}: {error}): make it writable, or name \
                 another as node.state_dir",
                path.display()
            ))
        })?;
    }
    Ok(())
}

fn start_shards(
    plane: &Arc<Plane>,
    listeners: Vec<TcpListener>,
    syncing: &Thread,
) -> Result<(), StartError> {
    let (ready, started) = mpsc::channel();
    let count = listeners.len();
    let end = |shard| Ended { plane: plane.clone(), shard, syncing: syncing.clone() };
    // All made first, so that threads that never start are counted as ended, too.
    let ends: Vec<Ended> = (0..).map(ShardIndex).map(end).take(count).collect();
    for (ended, listener) in ends.into_iter().zip(listeners) {
        let ready = ready.clone();
        std::thread::Builder::new()
            .name(format!("shard-{}", ended.shard.0))
            .spawn(move || run_shard(ended, listener, ready))
            .map_err(environment)?;
    }
    drop(ready);
    for _ in 0..count {
        match started.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                return Err(environment(format!("a shard's runtime cannot be built: {error}")));
            }
            Err(_) => return Err(environment("a shard ended while it was starting")),
        }
    }
    Ok(())
}

fn run_shard(ended: Ended, listener: TcpListener, ready: mpsc::Sender<std::io::Result<()>>) {
    let (plane, shard) = (ended.plane.clone(), ended.shard);
    let driver = plane.driver;
    if plane.pin
        && let Err(reason) = cores::pin(usize::from(shard.0))
    {
        tracing::warn!(%reason, shard = shard.0, "a shard cannot be bound to a core");
    }
    let ready = Cell::new(Some(ready));
    // The one who starts us waits for this, unless another shard has failed already.
    let tell = |outcome| ready.take().map(|ready| ready.send(outcome));
    let ran = driver::run(driver, || {
        tell(Ok(()));
        shard::run(plane, shard, listener)
    });
    if let Err(error) = ran {
        tell(Err(error));
    }
    drop(ended);
}

/// Closes a shard's door when its thread ends, however it ends.
struct Ended {
    plane: Arc<Plane>,
    shard: ShardIndex,
    syncing: Thread,
}

impl Drop for Ended {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(shard = self.shard.0, "a shard died: the data plane stops");
            self.plane.begin_drain();
        }
        self.plane.door(self.shard).close();
        if self.plane.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.syncing.unpark();
        }
    }
}
