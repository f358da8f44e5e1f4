//! The context between two generations.

/// How the sampled ids before a stretch end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PriorTail {
    /// Whether the last sampled id is the turn-close token.
    pub closed: bool,
    /// Whether reasoning was still open there.
    pub reasoning_open: bool,
}
