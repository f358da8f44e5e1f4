//! What an engine did, readable from other threads while it runs.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rollgate_pipeline::id::TokenId;
use rollgate_pipeline::turn::Finish;
use serde::Serialize;

use super::signal::Signal;

/// Most ids kept of past calls; the oldest calls are forgotten first.
const KEPT_IDS: usize = 1 << 22;

/// Counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EngineStats {
    /// Generation calls, faulty ones included, refused ones not.
    pub calls: u64,
    /// Ids in the prompts of these calls.
    pub prompt_tokens: u64,
    /// Of these, ids taken from the prefix cache.
    pub cached_tokens: u64,
    /// Ids sampled and answered.
    pub sampled_tokens: u64,
    /// Calls that a scripted fault was put on.
    pub forced_faults: u64,
    /// Requests of any kind that were refused as wrong.
    pub refused: u64,
    /// Calls that were aborted by request.
    pub aborted: u64,
    /// Calls that wait for their delay now.
    pub running: u64,
}

/// One generation call as the engine saw it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RecordedCall {
    /// The caller's request id, without a prefix of the engine; empty when there was none.
    pub request_id: String,
    /// Prompt ids.
    pub prompt: Vec<TokenId>,
    /// Sampled ids, before a fault changed them.
    pub ids: Vec<TokenId>,
    /// Log-probabilities of these, before a fault changed them.
    pub logprobs: Vec<f32>,
    /// Why the generation ended.
    pub finish: Finish,
    /// Label of the weights.
    pub version: String,
    /// Key of the scripted fault that was put on it.
    pub fault: Option<&'static str>,
    /// Whether ids and log-probabilities reach the caller as they are.
    pub answered: bool,
}

/// Counters of one engine.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) calls: AtomicU64,
    pub(super) prompt_tokens: AtomicU64,
    pub(super) cached_tokens: AtomicU64,
    pub(super) sampled_tokens: AtomicU64,
    pub(super) forced_faults: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) aborted: AtomicU64,
    pub(super) running: AtomicU64,
}

/// Counters, past calls and the stop switch.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) counters: Counters,
    pub(super) stop: Signal,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    calls: VecDeque<RecordedCall>,
    ids: usize,
    file: Option<File>,
}

impl Ledger {
    /// Also appends every call to this file, as JSON, one a line.
    pub(super) fn record_to(&self, path: &Path) -> io::Result<()> {
        let file = File::options().create(true).append(true).open(path)?;
        self.kept().file = Some(file);
        Ok(())
    }

    /// The counts now.
    pub(super) fn stats(&self) -> EngineStats {
        let counters = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EngineStats {
            calls: read(&counters.calls),
            prompt_tokens: read(&counters.prompt_tokens),
            cached_tokens: read(&counters.cached_tokens),
            sampled_tokens: read(&counters.sampled_tokens),
            forced_faults: read(&counters.forced_faults),
            refused: read(&counters.refused),
            aborted: read(&counters.aborted),
            running: read(&counters.running),
        }
    }

    /// Keeps a call.
    pub(super) fn keep(&self, call: RecordedCall) {
        let mut kept = self.kept();
        if let Some(file) = &mut kept.file
            && let Err(error) = append(file, &call)
        {
            tracing::error!(%error, "a call cannot be recorded");
        }
        kept.ids += call.prompt.len() + call.ids.len();
        kept.calls.push_back(call);
        while kept.ids > KEPT_IDS {
            let Some(oldest) = kept.calls.pop_front() else { break };
            kept.ids -= oldest.prompt.len() + oldest.ids.len();
        }
    }

    /// The calls that are kept, oldest first.
    pub(super) fn recorded(&self) -> Vec<RecordedCall> {
        self.kept().calls.iter().cloned().collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A list of finished calls cannot be half written.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One write per line, so that a reader never sees half of one.
fn append(file: &mut File, call: &RecordedCall) -> io::Result<()> {
    let mut line = serde_json::to_vec(call)?;
    line.push(b'\n');
    file.write_all(&line)
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
