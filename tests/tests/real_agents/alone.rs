//! Agents that a test starts by itself, on a gate of its own: for what `rollgate run` never does to
//! them (a wrong window, a broken line, an engine that is too slow).

use std::path::PathBuf;

use rollgate_harness::Harness;
use rollgate_tests::launched::{self, Plan, Run};

use crate::{bundles, slots};

/// The program of the agent's bundle, which is installed if it is missing. `None`: the real agents
/// are left out, which is said.
pub fn program(harness: &dyn Harness) -> Option<PathBuf> {
    if crate::skipped() {
        return None;
    }
    Some(bundles::program(harness.name()))
}

/// Runs the agent to its end, once it may.
pub fn run(harness: &dyn Harness, plan: &Plan<'_>) -> Run {
    let _slot = slots::take();
    launched::run(harness, plan)
}
