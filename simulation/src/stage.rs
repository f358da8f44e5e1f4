//! What all parts of a run share.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use rollgate_pipeline::id::{SessionId, SessionKey, TokenId};
use rollgate_pipeline::render::sample_model::test_model;
use rollgate_pipeline::render::{ControlText, Model};
use rollgate_shards::Gate;
use rollgate_shards::sim::Process;

use crate::ledger::Ledger;
use crate::plan::Plan;

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| Arc::new(test_model()));

/// The model that is served.
pub fn model() -> Arc<Model> {
    MODEL.clone()
}

/// The ids of a text with markers.
pub fn encode(text: &str) -> Vec<TokenId> {
    let mut ids = Vec::new();
    let encoded = MODEL.tokenizer.encode(text, ControlText::Match, &mut ids);
    encoded.expect("the sample tokenizer takes any text");
    ids
}

/// The bytes of ids.
pub fn decode(ids: &[TokenId]) -> Vec<u8> {
    let bytes = |id: &TokenId| MODEL.tokenizer.bytes_of(*id).unwrap_or_default().to_vec();
    ids.iter().flat_map(bytes).collect()
}

/// A session of the run.
pub struct SessionOf {
    pub number: u64,
    pub id: SessionId,
    pub key: SessionKey,
    pub path: PathBuf,
    /// It was told to close; agents are refused from some time on.
    pub closing: Cell<bool>,
    /// Its journal may have been lost with the power.
    pub lost: Cell<bool>,
}

impl SessionOf {
    /// What its prompts say, and no other session's.
    pub fn mark(&self) -> String {
        format!("worker-{}-room", self.number)
    }
}

/// A whole answer that an agent has received.
#[derive(Clone, Debug)]
pub struct Got {
    pub session: u64,
    pub ask: u64,
    pub number: u64,
    pub content: String,
}

/// One thing that an agent wanted to know, however often it had to ask.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    pub session: u64,
    /// Identical requests were meant to be sampled each.
    pub sibling: bool,
    /// Nothing happened after which a second sampling would be right.
    pub once: bool,
    /// When its agents left, in nanoseconds.
    pub left: Vec<u64>,
    /// Since when an agent waits for it, in nanoseconds.
    pub waits_since: Option<u64>,
    /// An engine has failed on it, or was told to.
    pub trouble: bool,
    /// How often engines had failed as a whole when it was first asked.
    pub failures: u64,
}

/// The stage.
pub struct Stage {
    pub plan: Plan,
    pub ledger: RefCell<Ledger>,
    pub sessions: RefCell<Vec<Rc<SessionOf>>>,
    pub asks: RefCell<Vec<Ask>>,
    pub got: RefCell<Vec<Got>>,
    pub broken: RefCell<Vec<String>>,
    pub gate: RefCell<Option<Gate>>,
    pub process: Cell<Process>,
    /// Engines do as they are told from now on.
    pub healthy: Cell<bool>,
    /// How often an engine failed as a whole.
    pub failures: Cell<u64>,
    /// Engines that nothing listens for just now.
    pub down: Cell<u64>,
    /// Agents at work.
    pub agents: Cell<u64>,
    /// Exchanges that were answered, for figures.
    pub answered: Cell<u64>,
    /// What was shown before that may be lost: it was not synced when the power went.
    pub unpromised_ns: Cell<u64>,
    /// How often the node was ended.
    pub ended: Cell<u64>,
}

impl Stage {
    /// A promise was broken.
    pub fn broke(&self, what: impl Into<String>) {
        self.broken.borrow_mut().push(what.into());
    }

    /// A new thing to ask; its number.
    pub fn ask(&self, session: u64, sibling: bool) -> u64 {
        let mut asks = self.asks.borrow_mut();
        let failures = self.failures.get();
        asks.push(Ask {
            session,
            sibling,
            once: true,
            failures,
            trouble: self.down.get() > 0,
            ..Ask::default()
        });
        asks.len() as u64 - 1
    }

    /// Whether an agent that is answered with a fault has an engine to blame.
    pub fn is_troubled(&self, ask: u64) -> bool {
        let ask = &self.asks.borrow()[ask as usize];
        !self.plan.calm || ask.trouble || ask.failures != self.failures.get()
    }

    /// From now on this may be sampled more than once.
    pub fn excuse(&self, ask: u64) {
        self.asks.borrow_mut()[ask as usize].once = false;
    }
}
