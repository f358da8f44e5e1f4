//! The message layer over the token layer: which turn a request continues.

use std::collections::HashMap;

use super::path::extend;
use super::tokens::{EdgeIndex, TokenTree};
use super::{Digest, Evidence, Path, Reader};
use crate::id::{TokenId, TurnIndex};
use crate::record::TurnRecord;
use crate::turn::{Message, Role};

/// Where a request joins the trajectory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Resume {
    /// The turn whose output the prompt extends; `None`: render from the start.
    pub parent: Option<TurnIndex>,
    /// How many elements of the request lie before that point.
    pub matched: usize,
    /// A turn with the very same prompt: its stretch can be used as it is.
    pub same_prompt: Option<TurnIndex>,
    /// The request's own chain where it joins `parent`, if that is not the parent's.
    pub joined: Option<Digest>,
    /// Rules that took part, each once.
    pub rules: Vec<String>,
    /// About how many tokens before that point the agent's copy reads differently.
    pub context_diff_tokens: u32,
}

/// Why a record does not fit the tree.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Turns are counted without gaps.
    #[error("turn {found} follows {expected} turns")]
    OutOfOrder {
        /// Index of the record.
        found: u32,
        /// Turns there are.
        expected: u32,
    },
    /// The parent comes later, or is missing.
    #[error("turn {0} names a parent that is not before it")]
    NoParent(u32),
}

#[derive(Debug)]
struct Node {
    parent: Option<TurnIndex>,
    prompt: EdgeIndex,
    sampled: EdgeIndex,
    /// Chain after the answer.
    chain: Digest,
    evidence: Evidence,
    reasoning_open: bool,
    children: u32,
    /// Whether the agent got the whole answer.
    delivered: bool,
}

/// What is known of one chain of elements.
#[derive(Debug, Default)]
struct Point {
    /// Turns whose prompt ends here.
    prompts: Vec<TurnIndex>,
    /// Turns whose answer ends here.
    answers: Vec<TurnIndex>,
}

/// The token tree of a session.
#[derive(Debug, Default)]
pub struct Trajectory {
    tokens: TokenTree,
    roots: HashMap<Digest, EdgeIndex>,
    nodes: Vec<Node>,
    points: HashMap<Digest, Point>,
}

impl Trajectory {
    /// Finds the deepest point that this request can be resumed from.
    ///
    /// The end of an answer can be extended; the end of a prompt only by another answer. A match
    /// that ends in between falls back to the last answer before it.
    ///
    /// `messages` are those that `path` was made of.
    pub fn resume(&self, path: &Path, _messages: &[Message], _reader: &dyn Reader) -> Resume {
        let all = path.elements.len();
        let prompts = self.points.get(&path.chain(all)).map_or(&[][..], |point| &point.prompts);
        let (parent, matched) = (0..=all)
            .rev()
            .find_map(|matched| {
                let point = self.points.get(&path.chain(matched))?;
                // An empty answer vanishes from what agents send back, so a request that ends where
                // such a turn ended is that prompt again, not its continuation.
                // And nothing of the model's stands between two results of the same calls.
                let next = path.elements.get(matched).map(|element| element.role);
                let silent_ends = matches!(next, None | Some(Role::Tool));
                let skip = |turn: &&TurnIndex| silent_ends && point.prompts.contains(turn);
                let answers: Vec<_> =
                    point.answers.iter().filter(|turn| !skip(turn)).copied().collect();
                let echoed = matched.checked_sub(1).map(|last| path.elements[last].evidence);
                Some((Some(self.choose(&answers, echoed.unwrap_or_default())?), matched))
            })
            .unwrap_or((None, 0));
        let same_prompt = prompts.iter().copied().find(|turn| self.parent(*turn) == parent);
        Resume { parent, matched, same_prompt, ..Resume::default() }
    }

    /// Takes over a recorded turn.
    pub fn insert(&mut self, record: &TurnRecord) -> Result<(), TreeError> {
        let index = self.nodes.len() as u32;
        if record.turn.0 != index {
            return Err(TreeError::OutOfOrder { found: record.turn.0, expected: index });
        }
        let (base, mut chain) = match record.parent {
            None => (self.root(record.root), record.root),
            Some(parent) => {
                let node = self
                    .nodes
                    .get_mut(parent.0 as usize)
                    .ok_or(TreeError::NoParent(record.turn.0))?;
                node.children += 1;
                (node.sampled, node.chain)
            }
        };
        for element in &record.elements {
            chain = extend(chain, *element);
        }
        let prompt = self.tokens.add_context(base, &record.stretch);
        let sampled = self.tokens.add_sampled(prompt, record.ids.clone());
        self.points.entry(chain).or_default().prompts.push(record.turn);
        let chain = record.answer.map_or(chain, |answer| extend(chain, answer));
        self.points.entry(chain).or_default().answers.push(record.turn);
        self.nodes.push(Node {
            parent: record.parent,
            prompt,
            sampled,
            chain,
            evidence: Evidence::new(
                record.reply.tool_calls.iter(),
                record.reply.reasoning.as_deref().into_iter(),
            ),
            reasoning_open: record.reasoning_open,
            children: 0,
            delivered: true,
        });
        Ok(())
    }

    /// Says how much of an answer reached the agent; all of it, until this is called.
    pub fn set_delivered(&mut self, turn: TurnIndex, whole: bool) {
        if let Some(node) = self.nodes.get_mut(turn.0 as usize) {
            node.delivered = whole;
        }
    }

    /// How many turns there are.
    pub fn turns(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// How many turns nothing continues: the segments as of now.
    pub fn leaves(&self) -> u32 {
        self.nodes.iter().filter(|node| node.children == 0).count() as u32
    }

    /// All ids up to the end of a turn's answer, in pieces.
    pub fn ids_through(&self, turn: TurnIndex) -> Vec<&[TokenId]> {
        self.node(turn).map_or_else(Vec::new, |node| self.tokens.pieces(node.sampled))
    }

    /// All ids of a turn's prompt, in pieces.
    pub fn prompt_ids(&self, turn: TurnIndex) -> Vec<&[TokenId]> {
        self.node(turn).map_or_else(Vec::new, |node| self.tokens.pieces(node.prompt))
    }

    /// How many ids there are up to the end of a turn's answer.
    pub fn length_through(&self, turn: TurnIndex) -> u32 {
        self.node(turn).map_or(0, |node| self.tokens.end(node.sampled))
    }

    /// The turn whose output a turn's prompt extends.
    pub fn parent(&self, turn: TurnIndex) -> Option<TurnIndex> {
        self.node(turn).and_then(|node| node.parent)
    }

    /// How a turn's sampled ids end: the last one, and whether reasoning is open there.
    pub fn tail(&self, turn: TurnIndex) -> (Option<TokenId>, bool) {
        self.node(turn).map_or((None, false), |node| {
            (self.tokens.ids(node.sampled).last().copied(), node.reasoning_open)
        })
    }

    /// Ids held, each prefix counted once.
    pub fn stored_ids(&self) -> usize {
        self.tokens.stored()
    }

    /// Among answers that mean the same: the one whose call ids and reasoning the agent echoes; then
    /// one that nothing continues yet; then the newest. So agents that got the same answer stay apart.
    fn choose(&self, answers: &[TurnIndex], echoed: Evidence) -> Option<TurnIndex> {
        answers.iter().copied().max_by_key(|turn| {
            let (confirmed, unextended) = self
                .node(*turn)
                .map_or((0, false), |node| (node.evidence.confirms(&echoed), node.children == 0));
            (confirmed, unextended, *turn)
        })
    }

    fn root(&mut self, root: Digest) -> EdgeIndex {
        let tokens = &mut self.tokens;
        *self.roots.entry(root).or_insert_with(|| tokens.add_root())
    }

    fn node(&self, turn: TurnIndex) -> Option<&Node> {
        self.nodes.get(turn.0 as usize)
    }
}

#[cfg(test)]
mod tests;
