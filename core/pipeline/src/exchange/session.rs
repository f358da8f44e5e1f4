//! A session in memory: options, trajectory, counters. It is what its journal says, no more.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;

use crate::engine::EngineKind;
use crate::fault::{Fault, FaultKind};
use crate::id::{SessionId, TurnIndex};
use crate::limits::Limits;
use crate::parse;
use crate::record::{Opened, Record, SessionOptions, TurnRecord};
use crate::render::Model;
use crate::rules::RuleSet;
use crate::trajectory::{Habits, Trajectory, TreeError};

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
    /// After how long without a byte a stream gets its first keepalive.
    pub keepalive_first_ms: u64,
    /// After how long without a byte a stream gets its next ones.
    pub keepalive_next_ms: u64,
    /// Name of the node.
    pub node: String,
}

impl Gatehouse {
    /// The opening record of a new session.
    pub fn open(&self, session_id: SessionId, options: SessionOptions, at_ms: u64) -> Opened {
        Opened {
            version: 1,
            session_id,
            at_ms,
            options,
            model: self.model.name.clone(),
            engine: self.engine.name().to_owned(),
            tokenizer_digest: self.model.tokenizer_digest.clone(),
            template_digest: self.model.template_digest.clone(),
            parser: parse::version(&self.model).to_owned(),
            rollgate: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// What `GET /v1/sessions/ID` shows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SessionState {
    /// The session.
    pub session_id: SessionId,
    /// `open` or `closed`.
    pub state: &'static str,
    /// Name of the agent, where it was given.
    pub agent: Option<String>,
    /// The served model.
    pub model: String,
    /// When it was opened, in milliseconds since the epoch.
    pub opened_at_ms: u64,
    /// Recorded turns.
    pub turns: u32,
    /// Ids sampled so far.
    pub sampled_tokens: u64,
    /// Turns per scene.
    pub scenes: BTreeMap<String, u32>,
    /// Segments as of now: leaves of the trajectory.
    pub segments: u32,
    /// The reward, where one was set.
    pub reward: Option<f64>,
    /// Label of the fault that the last exchange ended in, where the agent was not to blame. A
    /// session that was reloaded since does not know it.
    pub last_fault: Option<&'static str>,
}

/// A session in memory.
pub struct Session {
    opened: Box<Opened>,
    pub(super) trajectory: Trajectory,
    sampled_tokens: u64,
    scenes: BTreeMap<String, u32>,
    reward: Option<f64>,
    sealed: bool,
    rules: RuleSet,
    /// What the last exchange ended in, where neither answer nor agent's fault. Not in the journal.
    pub(super) last_fault: Option<FaultKind>,
    in_flight: Rc<Cell<u32>>,
}

/// Counts one exchange in its session while it lives.
pub(super) struct InFlight(Rc<Cell<u32>>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Why records do not make a session.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The first record must be the opening one, and the only one.
    #[error("the journal does not begin with one opening record")]
    NotOpened,
    /// Written by a version that this one does not know.
    #[error("the journal has record version {0}; this version of Rollgate reads version 1")]
    Version(u32),
    /// A turn does not fit the trajectory.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl Session {
    /// The session that these records describe.
    pub fn replay(records: Vec<Record>) -> Result<Session, ReplayError> {
        let mut records = records.into_iter();
        let Some(Record::Opened(opened)) = records.next() else {
            return Err(ReplayError::NotOpened);
        };
        if opened.version != 1 {
            return Err(ReplayError::Version(opened.version));
        }
        let mut session = Self {
            opened,
            trajectory: Trajectory::default(),
            sampled_tokens: 0,
            scenes: BTreeMap::new(),
            reward: None,
            sealed: false,
            rules: RuleSet::default(),
            last_fault: None,
            in_flight: Rc::new(Cell::new(0)),
        };
        for record in records {
            session.apply(&record)?;
        }
        Ok(session)
    }

    /// Takes over a record that is in, or on its way to, the journal.
    pub fn apply(&mut self, record: &Record) -> Result<(), ReplayError> {
        match record {
            Record::Opened(_) => return Err(ReplayError::NotOpened),
            Record::Turn(turn) => self.add_turn(turn)?,
            Record::Delivery(delivery) => {
                self.trajectory.set_delivered(delivery.turn, delivery.whole);
            }
            Record::Reward(reward) => self.reward = reward.reward,
            Record::Sealed(_) => self.sealed = true,
        }
        Ok(())
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.opened.session_id
    }

    /// Its options.
    pub fn options(&self) -> &SessionOptions {
        &self.opened.options
    }

    /// What counts as equal in it.
    pub(super) fn habits(&self) -> Habits<'_> {
        Habits { mode: self.options().history.unwrap_or_default(), rules: &self.rules }
    }

    /// Whether it is sealed.
    pub fn sealed(&self) -> bool {
        self.sealed
    }

    /// What people and programs may see of it.
    pub fn state(&self) -> SessionState {
        SessionState {
            session_id: self.opened.session_id.clone(),
            state: if self.sealed { "closed" } else { "open" },
            agent: self.opened.options.agent.clone(),
            model: self.opened.model.clone(),
            opened_at_ms: self.opened.at_ms,
            turns: self.trajectory.turns(),
            sampled_tokens: self.sampled_tokens,
            scenes: self.scenes.clone(),
            segments: self.trajectory.leaves(),
            reward: self.reward,
            last_fault: self.last_fault.map(FaultKind::label),
        }
    }

    /// When it was opened, in milliseconds since the epoch.
    pub fn opened_at_ms(&self) -> u64 {
        self.opened.at_ms
    }

    /// Exchanges that are under way.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    pub(super) fn enter(&self) -> InFlight {
        self.in_flight.set(self.in_flight.get() + 1);
        InFlight(Rc::clone(&self.in_flight))
    }

    /// Whether another exchange may start; it counts as one in flight already.
    pub(super) fn admit(&self, gatehouse: &Gatehouse) -> Result<(), Fault> {
        if self.sealed {
            let message = "this session is closed; open another one to go on";
            return Err(Fault::new(FaultKind::SessionClosed, message));
        }
        let model = &gatehouse.model;
        if self.opened.tokenizer_digest != model.tokenizer_digest
            || self.opened.template_digest != model.template_digest
        {
            let message = "this session was begun with another tokenizer or chat template than is \
                           served now; its samples can be fetched, but open another one to go on";
            return Err(Fault::new(FaultKind::SessionClosed, message));
        }
        let budget = &self.opened.options.limits;
        let others = self.in_flight().saturating_sub(1);
        if budget.turns.is_some_and(|turns| self.trajectory.turns() + others >= turns) {
            let most = budget.turns.unwrap_or_default();
            let message = format!("the session's budget of {most} turns is used up");
            return Err(Fault::new(FaultKind::Budget, message));
        }
        self.tokens_left().map(drop)
    }

    /// Tokens that may still be sampled.
    pub(super) fn tokens_left(&self) -> Result<u32, Fault> {
        let Some(budget) = self.opened.options.limits.tokens else { return Ok(u32::MAX) };
        match budget.saturating_sub(self.sampled_tokens) {
            0 => {
                let message = format!("the session's budget of {budget} sampled tokens is used up");
                Err(Fault::new(FaultKind::Budget, message))
            }
            left => Ok(u32::try_from(left).unwrap_or(u32::MAX)),
        }
    }

    pub(super) fn next_turn(&self) -> TurnIndex {
        TurnIndex(self.trajectory.turns())
    }

    fn add_turn(&mut self, turn: &TurnRecord) -> Result<(), TreeError> {
        self.trajectory.insert(turn)?;
        self.sampled_tokens += turn.ids.len() as u64;
        *self.scenes.entry(turn.verdict.scene.name().to_owned()).or_default() += 1;
        Ok(())
    }
}
