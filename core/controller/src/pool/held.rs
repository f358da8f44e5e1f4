//! A sandbox in somebody's hands.

use rollgate_backends::{BackendError, Sandbox};

use super::Pool;

/// A sandbox that is unmade whatever happens to its holder: by [`destroy`](Self::destroy), or by the
/// pool when it is dropped.
pub struct Held {
    pool: Pool,
    sandbox: Option<Box<dyn Sandbox>>,
}

impl Held {
    pub(super) fn new(pool: Pool, sandbox: Box<dyn Sandbox>) -> Self {
        Self { pool, sandbox: Some(sandbox) }
    }

    /// The sandbox.
    #[expect(clippy::expect_used, reason = "only `destroy` and `drop` take it, and both end us")]
    pub fn sandbox(&self) -> &dyn Sandbox {
        self.sandbox.as_deref().expect("it is held")
    }

    /// Unmakes it and says how that went. If the caller stops waiting, the pool goes on.
    pub async fn destroy(mut self) -> Result<(), BackendError> {
        let destroyed = match &self.sandbox {
            Some(sandbox) => sandbox.destroy().await,
            None => Ok(()),
        };
        if destroyed.is_ok() {
            self.sandbox = None;
        }
        destroyed
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            self.pool.bury(sandbox);
        }
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = self.sandbox.as_ref().map(|sandbox| sandbox.id());
        f.debug_struct("Held").field("sandbox", &id).finish_non_exhaustive()
    }
}
