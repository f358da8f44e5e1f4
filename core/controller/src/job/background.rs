//! What goes on beside the attempts: left-over sandboxes are removed, warm ones are tended, disk and
//! files are watched.

use std::sync::Arc;

use rollgate_backends::Backend;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::running::News;
use crate::limits;
use crate::pool::Pool;
use crate::pool::watermark::Watch;

/// Starts all of it. It ends when the set is dropped.
pub(super) fn start(
    backend: Arc<dyn Backend>,
    pool: Pool,
    watch: Watch,
    news: Sender<News>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(sweeps(backend));
    tasks.spawn(tend(pool));
    tasks.spawn(marks(watch, news));
    tasks
}

/// Sweeps at once, then now and then.
async fn sweeps(backend: Arc<dyn Backend>) {
    let mut every = tokio::time::interval(limits::SWEEP_EVERY);
    loop {
        every.tick().await;
        sweep(backend.as_ref()).await;
    }
}

/// Removes what earlier runs left behind. A failure costs nothing: it is told.
pub(super) async fn sweep(backend: &dyn Backend) {
    match tokio::time::timeout(limits::SANDBOX, backend.sweep()).await {
        Ok(Ok(0)) => {}
        Ok(Ok(count)) => tracing::info!(count, "removed sandboxes that nobody owns"),
        Ok(Err(error)) => tracing::warn!("cannot look for left-over sandboxes: {error}"),
        Err(_) => tracing::warn!("looking for left-over sandboxes takes too long"),
    }
}

async fn tend(pool: Pool) {
    let mut every = tokio::time::interval(limits::TEND_EVERY);
    loop {
        every.tick().await;
        pool.tend();
    }
}

/// Tells when something has run full, and when it no longer has.
async fn marks(watch: Watch, news: Sender<News>) {
    let mut every = tokio::time::interval(limits::TEND_EVERY);
    let mut told = None;
    loop {
        every.tick().await;
        let watch = watch.clone();
        let Ok(found) = tokio::task::spawn_blocking(move || watch.look()).await else { return };
        if found.is_some() != told.is_some() {
            told.clone_from(&found);
            if news.send(News::Full(found)).await.is_err() {
                return;
            }
        }
    }
}
