//! The message layer over the token layer: which turn a request continues.

use std::cell::RefCell;
use std::collections::HashMap;

use bytes::Bytes;

use super::difference::{Difference, Known, Shrunk};
use super::matching::{Found, Matching};
use super::recent::Recent;
use super::steps::{Steps, Waiting};
use super::tokens::{EdgeIndex, TokenTree};
use super::work::Work;
use super::{Digest, Path, Reader};
use crate::id::{TokenId, TurnIndex};
use crate::id_text;
use crate::record::TurnRecord;
use crate::turn::{Message, ToolCall};

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
pub(super) struct Node {
    parent: Option<TurnIndex>,
    prompt: EdgeIndex,
    pub(super) sampled: EdgeIndex,
    reasoning_open: bool,
    pub(super) children: u32,
    /// Whether the agent got the whole answer.
    pub(super) delivered: bool,
}

/// The token tree of a session.
#[derive(Debug, Default)]
pub struct Trajectory {
    tokens: TokenTree,
    roots: HashMap<Digest, EdgeIndex>,
    nodes: Vec<Node>,
    /// Filled, and kept up, while requests are matched.
    pub(super) layer: RefCell<Layer>,
}

#[derive(Debug, Default)]
pub(super) struct Layer {
    steps: Steps,
    known: Known,
    pub(super) recent: Recent,
    /// What the last request cost.
    #[cfg(test)]
    spent: super::work::Spent,
    /// Reads every request of every test once more, to be compared.
    #[cfg(test)]
    again: Recent,
}

impl Trajectory {
    /// Finds the deepest point that this request can be resumed from.
    ///
    /// The end of an answer can be extended; the end of a prompt only by another answer. A match
    /// that ends in between falls back to the last answer before it.
    ///
    /// `messages` are those that `path` was made of.
    pub fn resume(&self, path: &Path, messages: &[Message], reader: &dyn Reader) -> Resume {
        let layer = &mut *self.layer.borrow_mut();
        #[cfg(test)]
        layer.again.check(path, messages);
        let Layer { steps, known, recent, .. } = layer;
        recent.follow(path.habits());
        let (mut limit, mut refused) = (path.elements.len(), Vec::new());
        let work = Work::new(limit);
        work.threaded(steps.catch_up(path.habits(), &mut recent.pieces));
        let (found, difference) = loop {
            let (nodes, tokens) = (self.nodes.as_slice(), &self.tokens);
            let (refused_now, work) = (refused.as_slice(), &work);
            let matching = Matching {
                steps,
                nodes,
                tokens,
                path,
                messages,
                reader,
                limit,
                refused: refused_now,
                work,
            };
            let Some(found) = matching.find() else { break (None, Difference::default()) };
            match matching.difference(found, known) {
                Ok(difference) => break (Some(found), difference),
                Err(Shrunk::Element(element)) => limit = element,
                Err(Shrunk::Leading(root)) => refused.push(root),
            }
        };
        #[cfg(test)]
        {
            layer.spent = work.spent();
        }
        let steps = &mut layer.steps;
        if let Some(found) = found {
            steps.share(found.turn, path, found.matched, messages);
        }
        let parent = found.map(|found| found.turn);
        let matched = found.map_or(0, |found| found.matched);
        let own = path.chain(matched);
        let stored = parent.and_then(|parent| steps.place(parent)).map(|place| place.chain);
        Resume {
            parent,
            matched,
            same_prompt: self.same_prompt(steps, path, messages, found),
            joined: stored.filter(|stored| *stored != own).map(|_| own),
            rules: difference.rules,
            context_diff_tokens: difference.tokens,
        }
    }

    /// A turn whose stretch was made of these very messages. That they mean the same is not enough:
    /// what is behind the match was not compared, and is shown as it is sent.
    fn same_prompt(
        &self,
        steps: &Steps,
        path: &Path,
        messages: &[Message],
        found: Option<Found>,
    ) -> Option<TurnIndex> {
        let point = steps.point(path.chain(path.elements.len()))?;
        let from = found.map_or(0, |found| path.first_message(found.matched, messages.len()));
        let parent = found.map(|found| found.turn);
        point.prompts.iter().copied().find(|turn| {
            let made_of = steps.place(*turn).map(|place| place.stretch.as_slice());
            self.parent(*turn) == parent && made_of == Some(&messages[from..])
        })
    }

    /// How many copies differences are kept of.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.layer.borrow().known.len()
    }

    /// Requests that are kept; messages that were folded and that were digested for them, ever.
    #[cfg(test)]
    pub(super) fn read_so_far(&self) -> (usize, usize, usize) {
        self.layer.borrow().recent.work()
    }

    /// What matching the last request cost.
    #[cfg(test)]
    pub(super) fn spent(&self) -> super::work::Spent {
        self.layer.borrow().spent
    }

    /// Takes over a recorded turn.
    pub fn insert(&mut self, record: &TurnRecord) -> Result<(), TreeError> {
        self.insert_sent(record, id_text::of(&record.stretch))
    }

    /// The same, with the text of its stretch, as it was sent.
    pub fn insert_sent(&mut self, record: &TurnRecord, sent: Bytes) -> Result<(), TreeError> {
        let index = self.nodes.len() as u32;
        if record.turn.0 != index {
            return Err(TreeError::OutOfOrder { found: record.turn.0, expected: index });
        }
        let base = match record.parent {
            None => self.root(record.root),
            Some(parent) => {
                let node = self
                    .nodes
                    .get_mut(parent.0 as usize)
                    .ok_or(TreeError::NoParent(record.turn.0))?;
                node.children += 1;
                node.sampled
            }
        };
        let prompt = self.tokens.add_context(base, sent);
        let sampled = self.tokens.add_sampled(prompt, &record.ids);
        self.layer.get_mut().steps.wait(Waiting::new(record));
        self.nodes.push(Node {
            parent: record.parent,
            prompt,
            sampled,
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

    /// All ids up to the end of a turn's answer as they are sent ([`id_text`]), in few pieces, which
    /// are shared and not copied.
    pub fn text_through(&self, turn: TurnIndex) -> Vec<Bytes> {
        self.node(turn).map_or_else(Vec::new, |node| self.tokens.pieces(node.sampled))
    }

    /// All ids up to the end of a turn's answer, in pieces, read from their text.
    pub fn ids_through(&self, turn: TurnIndex) -> Vec<Vec<TokenId>> {
        self.text_through(turn).iter().map(|text| id_text::read(text)).collect()
    }

    /// All ids of a turn's prompt, in pieces, read from their text.
    pub fn prompt_ids(&self, turn: TurnIndex) -> Vec<Vec<TokenId>> {
        let pieces = |node: &Node| self.tokens.pieces(node.prompt);
        let pieces = self.node(turn).map_or_else(Vec::new, pieces);
        pieces.iter().map(|text| id_text::read(text)).collect()
    }

    /// The ids of a turn's prompt behind its parent's answer.
    pub fn stretch_ids(&self, turn: TurnIndex) -> Vec<TokenId> {
        let Some(node) = self.node(turn) else { return Vec::new() };
        let parent = node.parent.and_then(|parent| self.node(parent));
        self.tokens.between(parent.map(|parent| parent.sampled), node.prompt)
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
        self.node(turn)
            .map_or((None, false), |node| (self.tokens.last_id(node.sampled), node.reasoning_open))
    }

    /// The calls of the run of assistant messages that a turn's answer ends, as they are stored; known
    /// once a request was matched with the turn.
    pub fn calls_through(&self, turn: TurnIndex) -> Vec<ToolCall> {
        let steps = &self.layer.borrow().steps;
        let run = steps.place(turn).map_or_else(Vec::new, |place| steps.run(place.step));
        run.into_iter().flat_map(|step| steps.step(step).message.tool_calls.clone()).collect()
    }

    /// Ids held, each prefix counted once.
    pub fn stored_ids(&self) -> usize {
        self.tokens.stored()
    }

    fn root(&mut self, root: Digest) -> EdgeIndex {
        let tokens = &mut self.tokens;
        *self.roots.entry(root).or_insert_with(|| tokens.add_root())
    }

    fn node(&self, turn: TurnIndex) -> Option<&Node> {
        self.nodes.get(turn.0 as usize)
    }
}
