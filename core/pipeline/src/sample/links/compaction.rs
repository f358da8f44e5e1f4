//! Which lines begin with a compaction's summary.

use std::collections::BTreeMap;

use super::text::{Written, plain};
use crate::sample::branches::Session;
use crate::scene::Scene;
use crate::turn::Message;

struct Compaction {
    turn: usize,
    summary: Written,
}

/// By the turn that begins a line: the last turns of the lines that were summed up, and the
/// compaction turns.
pub(super) fn links(session: &Session<'_>) -> BTreeMap<usize, Vec<usize>> {
    let compactions: Vec<Compaction> = (0..session.turns.len())
        .filter(|turn| session.scene(*turn) == Scene::Compaction && session.trainable(*turn))
        .filter_map(|turn| {
            let summary = &session.turns[turn].reply.content;
            Some(Compaction { turn, summary: Written::new(summary, prompt(session, turn))? })
        })
        .collect();
    if compactions.is_empty() {
        return BTreeMap::new();
    }
    let begun = (0..session.turns.len()).filter(|turn| begins_line(session, *turn));
    begun
        .map(|turn| (turn, leads_to(session, &compactions, turn)))
        .filter(|(_, to)| !to.is_empty())
        .collect()
}

/// Whether the turn is the first of a line: of a tree, or of a branch. Agents may keep the head of a
/// conversation when they compact the rest of it.
fn begins_line(session: &Session<'_>, turn: usize) -> bool {
    let first = match session.parent(turn) {
        None => true,
        Some(parent) => session.children[parent].first().is_some_and(|first| *first < turn),
    };
    first && matches!(session.scene(turn), Scene::Main | Scene::Subagent)
}

fn leads_to(session: &Session<'_>, compactions: &[Compaction], turn: usize) -> Vec<usize> {
    let texts: Vec<String> =
        session.turns[turn].messages.iter().map(|message| plain(&message.content)).collect();
    let used: Vec<&Compaction> = compactions
        .iter()
        .filter(|made| made.turn < turn && !session.upwards(turn).any(|up| up == made.turn))
        .filter(|made| texts.iter().any(|text| made.summary.is_in(text)))
        .collect();
    // A later compaction that had read an earlier summary hands it on: that one leads no further.
    let handed_on = |made: &Compaction| {
        used.iter().any(|later| {
            later.turn > made.turn
                && prompt(session, later.turn).any(|text| made.summary.is_in(&plain(text)))
        })
    };
    let mut to = Vec::new();
    for made in used.iter().filter(|made| !handed_on(made)) {
        to.extend(line_before(session, made.turn, turn));
        to.push(made.turn);
    }
    to
}

/// The last turn of the line that this compaction summed up for the line that begins with `turn`:
/// what the compaction extends; where it extends nothing, the last turn before it of the same kind,
/// under the same instructions and tools if there is one.
fn line_before(session: &Session<'_>, compaction: usize, turn: usize) -> Option<usize> {
    let loops = |at: &usize| {
        matches!(session.scene(*at), Scene::Main | Scene::Subagent) && session.trainable(*at)
    };
    let alike = |at: &usize| session.scene(*at) == session.scene(turn) && loops(at);
    let same_root = |at: &usize| session.turns[*at].root == session.turns[turn].root;
    session
        .upwards(compaction)
        .find(loops)
        .or_else(|| (0..compaction).rev().find(|at| alike(at) && same_root(at)))
        .or_else(|| (0..compaction).rev().find(alike))
}

/// All texts of a turn's prompt.
fn prompt<'a>(session: &'a Session<'_>, turn: usize) -> impl Iterator<Item = &'a str> {
    session.upwards(turn).flat_map(move |up| {
        let answer = (up != turn).then_some(session.turns[up].reply.content.as_str());
        let messages = session.turns[up].messages.iter();
        messages.map(|message: &Message| message.content.as_str()).chain(answer)
    })
}
