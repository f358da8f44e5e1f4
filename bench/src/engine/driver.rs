//! The engine's runtime: io_uring where the system allows it, else epoll, and it says so.

use std::future::Future;
use std::io;

use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};

/// Runs `work` on this thread.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let mut flags = io_uring::IoUring::builder();
    flags.setup_coop_taskrun().setup_single_issuer().setup_defer_taskrun();
    let ring = RuntimeBuilder::<IoUringDriver>::new().uring_builder(flags).enable_timer().build();
    match ring {
        Ok(mut runtime) => Ok(runtime.block_on(work)),
        Err(reason) => {
            tracing::warn!(%reason, "no io_uring for the scripted engine: falling back to epoll");
            epoll(work)
        }
    }
}

/// Runs `work` on this thread without io_uring.
pub(super) fn epoll<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build()?;
    Ok(runtime.block_on(work))
}
