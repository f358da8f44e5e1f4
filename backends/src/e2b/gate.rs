//! How many sandboxes may be starting: fewer after the service said that it is full.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::pause::jitter;

/// Pause of all creates after a refusal that does not say how long.
const PAUSE: Duration = Duration::from_secs(2);

/// Lets creates pass; halves their number on a refusal, adds one after a round of successes.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Notify,
    most: usize,
}

#[derive(Debug)]
struct State {
    allowed: usize,
    inside: usize,
    /// Successes since `allowed` last changed.
    successes: usize,
    /// Nobody passes before.
    not_before: Instant,
}

/// The right to start one sandbox.
#[derive(Debug)]
pub(super) struct Pass<'a>(&'a Gate);

impl Gate {
    pub fn new(most: usize) -> Self {
        let not_before = Instant::now();
        let state = State { allowed: most, inside: 0, successes: 0, not_before };
        Self { state: Mutex::new(state), changed: Notify::new(), most }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place.
    pub async fn enter(&self) -> Pass<'_> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state();
                if state.inside < state.allowed {
                    state.inside += 1;
                    return Pass(self);
                }
            }
            changed.await;
        }
    }

    /// Waits until the service may be asked again.
    pub async fn open(&self) {
        loop {
            let not_before = self.state().not_before;
            let wait = not_before.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return;
            }
            // With jitter, or those who waited would all come at once.
            tokio::time::sleep(wait + jitter(wait.min(PAUSE)) / 2).await;
        }
    }

    /// The service is full.
    pub fn full(&self, wait: Option<Duration>) {
        let mut state = self.state();
        // Those who asked together are refused together: that is one refusal.
        if state.not_before <= Instant::now() {
            state.allowed = (state.allowed / 2).max(1);
            state.successes = 0;
            tracing::warn!(allowed = state.allowed, "E2B is full: fewer creates in flight");
        }
        state.not_before = state.not_before.max(Instant::now() + wait.unwrap_or(PAUSE));
    }

    /// One was started.
    pub fn passed(&self) {
        let mut state = self.state();
        state.successes += 1;
        if state.successes >= state.allowed && state.allowed < self.most {
            state.allowed += 1;
            state.successes = 0;
            self.changed.notify_one();
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.state().inside -= 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn fewer_pass_after_a_refusal_and_more_again_after_successes() {
        let gate = Gate::new(4);
        let passes = [gate.enter().await, gate.enter().await];
        gate.full(Some(Duration::from_millis(30)));
        gate.full(Some(Duration::from_millis(30)));
        assert_eq!(gate.state().allowed, 2, "one burst is one refusal");
        let waited = tokio::time::timeout(Duration::from_millis(20), gate.enter()).await;
        assert!(waited.is_err(), "two are inside");
        drop(passes);
        let pass = tokio::time::timeout(Duration::from_millis(500), gate.enter()).await;
        drop(pass.expect("a place is free"));
        let begun = Instant::now();
        gate.open().await;
        gate.passed();
        gate.passed();
        assert_eq!(gate.state().allowed, 3, "{:?}", begun.elapsed());
    }
}
