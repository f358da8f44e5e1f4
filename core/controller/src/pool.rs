//! Where attempts get their sandboxes: warm ones by kind, or new ones.
//!
//! Sandboxes are of one kind where image, resources and mounts are the same ([`digest`]). The first
//! one of a kind is made alone, so that an image is fetched once however many wait for it. A warm one
//! is tried before it is handed out, is never used twice, and goes when nobody took it for too long.
//! The pool owns the making and unmaking of every sandbox: whoever stops waiting for one, panics with
//! one, or drops one leaves it to the pool.

mod digest;
mod flight;
mod held;
mod shelf;
pub mod watermark;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rollgate_backends::{Backend, BackendError, Exec, Sandbox, Spec};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::limits;
use shelf::{Shelf, Warm};

pub use digest::digest;
pub use held::Held;

/// The numbers of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolConfig {
    /// Sandboxes of a kind that are kept warm; 0: each is made when it is asked for.
    pub warm: usize,
    /// Warm ones that are made at once. At least 1.
    pub refill: usize,
    /// Sandboxes that are made at once, for whomever. At least 1.
    pub creates: usize,
    /// A warm one that nobody took for so long goes.
    pub idle: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self { warm: 0, refill: 4, creates: 64, idle: Duration::from_secs(300) }
    }
}

/// What a pool did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct PoolCounts {
    /// Sandboxes made.
    pub made: u64,
    /// Of them, handed out warm.
    pub warm: u64,
    /// Warm ones that were not well when somebody wanted them.
    pub broken: u64,
    /// Warm ones that nobody took.
    pub unused: u64,
}

/// A pool over one backend. A clone is the same pool.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    backend: Arc<dyn Backend>,
    config: PoolConfig,
    owner: String,
    shelves: Mutex<HashMap<blake3::Hash, Shelf>>,
    creates: Semaphore,
    /// Makings and unmakings under way. They outlive whoever asked for them.
    tasks: Mutex<JoinSet<()>>,
    runtime: Handle,
    closed: AtomicBool,
    numbers: AtomicU64,
    made: AtomicU64,
    warm: AtomicU64,
    broken: AtomicU64,
    unused: AtomicU64,
}

impl Pool {
    /// A pool whose sandboxes belong to `owner`. Must be called within a runtime.
    pub fn new(backend: Arc<dyn Backend>, config: PoolConfig, owner: &str) -> Self {
        Self(Arc::new(Inner {
            backend,
            config,
            owner: owner.to_owned(),
            shelves: Mutex::default(),
            creates: Semaphore::new(config.creates.max(1)),
            tasks: Mutex::default(),
            runtime: Handle::current(),
            closed: AtomicBool::new(false),
            numbers: AtomicU64::new(0),
            made: AtomicU64::new(0),
            warm: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            unused: AtomicU64::new(0),
        }))
    }

    /// So many more sandboxes of this kind will be wanted. No more than that are kept warm.
    pub fn expect(&self, spec: &Spec, count: usize) {
        if count > 0 {
            self.shelf(spec, |shelf| shelf.wanted += count);
            self.refill();
        }
    }

    /// A sandbox for this spec: a warm one that is well, else a new one. Cancelling it is safe: what
    /// is made meanwhile is unmade.
    pub async fn borrow(&self, spec: &Spec) -> Result<Held, BackendError> {
        self.shelf(spec, |shelf| shelf.wanted = shelf.wanted.saturating_sub(1));
        while let Some(warm) = self.shelf(spec, |shelf| shelf.warm.pop()) {
            let held = Held::new(self.clone(), warm.sandbox);
            let life = warm.made.elapsed() + spec.ttl <= warm.life;
            if !life {
                self.0.unused.fetch_add(1, Ordering::Relaxed);
            } else if well(held.sandbox()).await {
                self.0.warm.fetch_add(1, Ordering::Relaxed);
                self.refill();
                return Ok(held);
            } else {
                tracing::warn!(sandbox = held.sandbox().id(), "a warm sandbox is not well");
                self.0.broken.fetch_add(1, Ordering::Relaxed);
            }
        }
        let made = self.make(spec.clone()).await;
        self.refill();
        made
    }

    /// Makes one in a task of its own, so that nobody who stops waiting loses it.
    async fn make(&self, spec: Spec) -> Result<Held, BackendError> {
        let (hand, handed) = tokio::sync::oneshot::channel();
        let pool = self.clone();
        self.task(async move {
            let made = pool.made(&spec).await;
            // Whoever is not there any more leaves it to `Held`, which unmakes it.
            drop(hand.send(made.map(|sandbox| Held::new(pool, sandbox))));
        });
        let lost = || BackendError::Unusable("a bug in Rollgate: a sandbox was lost".to_owned());
        handed.await.unwrap_or_else(|_| Err(lost()))
    }

    async fn made(&self, spec: &Spec) -> Result<Box<dyn Sandbox>, BackendError> {
        let flight = self.shelf(spec, |shelf| shelf.flight.clone());
        let create = async {
            let _turn = self.0.creates.acquire().await;
            self.0.backend.create(spec).await
        };
        let sandbox = flight.through(create).await?;
        self.0.made.fetch_add(1, Ordering::Relaxed);
        Ok(sandbox)
    }

    /// Makes warm ones where too few are there or under way.
    fn refill(&self) {
        while !self.0.closed.load(Ordering::Acquire) {
            let Some(kind) = self.lacking() else { return };
            let pool = self.clone();
            self.task(async move { pool.add_warm(kind).await });
        }
    }

    /// A kind of which one more is to be made, which is counted as under way.
    fn lacking(&self) -> Option<blake3::Hash> {
        let (config, now) = (self.0.config, Instant::now());
        let mut shelves = lock(&self.0.shelves);
        let making: usize = shelves.values().map(|shelf| shelf.making).sum();
        if making >= config.refill.max(1) {
            return None;
        }
        let (kind, shelf) = shelves.iter_mut().find(|(_, shelf)| shelf.lacks(config.warm, now))?;
        shelf.making += 1;
        Some(*kind)
    }

    async fn add_warm(&self, kind: blake3::Hash) {
        let number = self.0.numbers.fetch_add(1, Ordering::Relaxed);
        let spec = lock(&self.0.shelves).get(&kind).map(|shelf| shelf.spec.clone());
        let Some(mut spec) = spec else { return };
        spec.attempt_id = format!("{}.warm-{number}", self.0.owner);
        // Whoever takes it must still have all of its time.
        spec.ttl = spec.ttl.saturating_add(self.0.config.idle);
        let made = tokio::time::timeout(limits::SANDBOX, self.made(&spec)).await;
        let made = made.unwrap_or_else(|_| Err(BackendError::Unusable("it takes too long".into())));
        let now = Instant::now();
        let surplus = {
            let mut shelves = lock(&self.0.shelves);
            let Some(shelf) = shelves.get_mut(&kind) else { return };
            shelf.making -= 1;
            match made {
                Ok(sandbox) if !self.0.closed.load(Ordering::Acquire) => {
                    shelf.failures = 0;
                    shelf.warm.push(Warm { sandbox, made: now, life: spec.ttl });
                    None
                }
                Ok(sandbox) => Some(sandbox),
                Err(error) => {
                    let pause = shelf.failed(now);
                    tracing::warn!(?pause, "a warm sandbox cannot be made: {error}");
                    None
                }
            }
        };
        drop(surplus.map(|sandbox| Held::new(self.clone(), sandbox)));
        self.refill();
    }

    /// Lets go what nobody took for too long, and makes what lacks. To be called now and then.
    pub fn tend(&self) {
        let idle = self.0.config.idle;
        let mut old = Vec::new();
        for shelf in lock(&self.0.shelves).values_mut() {
            old.extend(shelf.warm.extract_if(.., |warm| warm.made.elapsed() >= idle));
        }
        self.let_go(old);
        self.refill();
    }

    /// Unmakes all that is warm and waits until nothing is being made or unmade.
    pub async fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
        let all = lock(&self.0.shelves).values_mut().flat_map(|s| s.warm.drain(..)).collect();
        self.let_go(all);
        let empty = async {
            loop {
                let mut tasks = std::mem::take(&mut *lock(&self.0.tasks));
                if tasks.is_empty() {
                    return;
                }
                while tasks.join_next().await.is_some() {}
            }
        };
        if tokio::time::timeout(limits::POOL_CLOSE, empty).await.is_err() {
            tracing::warn!("sandboxes are still being made or removed: they are left to the sweep");
        }
    }

    /// What it did so far.
    pub fn counts(&self) -> PoolCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let inner = &self.0;
        PoolCounts {
            made: of(&inner.made),
            warm: of(&inner.warm),
            broken: of(&inner.broken),
            unused: of(&inner.unused),
        }
    }

    fn let_go(&self, sandboxes: Vec<Warm>) {
        self.0.unused.fetch_add(sandboxes.len() as u64, Ordering::Relaxed);
        drop(sandboxes.into_iter().map(|w| Held::new(self.clone(), w.sandbox)).collect::<Vec<_>>());
    }

    fn shelf<T>(&self, spec: &Spec, work: impl FnOnce(&mut Shelf) -> T) -> T {
        let mut shelves = lock(&self.0.shelves);
        work(shelves.entry(digest(spec)).or_insert_with(|| Shelf::new(spec.clone())))
    }

    /// Runs to its end whatever becomes of whoever asked for it.
    fn task(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.0.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(work, &self.0.runtime);
    }

    /// Unmakes a sandbox in a task of its own.
    fn bury(&self, sandbox: Box<dyn Sandbox>) {
        self.task(async move {
            match tokio::time::timeout(limits::DESTROY, sandbox.destroy()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(sandbox = sandbox.id(), "left to the sweep: {error}");
                }
                Err(_) => tracing::warn!(sandbox = sandbox.id(), "left to the sweep: too slow"),
            }
        });
    }
}

/// Whether a sandbox runs commands.
async fn well(sandbox: &dyn Sandbox) -> bool {
    let exec = Exec {
        argv: vec!["true".to_owned()],
        env: Vec::new(),
        cwd: None,
        stdin: None,
        timeout: limits::BORROW_TEST,
        output_cap_bytes: 1 << 10,
    };
    let ran = tokio::time::timeout(limits::BORROW_TEST * 2, sandbox.exec(exec)).await;
    ran.is_ok_and(|ran| ran.is_ok_and(|exit| exit.code == Some(0)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is locked is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
