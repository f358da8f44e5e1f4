//! The first making of a kind goes alone; the others wait for it, and share its failure.

use std::sync::Arc;

use rollgate_backends::BackendError;
use tokio::sync::{Mutex, watch};

/// How far the preparation of a kind is.
#[derive(Clone, Debug, Default)]
enum Prepared {
    /// Nobody tried, or the last try failed.
    #[default]
    No,
    Yes,
}

/// What those share who make sandboxes of one kind.
#[derive(Clone, Default)]
pub(super) struct Flight {
    prepared: Arc<Mutex<Prepared>>,
    /// Number of tries that failed, and what the last one said.
    failed: Arc<watch::Sender<(u64, String)>>,
}

impl Flight {
    /// Makes one: alone if it is the first of its kind. Whoever waited while it failed fails too, so
    /// that what cannot be fetched is not fetched once for each.
    pub(super) async fn through<T>(
        &self,
        create: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let before = self.failed.borrow().0;
        let mut prepared = self.prepared.lock().await;
        if matches!(*prepared, Prepared::Yes) {
            drop(prepared);
            return create.await;
        }
        let (failures, said) = self.failed.borrow().clone();
        if failures > before {
            return Err(BackendError::Unusable(said));
        }
        match create.await {
            Ok(made) => {
                *prepared = Prepared::Yes;
                Ok(made)
            }
            Err(error) => {
                self.failed.send_modify(|(count, said)| {
                    *count += 1;
                    *said = format!("the first sandbox of its kind could not be made: {error}");
                });
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    async fn many(flight: &Flight, works: bool) -> (usize, usize) {
        let (tries, at_once, most) =
            (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let one = || {
            flight.through(async {
                let number = tries.fetch_add(1, Ordering::SeqCst);
                let now = at_once.fetch_add(1, Ordering::SeqCst) + 1;
                if number == 0 {
                    assert_eq!(now, 1);
                }
                most.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(20)).await;
                at_once.fetch_sub(1, Ordering::SeqCst);
                if works { Ok(()) } else { Err(BackendError::Unusable("no image".into())) }
            })
        };
        let ends = futures_util::future::join_all((0..20).map(|_| one())).await;
        let failed = ends.iter().filter(|end| end.is_err()).count();
        assert_eq!(failed, if works { 0 } else { 20 });
        assert!(ends.iter().flatten().count() + failed == 20);
        (tries.into_inner(), most.into_inner())
    }

    #[tokio::test]
    async fn the_first_goes_alone_and_its_failure_is_everyones() {
        let flight = Flight::default();
        assert_eq!(many(&flight, false).await, (1, 1), "one fetch, twenty failures");
        assert_eq!(many(&flight, false).await, (1, 1), "later ones try again");
        assert_eq!(many(&flight, true).await, (20, 19), "once it is there nobody waits");
        assert_eq!(many(&flight, false).await.0, 20);
    }
}
