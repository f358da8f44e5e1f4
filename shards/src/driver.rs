//! Which driver the shards run on: asked for, probed, and never chosen in silence.

use std::future::Future;
use std::io;

use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};

use crate::{Driver, DriverChoice, StartError};

const MEND: &str = "allow the io_uring system calls (kernel 6.1 or newer, \
     kernel.io_uring_disabled = 0, a seccomp profile that permits them), \
     or ask for driver = \"epoll\"";

/// The driver to use. Falls back to epoll only for `Auto`, and says so.
pub(crate) fn choose(choice: DriverChoice) -> Result<Driver, StartError> {
    match choice {
        DriverChoice::Epoll => Ok(Driver::Epoll),
        DriverChoice::Uring => probe().map(|()| Driver::Uring).map_err(|reason| {
            StartError::Environment(format!("io_uring cannot be used: {reason}; {MEND}"))
        }),
        DriverChoice::Auto => Ok(match probe() {
            Ok(()) => Driver::Uring,
            Err(reason) => {
                tracing::warn!(%reason, mend = MEND, "io_uring cannot be used: falling back to epoll");
                Driver::Epoll
            }
        }),
    }
}

/// Runs `main` on a fresh runtime of this thread. `Err` when the runtime cannot be built.
pub(crate) fn run<F>(driver: Driver, main: impl FnOnce() -> F) -> io::Result<F::Output>
where
    F: Future,
{
    match driver {
        Driver::Uring => {
            let mut flags = io_uring::IoUring::builder();
            flags.setup_coop_taskrun().setup_single_issuer().setup_defer_taskrun();
            let mut runtime = RuntimeBuilder::<IoUringDriver>::new()
                .uring_builder(flags)
                .enable_timer()
                .build()?;
            Ok(runtime.block_on(main()))
        }
        Driver::Epoll => {
            let mut runtime = RuntimeBuilder::<LegacyDriver>::new().enable_timer().build()?;
            Ok(runtime.block_on(main()))
        }
    }
}

/// Builds a ring with the flags that shards use and tries operations that they need.
fn probe() -> Result<(), String> {
    let thread = std::thread::Builder::new().name("uring-probe".to_owned());
    let probe = thread.spawn(|| run(Driver::Uring, try_ring)).map_err(|error| error.to_string())?;
    match probe.join() {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error))) => Err(format!("an operation on the ring failed: {error}")),
        Ok(Err(error)) => Err(format!("a ring cannot be set up: {error}")),
        Err(_) => Err("the probe panicked".to_owned()),
    }
}

async fn try_ring() -> io::Result<()> {
    let file = crate::rt::fs::File::open("/proc/self/stat").await?;
    let (read, _) = file.read_at(vec![0; 16], 0).await;
    if read? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.close().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoll_needs_no_probe_and_runs() {
        assert_eq!(choose(DriverChoice::Epoll).unwrap(), Driver::Epoll);
        assert_eq!(run(Driver::Epoll, || async { 7 }).unwrap(), 7);
    }

    #[test]
    fn auto_agrees_with_the_probe() {
        let expected = if probe().is_ok() { Driver::Uring } else { Driver::Epoll };
        assert_eq!(choose(DriverChoice::Auto).unwrap(), expected);
        assert_eq!(choose(DriverChoice::Uring).is_ok(), expected == Driver::Uring);
    }
}
