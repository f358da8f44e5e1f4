//! A session in memory: options, trajectory, counters. It is what its journal says, no more.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::budget::{Reservations, Reserved, Room, Used};
use super::ticket::Tickets;
use crate::engine::EngineKind;
use crate::fault::{Fault, FaultKind};
use crate::id::{SessionId, TurnIndex};
use crate::id_text;
use crate::ingest::Seen;
use crate::limits::Limits;
use crate::parse;
use crate::protocol::{Dialect, Past};
use crate::record::{HistoryMode, Opened, Record, Retention, SessionOptions, TurnRecord};
use crate::render::{Model, ModelError};
use crate::rules::{Rule, RuleSet};
use crate::scene::{self, Recall, SceneRule, SceneSet};
use crate::trajectory::{Habits, Trajectory, TreeError};
use crate::turn::Reply;

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
    /// What sessions get that ask for nothing else.
    pub sessions: SessionDefaults,
}

/// The node's defaults for its sessions.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionDefaults {
    /// What the engine is shown of rewritten history.
    pub history: HistoryMode,
    /// What becomes of earlier reasoning.
    pub retention: Retention,
    /// Rules about what agents may change in their history, behind the sessions' own.
    pub rules: Vec<Rule>,
    /// Rules about what exchanges are for, behind the sessions' own.
    pub scenes: Vec<SceneRule>,
    /// How long an exchange whose agent is gone waits for the same request, and how long its answer
    /// is kept for it, in milliseconds.
    pub orphan_grace_ms: u64,
}

impl Default for SessionDefaults {
    fn default() -> Self {
        Self {
            history: HistoryMode::default(),
            retention: Retention::default(),
            rules: Vec::new(),
            scenes: Vec::new(),
            orphan_grace_ms: 15_000,
        }
    }
}

impl Gatehouse {
    /// One for another thread, with a model of its own ([`Model::separate`]).
    pub fn separate(&self) -> Result<Gatehouse, ModelError> {
        Ok(Gatehouse {
            model: Arc::new(self.model.separate()?),
            engine: self.engine,
            engine_model: self.engine_model.clone(),
            limits: self.limits.clone(),
            keepalive_first_ms: self.keepalive_first_ms,
            keepalive_next_ms: self.keepalive_next_ms,
            node: self.node.clone(),
            sessions: self.sessions.clone(),
        })
    }

    /// The opening record of a new session. The node's defaults are settled into it: a session that
    /// is loaded again is the same, whatever the configuration says by then.
    pub fn open(&self, session_id: SessionId, mut options: SessionOptions, at_ms: u64) -> Opened {
        options.history.get_or_insert(self.sessions.history);
        // Who is shown what the agent sent is shown what the template makes of it, unless told otherwise.
        let retention = match options.history {
            Some(HistoryMode::Faithful) => Retention::Template,
            _ => self.sessions.retention,
        };
        options.retention.get_or_insert(retention);
        Opened {
            version: 1,
            session_id,
            at_ms,
            options,
            node_rules: self.sessions.rules.clone(),
            node_scenes: self.sessions.scenes.clone(),
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
    pub(super) scene_rules: SceneSet,
    pub(super) recall: Recall,
    /// The agent that its turns show, the last such turn counts.
    pub(super) detected: Option<&'static str>,
    /// Replies by the id of their exchange, where its dialect lets requests refer to them.
    replies: HashMap<String, Rc<Reply>>,
    /// What the last exchange ended in, where neither answer nor agent's fault. Not in the journal.
    pub(super) last_fault: Option<FaultKind>,
    in_flight: Rc<Cell<u32>>,
    reservations: Rc<Reservations>,
    /// Exchanges under way, and answers that agents may still come back for.
    pub(super) tickets: Tickets,
    /// What is known of its requests.
    pub(super) seen: Seen,
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
    /// The session's rules, or its node's, cannot be used.
    #[error("{0}")]
    Rules(String),
}

impl ReplayError {
    /// The fault to answer with where such a session was to be opened.
    pub fn fault(&self) -> Fault {
        let kind = match self {
            ReplayError::Rules(_) => FaultKind::BadRequest,
            _ => FaultKind::Internal,
        };
        Fault::new(kind, self)
    }
}

/// The rules of a session, or what is wrong with one of them. Its own come first, then the node's,
/// then those shipped for the agent.
pub fn rule_set(agent: Option<&str>, node: &[Rule], own: &[Rule]) -> Result<RuleSet, String> {
    if let Some(rule) = own.iter().chain(node).find(|rule| rule.name.is_empty()) {
        return Err(format!("`rules`: a rule of action {:?} has no name", rule.action));
    }
    RuleSet::for_session(agent, node, own).map_err(|error| format!("`rules`: {error}"))
}

/// The scene rules of a session, or what is wrong with one of them.
pub fn scene_set(
    agent: Option<&str>,
    node: &[SceneRule],
    own: &[SceneRule],
) -> Result<SceneSet, String> {
    SceneSet::for_session(agent, node, own).map_err(|error| format!("`scenes`: {error}"))
}

impl Past for Session {
    fn reply(&self, id: &str) -> Option<Rc<Reply>> {
        self.replies.get(id).cloned()
    }
}

impl Session {
    /// A new session. Rules that switch off what is not there are refused.
    pub fn open(opened: Opened) -> Result<Session, ReplayError> {
        let options = &opened.options;
        let rules = rule_set(options.agent.as_deref(), &opened.node_rules, &options.rules)
            .map_err(ReplayError::Rules)?;
        let scene_rules = scene_set(options.agent.as_deref(), &opened.node_scenes, &options.scenes)
            .map_err(ReplayError::Rules)?;
        Ok(Self::new(Box::new(opened), rules, scene_rules))
    }

    /// The session that these records describe. Its rules were checked when it was opened; those
    /// shipped since may have other names.
    pub fn replay(records: Vec<Record>) -> Result<Session, ReplayError> {
        let mut records = records.into_iter();
        let Some(Record::Opened(opened)) = records.next() else {
            return Err(ReplayError::NotOpened);
        };
        if opened.version != 1 {
            return Err(ReplayError::Version(opened.version));
        }
        let options = &opened.options;
        let agent = options.agent.as_deref();
        let rules = RuleSet::recorded(agent, &opened.node_rules, &options.rules)
            .map_err(|error| ReplayError::Rules(error.to_string()))?;
        let scene_rules = SceneSet::recorded(agent, &opened.node_scenes, &options.scenes)
            .map_err(|error| ReplayError::Rules(error.to_string()))?;
        let mut session = Self::new(opened, rules, scene_rules);
        for record in records {
            session.apply(&record)?;
        }
        Ok(session)
    }

    fn new(opened: Box<Opened>, rules: RuleSet, scene_rules: SceneSet) -> Self {
        Self {
            opened,
            trajectory: Trajectory::default(),
            sampled_tokens: 0,
            scenes: BTreeMap::new(),
            reward: None,
            sealed: false,
            rules,
            scene_rules,
            recall: Recall::default(),
            detected: None,
            replies: HashMap::new(),
            last_fault: None,
            in_flight: Rc::new(Cell::new(0)),
            reservations: Rc::default(),
            tickets: Tickets::default(),
            seen: Seen::default(),
        }
    }

    /// Makes the record's frame, then takes it over: memory must never hold what cannot be written.
    pub(super) fn take_over(&mut self, mut record: Record) -> Result<Bytes, Fault> {
        let frame = record.frame().map_err(|error| Fault::new(FaultKind::JournalFailed, error))?;
        self.apply(&record).map_err(|error| Fault::new(FaultKind::Internal, error))?;
        Ok(frame)
    }

    /// Does the same with a turn, whose reply is still wanted; `sent` is the text of its stretch.
    pub(super) fn take_over_turn(
        &mut self,
        turn: &mut TurnRecord,
        sent: Bytes,
    ) -> Result<Bytes, Fault> {
        let frame = turn.frame().map_err(|error| Fault::new(FaultKind::JournalFailed, error))?;
        self.add_turn(turn, sent).map_err(|error| Fault::new(FaultKind::Internal, error))?;
        Ok(frame)
    }

    /// Takes over a record that is in, or on its way to, the journal.
    pub fn apply(&mut self, record: &Record) -> Result<(), ReplayError> {
        match record {
            Record::Opened(_) => return Err(ReplayError::NotOpened),
            Record::Turn(turn) => self.add_turn(turn, id_text::of(&turn.stretch))?,
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

    /// What becomes of earlier reasoning.
    pub(super) fn retention(&self) -> Retention {
        self.options().retention.unwrap_or_default()
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

    /// Whether another exchange may start. What its budget allows is asked once it is known that the
    /// exchange samples: [`Session::room`].
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
        Ok(())
    }

    /// What the budget leaves for one more call.
    pub(super) fn room(&self) -> Result<Room, Fault> {
        let used = Used { turns: self.trajectory.turns(), sampled_tokens: self.sampled_tokens };
        self.reservations.room(&self.opened.options.limits, used)
    }

    /// Reserves a turn of so many tokens.
    pub(super) fn reserve(&self, tokens: u32) -> Reserved {
        self.reservations.take(tokens)
    }

    pub(super) fn next_turn(&self) -> TurnIndex {
        TurnIndex(self.trajectory.turns())
    }

    fn add_turn(&mut self, turn: &TurnRecord, sent: Bytes) -> Result<(), TreeError> {
        self.trajectory.insert_sent(turn, sent)?;
        self.sampled_tokens += turn.ids.len() as u64;
        if turn.dialect == Dialect::Responses.name() {
            self.replies.insert(turn.request_id.clone(), Rc::new(turn.reply.clone()));
        }
        self.detected = scene::detected_by(&turn.verdict).or(self.detected);
        *self.scenes.entry(turn.verdict.scene.name().to_owned()).or_default() += 1;
        Ok(())
    }
}
