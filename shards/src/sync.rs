//! The background sync: one `syncfs` a second for whatever was written meanwhile.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use futures_channel::oneshot;

use crate::bounds::SYNC;
use crate::plane::Plane;

/// Starts the thread, which holds `lock` until no journal is written any more. It ends, after a last sync, when told that all shards have ended; `ended`
/// resolves then.
pub(crate) fn start(
    plane: Arc<Plane>,
    directory: File,
    lock: File,
    ended: oneshot::Sender<()>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("journal-sync".to_owned()).spawn(move || {
        loop {
            std::thread::park_timeout(SYNC);
            // Read first: what was written before the last shard ended is synced below.
            let last = plane.running.load(Ordering::Acquire) == 0;
            if plane.unsynced.swap(false, Ordering::AcqRel) {
                sync(&plane, &directory);
            }
            if last {
                break;
            }
        }
        // No shard writes any more: the next data plane may have the state directory.
        drop(lock);
        // Nobody waits any more when this fails.
        let _ = ended.send(());
    })
}

fn sync(plane: &Plane, directory: &File) {
    if let Err(error) = nix::unistd::syncfs(directory) {
        plane.unsynced.store(true, Ordering::Release);
        tracing::error!(%error, "the journals could not be synced: a power loss would lose turns");
    }
}
