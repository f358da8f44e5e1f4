//! Calls that came to nothing, made again.
//!
//! Of a call that failed nothing is kept, so making it again changes no truth: the reply that is
//! recorded is the only one that was read. The engine may have sampled for the first, though, which
//! is why the shard counts and logs such calls.
//!
//! A call is made again where the engine could not be reached, broke off, answered with what cannot
//! be used, or is busy and says that it will not be for long; up to `limits.engine_retries` times
//! and within `limits.engine_ms`. Never where the engine refused the request, and never for an agent
//! that has left, unless its own retry waits for the answer. Which engine has the next try is the
//! shard's choice.

use super::Exchange;
use crate::fault::{Fault, FaultKind};
use crate::limits::{BUSY_RETRY_AFTER_S, Limits};

/// How often a call was made, and since when.
#[derive(Clone, Copy, Default)]
pub(super) struct Tries {
    again: u32,
    since_ms: Option<u64>,
}

impl Tries {
    /// A call is made: the first one counts.
    pub(super) fn begin(&mut self, now_ms: u64) {
        self.since_ms.get_or_insert(now_ms);
    }

    /// Takes one more try, where one is left.
    fn take(&mut self, limits: &Limits, now_ms: u64) -> bool {
        let since_ms = self.since_ms.unwrap_or(now_ms);
        let left = self.again < limits.engine_retries
            && now_ms.saturating_sub(since_ms) < limits.engine_ms;
        self.again += u32::from(left);
        left
    }
}

impl Exchange {
    /// Whether the call that ended in this fault is made again.
    pub(super) fn tries_again(&mut self, limits: &Limits, now_ms: u64, fault: &Fault) -> bool {
        let wanted = !self.given_up && (!self.gone || self.adopted());
        wanted && may_pass(fault) && self.tries.take(limits, now_ms)
    }
}

/// Whether the same call may well succeed, there or at another engine.
fn may_pass(fault: &Fault) -> bool {
    use FaultKind::{EngineBadReply, EngineBusy, EngineDown, EngineLimited};
    match fault.kind {
        EngineDown | EngineBadReply => true,
        EngineBusy | EngineLimited => {
            fault.retry_after_s.is_none_or(|seconds| seconds <= BUSY_RETRY_AFTER_S)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_try_may_mend() {
        use FaultKind::*;
        for (kind, mends) in [
            (EngineDown, true),
            (EngineBadReply, true),
            (EngineBusy, true),
            (EngineLimited, true),
            (EngineTimeout, false),
            (EngineRefused, false),
            (EngineDenied, false),
            (ContextOverflow, false),
            (Overload, false),
            (SessionClosed, false),
        ] {
            assert_eq!(may_pass(&Fault::new(kind, "x")), mends, "{kind:?}");
        }
        let later = |s| Fault { retry_after_s: Some(s), ..Fault::new(EngineBusy, "x") };
        assert!(may_pass(&later(BUSY_RETRY_AFTER_S)) && !may_pass(&later(BUSY_RETRY_AFTER_S + 1)));
    }

    #[test]
    fn tries_end_by_number_and_by_time() {
        let limits = Limits { engine_retries: 2, engine_ms: 100, ..Limits::default() };
        let mut tries = Tries::default();
        tries.begin(1_000);
        assert!(tries.take(&limits, 1_001) && tries.take(&limits, 1_099));
        assert!(!tries.take(&limits, 1_099), "two is all");
        let mut tries = Tries::default();
        tries.begin(1_000);
        tries.begin(1_050);
        assert!(!tries.take(&limits, 1_100), "the first call counts");
    }
}
