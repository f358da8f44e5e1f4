//! A session in memory: options, trajectory, counters. It is what its journal says, no more.

use std::sync::Arc;

use serde::Serialize;

use crate::engine::EngineKind;
use crate::id::SessionId;
use crate::limits::Limits;
use crate::record::{Opened, Record, SessionOptions};
use crate::render::Model;

/// What all exchanges of a node share: read-only.
pub struct Gatehouse {
    /// The served model.
    pub model: Arc<Model>,
    /// What the engines speak.
    pub engine: EngineKind,
    /// The engines' name of the model.
    pub engine_model: String,
    /// Bounds.
    pub limits: Limits,
    /// After how long without a byte a stream gets its first keepalive, and then its next ones.
    pub keepalive_first_ms: u64,
    pub keepalive_next_ms: u64,
    /// Name of the node.
    pub node: String,
}

impl Gatehouse {
    /// The opening record of a new session.
    pub fn open(&self, _session_id: SessionId, _options: SessionOptions, _at_ms: u64) -> Opened {
        todo!()
    }
}

/// What `GET /v1/sessions/ID` shows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SessionState {
    pub session_id: SessionId,
    /// `open` or `closed`.
    pub state: &'static str,
    pub agent: Option<String>,
    pub model: String,
    pub opened_at_ms: u64,
    pub turns: u32,
    /// Ids sampled so far.
    pub sampled_tokens: u64,
    /// Turns per scene.
    pub scenes: std::collections::BTreeMap<String, u32>,
    /// Segments as of now: leaves of the trajectory.
    pub segments: u32,
    pub reward: Option<f64>,
}

/// A session in memory.
pub struct Session {}

impl Session {
    /// The session that these records describe. Errors name what is wrong with them.
    pub fn replay(_records: Vec<Record>) -> Result<Session, String> {
        todo!()
    }
    pub fn id(&self) -> &SessionId {
        todo!()
    }
    pub fn state(&self) -> SessionState {
        todo!()
    }
    /// Takes over a record that was written for it outside an exchange (reward, seal).
    pub fn apply(&mut self, _record: &Record) {
        todo!()
    }
    /// Exchanges that are under way.
    pub fn in_flight(&self) -> u32 {
        todo!()
    }
    /// Milliseconds of the monotonic clock at the last step.
    pub fn last_used_mono_ms(&self) -> u64 {
        todo!()
    }
}
