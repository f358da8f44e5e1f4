//! What goes wrong on demand, and how often what was asked for.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// Kinds of calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// A sandbox is made.
    Create,
    /// Sandboxes are listed.
    List,
    /// A sandbox is looked at.
    Info,
    /// A sandbox is ended.
    Kill,
    /// A sandbox's time is set.
    Timeout,
    /// A sandbox is connected to (control plane).
    Resume,
    /// envd is asked whether it lives.
    Health,
    /// A file is read.
    Read,
    /// A file is written.
    Write,
    /// A process is started.
    Start,
    /// A process is attached to.
    Attach,
    /// Any other call to envd's processes or file system.
    Rpc,
}

/// What happens instead of, or during, the right answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// Nothing is done; this is answered.
    Answer {
        /// HTTP status.
        status: u16,
        /// Message in the body.
        message: String,
        /// Headers, such as `Retry-After`.
        headers: Vec<(String, String)>,
    },
    /// The edge says that there is no such sandbox (502), which goes on living.
    EdgeWithoutSandbox,
    /// The edge says that nothing listens on the port (502).
    EdgeWithoutPort,
    /// It is done, and answered so much later.
    Late {
        /// Pause before the answer.
        delay_ms: u64,
    },
    /// It is done, and never answered.
    Never,
    /// It is done, and the connection is cut without an answer.
    Lost,
    /// It is done, and this is answered.
    DoneBut {
        /// HTTP status.
        status: u16,
    },
    /// A created sandbox's envd is up only after a while.
    UpLater {
        /// Until then the edge says that nothing listens.
        after_ms: u64,
    },
    /// A stream is cut in the middle of an envelope, after so many whole ones.
    Cut {
        /// Whole envelopes before the cut.
        after: usize,
    },
    /// A stream ends without the envelope that says so, after so many others.
    NoEnd {
        /// Whole envelopes before the end.
        after: usize,
    },
    /// A stream ends with this error, after so many envelopes.
    EndError {
        /// Whole envelopes before the end.
        after: usize,
        /// Code of the error.
        code: String,
        /// Its message.
        message: String,
    },
    /// A stream falls silent after so many envelopes, without keepalives; its process goes on.
    Silent {
        /// Whole envelopes before the silence.
        after: usize,
    },
    /// The sandbox dies so long after the call began.
    Die {
        /// Its last milliseconds.
        after_ms: u64,
    },
    /// The body comes one byte at a time.
    Drip {
        /// Pause between two bytes.
        every_ms: u64,
    },
}

/// One planted fault.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// Which calls it hits.
    pub on: On,
    /// How many of them.
    pub times: u32,
    /// How many of them are left alone before.
    pub skip: u32,
    /// What happens.
    pub does: Does,
}

/// Planted faults and counts.
#[derive(Debug, Default)]
pub(super) struct Faults(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    planted: Vec<Fault>,
    seen: HashMap<On, u64>,
}

impl Faults {
    pub fn plant(&self, fault: Fault) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).planted.push(fault);
    }

    pub fn seen(&self, on: On) -> u64 {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.seen.get(&on).copied().unwrap_or(0)
    }

    /// Counts a call, and says what goes wrong with it: the first planted fault that is due.
    pub fn meet(&self, on: On) -> Option<Does> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state.seen.entry(on).or_default() += 1;
        let at = state.planted.iter_mut().position(|fault| {
            let hit = fault.on == on;
            let skipped = hit && fault.skip > 0;
            fault.skip -= u32::from(skipped);
            hit && !skipped
        })?;
        let fault = state.planted.get_mut(at)?;
        let does = fault.does.clone();
        fault.times = fault.times.saturating_sub(1);
        if fault.times == 0 {
            state.planted.remove(at);
        }
        Some(does)
    }
}
