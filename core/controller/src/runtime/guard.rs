//! One step of an attempt: with a deadline, cut short by a cancellation, its panics caught.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;

use crate::outcome::{Outcome, Reason};
use crate::plan::Why;

/// Why an attempt does not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Halt {
    /// [`Outcome::InfraFailed`] or [`Outcome::Cancelled`].
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
}

impl Halt {
    /// Something outside the attempt failed.
    pub fn infra(reason: Reason) -> Self {
        Self { outcome: Outcome::InfraFailed, reason }
    }

    fn cancelled(step: &str, why: Why) -> Self {
        match why {
            Why::Asked => Self {
                outcome: Outcome::Cancelled,
                reason: Reason::new("cancelled", format_args!("cancelled during step `{step}`")),
            },
            Why::Late => Self::infra(Reason::new(
                "attempt_deadline",
                format_args!("the attempt took longer than all its steps may, in step `{step}`"),
            )),
        }
    }
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

/// Tells an attempt that it is cancelled, and why.
#[derive(Clone, Debug)]
pub struct Cancel(Option<watch::Receiver<Option<Why>>>);

impl Cancel {
    /// Cancelled once the sender says why.
    pub fn when(signal: watch::Receiver<Option<Why>>) -> Self {
        Self(Some(signal))
    }

    /// Never cancelled.
    pub fn never() -> Self {
        Self(None)
    }

    async fn cancelled(&self) -> Why {
        if let Some(signal) = &self.0
            && let Ok(why) = signal.clone().wait_for(Option::is_some).await
            && let Some(why) = *why
        {
            return why;
        }
        std::future::pending().await
    }
}

/// Does a step. Its own failure, a panic and a missed deadline are infrastructure failures.
pub async fn guard<T>(
    step: &str,
    deadline: Duration,
    cancel: &Cancel,
    work: impl Future<Output = Result<T, Reason>>,
) -> Result<T, Halt> {
    let caught = AssertUnwindSafe(work).catch_unwind();
    tokio::select! {
        biased;
        why = cancel.cancelled() => Err(Halt::cancelled(step, why)),
        done = tokio::time::timeout(deadline, caught) => match done {
            Ok(Ok(result)) => result.map_err(Halt::infra),
            Ok(Err(panic)) => Err(Halt::infra(Reason::new(&format!("{step}_panic"), said(&*panic)))),
            Err(_) => {
                let what = format!("step `{step}` did not end within {deadline:?}");
                Err(Halt::infra(Reason::new(&format!("{step}_deadline"), what)))
            }
        },
    }
}

/// Does work whose steps have deadlines of their own, with the panics between them caught.
pub async fn caught<T>(work: impl Future<Output = Result<T, Halt>>) -> Result<T, Halt> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(done) => done,
        Err(panic) => Err(Halt::infra(Reason::new("attempt_panic", said(&*panic)))),
    }
}

/// What a panic said.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a bug in Rollgate: {}", text.as_deref().unwrap_or("a panic without a message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    async fn check(cancel: &Cancel, work: impl Future<Output = Result<u8, Reason>>) -> String {
        match guard("x", SHORT, cancel, work).await {
            Ok(value) => value.to_string(),
            Err(halt) => format!("{} {}", halt.outcome, halt.reason.code),
        }
    }

    #[tokio::test]
    async fn every_way_to_end_is_told_apart() {
        let never = Cancel::never();
        assert_eq!(check(&never, async { Ok(1) }).await, "1");
        let failed = async { Err(Reason::new("why", "")) };
        assert_eq!(check(&never, failed).await, "infra_failed why");
        assert_eq!(check(&never, std::future::pending()).await, "infra_failed x_deadline");
        assert_eq!(check(&never, async { panic!("oh") }).await, "infra_failed x_panic");
    }

    #[tokio::test]
    async fn a_cancellation_cuts_short_but_a_lost_sender_does_not() {
        for (why, told) in
            [(Why::Asked, "cancelled cancelled"), (Why::Late, "infra_failed attempt_deadline")]
        {
            let (sender, receiver) = watch::channel(None);
            let cancel = Cancel::when(receiver);
            let both = tokio::join!(check(&cancel, std::future::pending()), async {
                sender.send(Some(why)).unwrap();
            });
            assert_eq!(both.0, told);
        }
        let (sender, receiver) = watch::channel(None);
        drop(sender);
        assert_eq!(check(&Cancel::when(receiver), async { Ok(2) }).await, "2");
    }
}
