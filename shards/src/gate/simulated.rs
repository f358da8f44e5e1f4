//! A data plane whose shards are tasks of a simulated process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_channel::oneshot;
use rollgate_pipeline::id::ShardIndex;

use super::Gate;
use crate::bounds::{OPEN_JOURNALS_LEAST, SYNC};
use crate::engine::Engine;
use crate::guard::Guard;
use crate::plane::{Door, Plane};
use crate::pool::health::Health;
use crate::pool::meter::Meter;
use crate::rt::{net, sim, spawn, time};
use crate::{Driver, GateConfig, StartError, shard};

impl Gate {
    /// Starts the shards as tasks of the process that runs, in the simulated world of this thread.
    /// `listen` needs a port.
    pub fn simulate(config: GateConfig) -> Result<Gate, StartError> {
        let shards = config.shards.0.max(1);
        let engines = config.engines.iter().map(|target| Engine::settle(target, shards));
        let engines = engines.collect::<Result<Vec<_>, _>>()?;
        let looked_at = config.gatehouse.limits.engine_health_ms > 0;
        let meters = || engines.iter().map(|_| Meter::default()).collect();
        let guard = Guard::new(&config.gatehouse.limits);
        let plane = Arc::new(Plane {
            gatehouse: config.gatehouse,
            driver: Driver::Epoll,
            durability: config.durability,
            journals: config.state_dir.join("sessions"),
            healths: engines.iter().map(|_| Health::new(looked_at)).collect(),
            meters: (0..shards).map(|_| meters()).collect(),
            engines,
            pin: false,
            open_journals: OPEN_JOURNALS_LEAST,
            idle_evict_ms: config.idle_evict_ms,
            guard,
            doors: (0..shards).map(|_| Door::default()).collect(),
            draining: AtomicBool::new(false),
            running: AtomicUsize::new(usize::from(shards)),
            unsynced: AtomicBool::new(false),
            epoch: time::now(),
        });
        let (sender, ended) = oneshot::channel();
        spawn(sync(plane.clone(), sender));
        for index in (0..shards).map(ShardIndex) {
            let (plane, listener) = (plane.clone(), net::Bound::new(config.listen));
            let gatehouse = plane
                .gatehouse
                .separate()
                .map_err(|error| StartError::Environment(error.to_string()))?;
            spawn(async move {
                shard::run(plane.clone(), gatehouse, index, listener).await;
                plane.door(index).close();
                plane.running.fetch_sub(1, Ordering::AcqRel);
            });
        }
        Ok(Gate::of(plane, config.listen, ended))
    }
}

/// The background sync. Ends after the last shard.
async fn sync(plane: Arc<Plane>, ended: oneshot::Sender<()>) {
    loop {
        time::sleep(SYNC).await;
        let last = plane.running.load(Ordering::Acquire) == 0;
        if plane.unsynced.swap(false, Ordering::AcqRel) {
            sim::sync_all();
        }
        if last {
            // Nobody may wait any more.
            let _ = ended.send(());
            return;
        }
    }
}
