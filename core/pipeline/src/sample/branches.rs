//! A session's turns as branches: paths from a root to a turn that can be trained and that no turn
//! that can be trained goes on from.
//!
//! So what trains nobody (a review after the run, a heartbeat, an aborted answer) ends no branch: it
//! is left out, or is context where trained turns follow it.

use std::collections::BTreeMap;

use crate::id::{TokenId, TurnIndex};
use crate::planted::{self, Bug};
use crate::record::{Opened, Record, TurnRecord};
use crate::scene::Scene;
use crate::turn::Finish;

/// The records of a session, laid out for looking up.
pub(super) struct Session<'a> {
    pub(super) opened: &'a Opened,
    /// In the order of their indices, so that `turns[i].turn` is `i`.
    pub(super) turns: Vec<&'a TurnRecord>,
    /// Children of each turn, ascending.
    pub(super) children: Vec<Vec<usize>>,
    /// Whether the agent's side took the whole answer.
    pub(super) delivered: Vec<bool>,
    /// Whether a turn is out of order or names a parent that is not before it. It and what follows
    /// are not looked at.
    pub(super) broken: bool,
    /// Turns of each prompt that several turns had, ascending.
    same_prompt: BTreeMap<usize, Vec<usize>>,
}

impl<'a> Session<'a> {
    /// `None` without an opening record.
    pub(super) fn new(records: &'a [Record]) -> Option<Self> {
        let Some(Record::Opened(opened)) = records.first() else { return None };
        let mut turns: Vec<&TurnRecord> = Vec::new();
        let mut broken = false;
        for record in records {
            let Record::Turn(turn) = record else { continue };
            let next = turns.len() as u32;
            if turn.turn.0 != next || turn.parent.is_some_and(|parent| parent.0 >= next) {
                broken = true;
                break;
            }
            turns.push(turn);
        }
        let mut children = vec![Vec::new(); turns.len()];
        for (at, turn) in turns.iter().enumerate() {
            if let Some(parent) = turn.parent {
                children[parent.0 as usize].push(at);
            }
        }
        let mut delivered = vec![true; turns.len()];
        for record in records {
            if let Record::Delivery(delivery) = record
                && let Some(slot) = delivered.get_mut(delivery.turn.0 as usize)
            {
                *slot = delivery.whole;
            }
        }
        let same_prompt = same_prompts(&turns);
        Some(Self { opened, turns, children, delivered, broken, same_prompt })
    }

    /// Whether this turn's ids may be trained.
    pub(super) fn trainable(&self, turn: usize) -> bool {
        let record = self.turns[turn];
        trained(record.verdict.scene, record.finish) && !record.ids.is_empty()
    }

    pub(super) fn scene(&self, turn: usize) -> Scene {
        self.turns[turn].verdict.scene
    }

    pub(super) fn parent(&self, turn: usize) -> Option<usize> {
        self.turns[turn].parent.map(|parent| parent.0 as usize)
    }

    /// This turn, the one it extends, and on to the root.
    pub(super) fn upwards(&self, turn: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(turn), |turn| self.parent(*turn))
    }

    /// All turns with the very same prompt as this one, itself too; empty where there is no other.
    pub(super) fn same_prompt(&self, turn: usize) -> &[usize] {
        self.same_prompt.get(&turn).map_or(&[], Vec::as_slice)
    }

    /// Whether the answer never reached the agent whole, and the agent did not go on from it either.
    pub(super) fn undelivered(&self, turn: usize) -> bool {
        !self.delivered[turn] && self.children[turn].is_empty()
    }
}

/// Whether sampled ids of this scene that ended so are trained.
pub(super) fn trained(scene: Scene, finish: Finish) -> bool {
    scene.trained() && finish != Finish::Abort
}

fn same_prompts(turns: &[&TurnRecord]) -> BTreeMap<usize, Vec<usize>> {
    let mut prompts: BTreeMap<(Option<TurnIndex>, &[TokenId]), Vec<usize>> = BTreeMap::new();
    for (at, turn) in turns.iter().enumerate() {
        prompts.entry((turn.parent, &turn.stretch)).or_default().push(at);
    }
    let shared = prompts.into_values().filter(|turns| turns.len() > 1);
    shared.flat_map(|turns| turns.clone().into_iter().map(move |at| (at, turns.clone()))).collect()
}

/// Branches, and which of them trains what.
pub(super) struct Branches {
    /// Paths as turn numbers, in the order of their last turns. One is one segment.
    pub(super) paths: Vec<Vec<usize>>,
    /// The branch that trains a turn.
    owners: BTreeMap<usize, usize>,
}

impl Branches {
    pub(super) fn of(session: &Session<'_>) -> Self {
        let mut goes_on = vec![false; session.turns.len()];
        for turn in (0..session.turns.len()).rev() {
            if let Some(parent) = session.parent(turn) {
                goes_on[parent] |= goes_on[turn] || session.trainable(turn);
            }
        }
        let ends = (0..session.turns.len()).filter(|turn| session.trainable(*turn));
        let paths: Vec<Vec<usize>> = ends
            .filter(|turn| !goes_on[*turn])
            .map(|leaf| {
                let mut path: Vec<_> = session.upwards(leaf).collect();
                path.reverse();
                path
            })
            .collect();
        let owners = owners(session, &paths);
        Self { paths, owners }
    }

    /// Whether this branch trains this turn.
    pub(super) fn trains(&self, branch: usize, turn: usize) -> bool {
        match self.owners.get(&turn) {
            Some(owner) => *owner == branch || planted::on(Bug::TrainedTwice),
            None => false,
        }
    }

    /// The branch where a turn is at home: the one that trains it, else the first that has it.
    pub(super) fn home(&self, turn: usize) -> Option<usize> {
        let has = || self.paths.iter().position(|path| path.binary_search(&turn).is_ok());
        self.owners.get(&turn).copied().or_else(has)
    }
}

/// The final main branch trains all that it has; of the rest, the earliest branch that has it. Final
/// is the last main branch whose last answer the agent got, or simply the last one.
fn owners(session: &Session<'_>, paths: &[Vec<usize>]) -> BTreeMap<usize, usize> {
    let main = |leaf: usize| session.scene(leaf) == Scene::Main;
    let final_main = paths
        .iter()
        .enumerate()
        .filter_map(|(at, path)| path.last().map(|leaf| (at, *leaf)))
        .filter(|(_, leaf)| main(*leaf))
        .max_by_key(|(at, leaf)| (!session.undelivered(*leaf), *at))
        .map(|(at, _)| at);
    let mut owners = BTreeMap::new();
    for at in final_main.into_iter().chain(0..paths.len()) {
        for turn in paths[at].iter().filter(|turn| session.trainable(**turn)) {
            owners.entry(*turn).or_insert(at);
        }
    }
    owners
}
