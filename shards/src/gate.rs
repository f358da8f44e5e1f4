//! The handle of the data plane: start, commands, drain.

#[cfg(feature = "sim")]
mod simulated;
#[cfg(not(feature = "sim"))]
mod start;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::{Shared, join_all};
use rollgate_pipeline::exchange::SessionState;
use rollgate_pipeline::fault::{Fault, FaultKind};
use rollgate_pipeline::id::{SessionId, SessionKey, ShardIndex};
use rollgate_pipeline::record::{Reward, SessionOptions};

use crate::command::{Answer, Command};
use crate::plane::Plane;
use crate::{CommandError, Created, Driver, EngineStats, NotReady, ShardStats};

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

impl Gate {
    fn of(plane: Arc<Plane>, agents_addr: SocketAddr, ended: oneshot::Receiver<()>) -> Self {
        Self { inner: Arc::new(Inner { plane, agents_addr, ended: ended.shared() }) }
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
        crate::rt::random::fill(&mut bits).map_err(|error| {
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
