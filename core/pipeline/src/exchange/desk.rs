//! What the exchanges of one shard share with each other: things worked out once for all sessions.
//!
//! Whatever is kept here is a copy of something that can be worked out anew: dropping it loses time,
//! nothing else.

use super::counts::Counts;
use crate::render::Heads;

/// The desk of one shard. Never leaves its thread.
#[derive(Default)]
pub struct Desk {
    /// Heads of prompts, with their ids.
    pub(super) heads: Heads,
    /// How many tokens texts have.
    pub(super) counts: Counts,
}
