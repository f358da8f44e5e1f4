//! What one shard counts of one engine. Written by that shard alone.

use rollgate_pipeline::fault::FaultKind;

use super::health::Cause;
use crate::stats::Counter;
use crate::{EngineFailure, EngineShardStats};

/// The counters, on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Meter {
    pub(crate) calls: Counter,
    pub(crate) in_flight: Counter,
    failures: [Counter; EngineFailure::ALL.len()],
}

impl Meter {
    pub(crate) fn failed(&self, failure: EngineFailure) {
        self.failures[failure as usize].add(1);
    }

    pub(crate) fn read(&self) -> EngineShardStats {
        EngineShardStats {
            calls: self.calls.get(),
            in_flight: self.in_flight.get(),
            failures: self.failures.each_ref().map(Counter::get),
        }
    }
}

impl EngineFailure {
    /// What a fault means that was found in a reply. `cut`: the reply had ended by then, too early.
    pub(crate) fn of_reply(kind: FaultKind, cut: bool) -> Self {
        use FaultKind::{EngineBadReply, EngineBusy, EngineDown, EngineLimited, EngineTimeout};
        match kind {
            EngineBusy | EngineLimited => EngineFailure::Busy,
            EngineBadReply if cut => EngineFailure::Cut,
            EngineBadReply | EngineDown | EngineTimeout => EngineFailure::BadReply,
            _ => EngineFailure::Refused,
        }
    }

    /// Why the circuit is to open when this goes on; `None` where the engine is well.
    pub(crate) fn cause(self) -> Option<Cause> {
        match self {
            EngineFailure::Unreachable | EngineFailure::Broken => Some(Cause::Unreachable),
            EngineFailure::Cut
            | EngineFailure::Stalled
            | EngineFailure::Late
            | EngineFailure::BadReply => Some(Cause::Failing),
            EngineFailure::Busy | EngineFailure::Refused => None,
        }
    }

    /// Whether the engine may have begun to sample: the same call made again samples twice then.
    pub(crate) fn may_have_sampled(self) -> bool {
        use EngineFailure::{Busy, Refused, Unreachable};
        !matches!(self, Unreachable | Busy | Refused)
    }
}
