//! A request as a path: what its tree hangs from, and the chain of its elements.
//!
//! A path is made from the start, or from the path of an earlier request that begins alike: cut back
//! to where nothing is open, hung from its stem, and grown by what is new.

use std::ops::Range;

use blake3::Hasher;

use super::element::is_empty;
use super::fold::{Conversation, Mark, Overlay, fold};
use super::piece::Pieces;
use super::root::{Held, Root, Stem, ToolDigests, root_digest};
use super::{Digest, Element};
use crate::record::HistoryMode;
use crate::rules::RuleSet;
use crate::turn::{Message, Role};

/// What counts as equal in a session.
#[derive(Clone, Copy, Debug)]
pub struct Habits<'a> {
    /// Whether meaning counts, or what was sent.
    pub mode: HistoryMode,
    /// What an agent may change.
    pub rules: &'a RuleSet,
}

/// A request, digested.
#[derive(Clone, Debug)]
pub struct Path {
    /// Digest of the [`Root`] and the leading instructions.
    pub root: Digest,
    /// Elements after the leading instructions.
    pub elements: Vec<Element>,
    /// In how many of its messages a `strip` rule took something out.
    pub stripped: u32,
    /// `chains[i]` stands for the root and the first `i` elements.
    chains: Vec<Digest>,
    /// The same, of how the agent wrote it: texts, order, overlays.
    copies: Vec<Digest>,
    pub(super) leading: Leading,
    overlays: Vec<Overlay>,
    /// First overlay message behind the last element.
    tail: Option<usize>,
    pub(super) mode: HistoryMode,
    pub(super) rules: RuleSet,
    /// The messages, and how things stand behind each: elements are counted from the leading ones on.
    pub(super) messages: Vec<Message>,
    marks: Vec<Mark>,
    /// Indexes of what users said.
    users: Vec<usize>,
    held: Option<Held>,
}

/// The instructions that a conversation begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Leading {
    /// Messages that they take up.
    pub(super) messages: usize,
    pub(super) strict: Digest,
    pub(super) plain: Digest,
    pub(super) touched: Vec<u16>,
    /// By element.
    digests: Vec<Digest>,
}

impl Leading {
    /// Of the elements at the head of a request; they are taken out.
    pub(super) fn split(elements: &mut Vec<Element>) -> (Self, Vec<Element>) {
        let count = elements.iter().take_while(|element| instructs(element.role)).count();
        let rest = elements.split_off(count);
        let start = Digest::of(&Hasher::new());
        let chain = |part: fn(&Element) -> Digest| {
            elements.iter().fold(start, |chain, element| extend(chain, part(element)))
        };
        let leading = Self {
            messages: elements.last().map_or(0, |last| last.message + 1),
            strict: chain(|element| element.strict),
            plain: chain(|element| element.plain),
            touched: elements.iter().flat_map(|element| element.touched.clone()).collect(),
            digests: elements.iter().map(|element| element.digest).collect(),
        };
        (leading, rest)
    }
}

impl Path {
    /// Digests a request from its start.
    pub fn new(root: Root<'_>, messages: &[Message], habits: Habits<'_>) -> Self {
        let tools = &ToolDigests::of(root.tools);
        let stem = Stem { model: root.model, tools, template_kwargs: root.template_kwargs };
        let mut path = Self::empty(habits);
        path.grow(messages, habits, &mut Pieces::default());
        path.hang(stem);
        path
    }

    /// One of no messages: hangs from nothing.
    pub(super) fn empty(habits: Habits<'_>) -> Self {
        let (leading, _) = Leading::split(&mut Vec::new());
        Self {
            root: leading.strict,
            elements: Vec::new(),
            stripped: 0,
            chains: Vec::new(),
            copies: vec![leading.strict],
            leading,
            overlays: Vec::new(),
            tail: None,
            mode: habits.mode,
            rules: habits.rules.clone(),
            messages: Vec::new(),
            marks: Vec::new(),
            users: Vec::new(),
            held: None,
        }
    }

    /// How many of its first messages, at most `common`, it can be cut back to and then grown to
    /// `messages`: behind them nothing is open, and what follows needs to know nothing of them.
    pub(super) fn safe(&self, common: usize, messages: &[Message]) -> usize {
        let leading = self.leading.digests.len();
        let answers = |message: &Message| message.role == Role::Assistant && !is_empty(message);
        // Results that follow each other were put into order together.
        let divides = |at: usize| {
            let result = |element: Option<&Element>| element.is_some_and(|e| e.role == Role::Tool);
            result(self.elements.get(at - 1)) && result(self.elements.get(at))
        };
        let safe = |keep: &usize| {
            let behind = self.marks[keep - 1];
            behind.clean
                && behind.elements > leading
                && (self.mode == HistoryMode::Faithful
                    || messages.get(*keep).is_some_and(answers)
                        && !divides(behind.elements - leading))
        };
        (1..=common).rev().find(safe).unwrap_or(0)
    }

    /// Cuts it back to so many messages, see [`Path::safe`].
    pub(super) fn cut(&mut self, keep: usize) {
        if keep == self.messages.len() {
            return;
        }
        let elements = match keep.checked_sub(1) {
            Some(last) => self.marks[last].elements - self.leading.digests.len(),
            None => 0,
        };
        self.messages.truncate(keep);
        self.marks.truncate(keep);
        self.elements.truncate(elements);
        self.chains.truncate(elements + 1);
        self.copies.truncate(elements + 1);
        self.overlays.truncate(self.overlays.partition_point(|overlay| overlay.message < keep));
        self.users.truncate(self.users.partition_point(|user| *user < keep));
        self.tail = None;
    }

    /// A copy of its begin, see [`Path::safe`].
    pub(super) fn begin(&self, keep: usize) -> Self {
        let elements = self.marks[keep - 1].elements - self.leading.digests.len();
        let overlays = self.overlays.partition_point(|overlay| overlay.message < keep);
        let users = self.users.partition_point(|user| *user < keep);
        Self {
            root: self.root,
            elements: self.elements[..elements].to_vec(),
            stripped: self.stripped,
            chains: self.chains[..=elements].to_vec(),
            copies: self.copies[..=elements].to_vec(),
            leading: self.leading.clone(),
            overlays: self.overlays[..overlays].to_vec(),
            tail: None,
            mode: self.mode,
            rules: self.rules.clone(),
            messages: self.messages[..keep].to_vec(),
            marks: self.marks[..keep].to_vec(),
            users: self.users[..users].to_vec(),
            held: self.held.clone(),
        }
    }

    /// Grows it to these messages, which begin with those that it has. Then it must be hung.
    pub(super) fn grow(&mut self, messages: &[Message], habits: Habits<'_>, pieces: &mut Pieces) {
        let first = self.messages.len();
        let last = messages.len().saturating_sub(1);
        let new = &messages[first..];
        if new.is_empty() {
            return;
        }
        let conversation = Conversation { first, from_start: first == 0, last };
        let mut folded = fold(conversation, new.iter(), habits, pieces);
        let before = self.marks.last().map_or(0, |mark| mark.elements);
        if first == 0 {
            let (leading, rest) = Leading::split(&mut folded.elements);
            self.copies = vec![leading.strict];
            (self.leading, self.elements, self.held) = (leading, rest, None);
        } else {
            self.elements.append(&mut folded.elements);
        }
        let marks = folded.marks.into_iter();
        self.marks.extend(marks.map(|mark| Mark { elements: before + mark.elements, ..mark }));
        for element in &self.elements[self.copies.len() - 1..] {
            let copy = self.copies[self.copies.len() - 1];
            self.copies.push(Digest::joined([copy, element.strict, element.plain]));
        }
        self.overlays.append(&mut folded.overlays);
        self.tail = folded.tail;
        let users = (first..).zip(new).filter(|(_, message)| message.role == Role::User);
        self.users.extend(users.map(|(at, _)| at));
        self.messages.extend_from_slice(new);
    }

    /// Hangs it from what its tree hangs from.
    pub(super) fn hang(&mut self, stem: Stem<'_>) {
        if !self.held.as_ref().is_some_and(|held| held.is(stem)) {
            self.held = Some(Held::new(stem));
            self.root = root_digest(stem, &self.leading.digests);
            self.chains.clear();
            self.chains.push(self.root);
        }
        lengthen(&mut self.chains, &self.elements);
    }

    /// The chain that stands for the first `count` elements.
    pub fn chain(&self, count: usize) -> Digest {
        self.chains[count]
    }

    /// Index of the first message behind the first `count` elements, given how many there are.
    pub fn first_message(&self, count: usize, messages: usize) -> usize {
        let next = self.elements.get(count).map(|element| element.first_message);
        next.or(self.tail).unwrap_or(messages)
    }

    /// Texts of the messages from this one on that an `overlay` rule took out of the chain. They are
    /// shown to the model.
    pub fn overlay_texts(&self, from_message: usize) -> impl Iterator<Item = &str> {
        let before = self.overlays.partition_point(|overlay| overlay.message < from_message);
        let behind = self.overlays[before..].iter();
        behind.map(|overlay| &self.messages[overlay.message].content[overlay.span.clone()])
    }

    /// Indexes of the messages of users, ascending.
    pub fn users(&self) -> &[usize] {
        &self.users
    }

    /// The messages of the assistant that the request ends in, where it does: an answer continues
    /// them. What stands between them counts as nothing.
    pub fn continued(&self) -> Range<usize> {
        match self.elements.last() {
            Some(last) if last.role == Role::Assistant => {
                self.elements[self.run_start(self.elements.len() - 1)].message..last.message + 1
            }
            _ => 0..0,
        }
    }

    /// Index of the first element of the run that an element belongs to.
    pub(super) fn run_start(&self, element: usize) -> usize {
        (0..=element).rev().find(|at| !self.elements[*at].continues).unwrap_or(0)
    }

    /// Digest of the agent's own copy of the first `count` elements.
    pub(super) fn copy(&self, count: usize) -> Digest {
        self.copies[count]
    }

    pub(super) fn habits(&self) -> Habits<'_> {
        Habits { mode: self.mode, rules: &self.rules }
    }

    /// What it hangs from.
    #[cfg(test)]
    pub(super) fn stem(&self) -> Option<Stem<'_>> {
        self.held.as_ref().map(Held::stem)
    }

    /// What it is, but for how it was made.
    #[cfg(test)]
    pub(super) fn shown(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let chains = (self.root, self.chains.clone(), self.copies.clone());
        let open = (self.overlays.clone(), self.tail, self.marks.clone(), self.users.clone());
        (self.elements.clone(), chains, self.leading.clone(), open, self.messages.clone())
    }
}

/// Lengthens chains to those before and after each of these elements. An assistant message that
/// continues a run counts with all of the run, behind what is before it.
fn lengthen(chains: &mut Vec<Digest>, elements: &[Element]) {
    let known = chains.len() - 1;
    let (mut chain, mut before) = (chains[known], chains[known]);
    for element in &elements[known..] {
        if !element.continues {
            before = chain;
        }
        chain = extend(before, element.digest);
        chains.push(chain);
    }
}

/// The chain that is one element longer.
pub(super) fn extend(chain: Digest, element: Digest) -> Digest {
    Digest::joined([chain, element])
}

fn instructs(role: Role) -> bool {
    matches!(role, Role::System | Role::Developer)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::turn::Tool;

    fn sticky(rules: &RuleSet) -> Habits<'_> {
        Habits { mode: HistoryMode::Sticky, rules }
    }

    fn root_of(tools: &[Tool], kwargs: Value, system: &str) -> Digest {
        let kwargs = kwargs.as_object().cloned().unwrap_or_default();
        let root = Root { model: "m", tools, template_kwargs: &kwargs };
        let messages = [Message::text(Role::System, system), Message::text(Role::User, "q")];
        Path::new(root, &messages, sticky(&RuleSet::default())).root
    }

    #[test]
    fn the_root_is_model_tools_instructions_and_switches() {
        let (f, g) = (json!({"name": "f"}), json!({"name": "g"}));
        let base = root_of(&[f.clone(), g.clone()], json!({"a": 1, "b": 2}), "s");
        assert_eq!(base, root_of(&[g, f.clone()], json!({"b": 2, "a": 1.0}), " s"));
        assert_ne!(base, root_of(&[f], json!({"a": 1, "b": 2}), "s"));
        assert_ne!(base, root_of(&[], json!({"a": 1, "b": 2}), "t"));
    }

    #[test]
    fn a_longer_request_extends_the_chain() {
        let kwargs = Map::new();
        let root = Root { model: "m", tools: &[], template_kwargs: &kwargs };
        let messages: Vec<_> = ["a", "b", "c"].map(|t| Message::text(Role::User, t)).into();
        let (long, short) = {
            let rules = RuleSet::default();
            let make = |messages| Path::new(root, messages, sticky(&rules));
            (make(&messages), make(&messages[..2]))
        };
        assert_eq!(long.chain(2), short.chain(2));
        assert_eq!(long.chain(3), extend(short.chain(2), long.elements[2].digest));
        assert_eq!(long.first_message(2, 3), 2);
        assert_eq!(long.first_message(3, 3), 3);
    }
}
