//! The invariants of a sample.

use super::Sample;

/// A broken invariant: a stable code and what was found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{code}: {found}")]
pub struct Violation {
    /// Stable reason code.
    pub code: &'static str,
    /// What was found, with positions.
    pub found: String,
}

/// Every broken invariant of a sample.
pub fn check(_sample: &Sample) -> Vec<Violation> {
    todo!()
}
