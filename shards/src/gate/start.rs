//! Starting the data plane: state directory, port, threads.

use std::cell::Cell;
use std::fs::{File, TryLockError};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::Thread;

use futures_channel::oneshot;
use rollgate_pipeline::id::ShardIndex;

use super::Gate;
use crate::engine::Engine;
use crate::guard::Guard;
use crate::plane::{Door, Plane};
use crate::pool::health::Health;
use crate::pool::meter::Meter;
use crate::rt::time;
use crate::{GateConfig, StartError, cores, driver, listener, shard, sync};

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
        let guard = Guard::new(&config.gatehouse.limits);
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
            guard,
            doors: (0..shards).map(|_| Door::default()).collect(),
            draining: AtomicBool::new(false),
            running: AtomicUsize::new(usize::from(shards)),
            unsynced: AtomicBool::new(false),
            epoch: time::now(),
        });
        let (sender, ended) = oneshot::channel();
        let syncing = sync::start(plane.clone(), directory, lock, sender).map_err(environment)?;
        let gate = Gate::of(plane.clone(), agents_addr, ended);
        // On an error the gate is dropped, which stops the shards that did start.
        start_shards(&plane, listeners, syncing.thread())?;
        tracing::info!(%agents_addr, shards, ?driver, "the agents' port is open");
        Ok(gate)
    }
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
                return Err(environment(format!("a shard cannot be started: {error}")));
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
    // Made on the thread that uses it: what shards write to is nobody else's.
    let gatehouse = match plane.gatehouse.separate() {
        Ok(gatehouse) => gatehouse,
        Err(error) => {
            tell(Err(std::io::Error::other(error)));
            return drop(ended);
        }
    };
    let ran = driver::run(driver, || {
        tell(Ok(()));
        shard::run(plane, gatehouse, shard, listener)
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
