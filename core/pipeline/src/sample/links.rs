//! How segments of a session relate, so that credit can cross a cut.
//!
//! A link begins at a turn and is written once, on the segment that trains that turn.
//!
//! - `compacts`: the turn begins a line with a compaction's summary. It leads to the last turn of the
//!   line that was summed up, and to the compaction turn itself.
//! - `spawned`: the turn begins a subagent. It leads to the turn whose tool call asked for it.
//!   Subagents that were asked for with the same words lead to the same turn.
//! - `retries`: the turn had the same prompt as a turn whose answer did not reach the agent.
//! - `rewinds`: the turn leaves a line at an earlier turn. It leads to that line's next turn.
//!
//! What lies in no sample cannot be led to, and no segment leads to itself: such links are left out.

mod compaction;
mod spawn;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::branches::{Branches, Session};
use crate::id::{SessionId, TurnIndex};

/// How a segment relates to another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// It begins with a summary of the other, or one that the other made.
    Compacts,
    /// It is a subagent that the other started.
    Spawned,
    /// It repeats a prompt whose answer was lost.
    Retries,
    /// It leaves the other at an earlier turn.
    Rewinds,
}

/// What a link leads to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct LinkTarget {
    /// The session; so far always the sample's own.
    pub session_id: SessionId,
    /// Segment of that session.
    pub segment: u32,
    /// Turn of that session, in that segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnIndex>,
}

/// A relation of a sample to another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Link {
    /// How.
    pub kind: LinkKind,
    /// To what.
    pub to: LinkTarget,
}

/// The links of each branch that has some, sorted.
pub(super) fn links(session: &Session<'_>, branches: &Branches) -> BTreeMap<usize, Vec<Link>> {
    let mut found: BTreeMap<usize, BTreeSet<Link>> = BTreeMap::new();
    let mut add = |from: usize, kind: LinkKind, to: usize| {
        let (Some(home), Some(target)) = (branches.home(from), branches.home(to)) else { return };
        if home == target {
            return;
        }
        found.entry(home).or_default().insert(Link {
            kind,
            to: LinkTarget {
                session_id: session.opened.session_id.clone(),
                segment: target as u32,
                turn: Some(TurnIndex(to as u32)),
            },
        });
    };
    let compacted = compaction::links(session);
    for (from, to) in &compacted {
        to.iter().for_each(|to| add(*from, LinkKind::Compacts, *to));
    }
    for (from, to) in spawn::links(session, |turn| compacted.contains_key(&turn)) {
        add(from, LinkKind::Spawned, to);
    }
    for turn in 0..session.turns.len() {
        retried(session, turn).for_each(|to| add(turn, LinkKind::Retries, to));
        if let Some(to) = left(session, turn).filter(|_| !compacted.contains_key(&turn)) {
            add(turn, LinkKind::Rewinds, to);
        }
    }
    found.into_iter().map(|(branch, links)| (branch, links.into_iter().collect())).collect()
}

/// Turns with the same prompt whose answers were lost. Of two lost ones, the later repeats the
/// earlier.
fn retried<'a>(session: &'a Session<'_>, turn: usize) -> impl Iterator<Item = usize> + 'a {
    let others = session.same_prompt(turn).iter().copied();
    others.filter(move |other| {
        *other != turn
            && session.undelivered(*other)
            && (*other < turn || !session.undelivered(turn))
    })
}

/// Where another line of the same kind had gone on from the turn that this one goes on from. A turn
/// that a template made to be rendered anew leaves nothing, and an equal prompt is a sibling.
fn left(session: &Session<'_>, turn: usize) -> Option<usize> {
    if session.turns[turn].anew.is_some() {
        return None;
    }
    let earlier = session.children[session.parent(turn)?].iter().rev().copied();
    let mut earlier = earlier.filter(|other| *other < turn);
    earlier.find(|other| {
        session.scene(*other) == session.scene(turn)
            && session.trainable(*other)
            && !session.same_prompt(turn).contains(other)
    })
}

#[cfg(test)]
mod tests;
