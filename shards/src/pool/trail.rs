//! What a turn's call has been through: which engines failed it, and until when it may go on.

use std::time::{Duration, Instant};

use rollgate_pipeline::fault::Fault;

use crate::EngineFailure;
use crate::rt::time::now;

/// Empty to begin with, and again when a turn is gone on with after a pause.
#[derive(Default)]
pub(crate) struct Trail {
    /// The engines that failed it, by place, in order.
    failed: Vec<usize>,
    deadline: Option<Instant>,
    last: Option<(EngineFailure, Fault)>,
}

impl Trail {
    /// When the whole call must be over, its further tries included.
    pub(crate) fn deadline(&mut self, limit: Duration) -> Instant {
        *self.deadline.get_or_insert_with(|| now() + limit)
    }

    /// A try failed.
    pub(crate) fn note(&mut self, engine: usize, failure: EngineFailure, fault: &Fault) {
        self.failed.push(engine);
        self.last = Some((failure, fault.clone()));
    }

    /// How the last try failed, where there was one.
    pub(crate) fn last(&self) -> Option<&(EngineFailure, Fault)> {
        self.last.as_ref()
    }

    /// Tries that failed.
    pub(crate) fn tries(&self) -> usize {
        self.failed.len()
    }

    /// The engines that failed it.
    pub(crate) fn failed(&self) -> &[usize] {
        &self.failed
    }
}
