//! From a session's records to samples: one segment, one sample.

use super::Sample;
use crate::record::Record;

/// What the controller knows of an attempt and the journal does not.
#[derive(Clone, PartialEq, Debug)]
pub struct Attempt {
    /// The task.
    pub task_id: String,
    /// The group.
    pub group_id: String,
    /// Which attempt of the group, from 0.
    pub attempt: u32,
    /// How many attempts the group has.
    pub siblings: u32,
    /// Agent and version.
    pub agent: String,
    /// How it ended; `None`: as the journal says (`done` when sealed, else `open`).
    pub outcome: Option<String>,
}

/// The samples of a session. Without a trained turn there is none.
pub fn build(_records: &[Record], _attempt: &Attempt) -> Vec<Sample> {
    todo!()
}
