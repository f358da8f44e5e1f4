//! A request as a path: what its tree hangs from, and the chain of its elements.

use std::ops::Range;

use blake3::Hasher;
use serde_json::{Map, Value};

use super::canonical::write_canonical;
use super::fold::{Conversation, Overlay, fold};
use super::{Digest, Element};
use crate::record::HistoryMode;
use crate::rules::RuleSet;
use crate::turn::{Message, Role, Tool};

/// What a tree hangs from. A change of any of it starts another tree.
#[derive(Clone, Copy, Debug)]
pub struct Root<'a> {
    /// The served model.
    pub model: &'a str,
    /// Tools on offer; their order does not count.
    pub tools: &'a [Tool],
    /// Switches of the chat template.
    pub template_kwargs: &'a Map<String, Value>,
}

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
}

/// The instructions that a conversation begins with.
#[derive(Clone, Debug)]
pub(super) struct Leading {
    /// Messages that they take up.
    pub(super) messages: usize,
    pub(super) strict: Digest,
    pub(super) plain: Digest,
    pub(super) touched: Vec<u16>,
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
        };
        (leading, rest)
    }
}

impl Path {
    /// Digests a request.
    pub fn new(root: Root<'_>, messages: &[Message], habits: Habits<'_>) -> Self {
        let messages: Vec<&Message> = messages.iter().collect();
        let last = messages.len().saturating_sub(1);
        let conversation = Conversation { messages: &messages, from_start: true, last };
        let mut folded = fold(&conversation, habits);
        let (leading, elements) = Leading::split(&mut folded.elements);
        let root = root_digest(root, &folded.elements);
        let copies = elements.iter().scan(leading.strict, |chain, element| {
            *chain = extend(extend(*chain, element.strict), element.plain);
            Some(*chain)
        });
        let copies = std::iter::once(leading.strict).chain(copies).collect();
        Self {
            root,
            chains: chains(root, &elements),
            copies,
            elements,
            leading,
            overlays: folded.overlays,
            tail: folded.tail,
            mode: habits.mode,
            rules: habits.rules.clone(),
        }
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
        let behind = self.overlays.iter().filter(move |overlay| overlay.message >= from_message);
        behind.map(|overlay| overlay.text.as_str())
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
}

/// Chains before and after each of these elements. An assistant message that continues a run counts
/// with all of the run, behind what is before it.
pub(super) fn chains(start: Digest, elements: &[Element]) -> Vec<Digest> {
    let mut chains = Vec::with_capacity(elements.len() + 1);
    let (mut chain, mut before) = (start, start);
    chains.push(chain);
    for element in elements {
        if !element.continues {
            before = chain;
        }
        chain = extend(before, element.digest);
        chains.push(chain);
    }
    chains
}

/// The chain that is one element longer.
pub(super) fn extend(chain: Digest, element: Digest) -> Digest {
    let mut hasher = Hasher::new();
    hasher.update(chain.as_bytes());
    hasher.update(element.as_bytes());
    Digest::of(&hasher)
}

fn instructs(role: Role) -> bool {
    matches!(role, Role::System | Role::Developer)
}

fn root_digest(root: Root<'_>, leading: &[Element]) -> Digest {
    let mut tools: Vec<[u8; 32]> = root
        .tools
        .iter()
        .map(|tool| *blake3::hash(tool.to_string().as_bytes()).as_bytes())
        .collect();
    tools.sort_unstable();
    let mut kwargs = String::new();
    for key in sorted_keys(root.template_kwargs) {
        kwargs.push_str(&Value::from(key.as_str()).to_string());
        write_canonical(&root.template_kwargs[key], &mut kwargs);
    }
    let mut hasher = Hasher::new();
    for part in [root.model.as_bytes(), kwargs.as_bytes()] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.update(&(tools.len() as u64).to_le_bytes());
    for tool in &tools {
        hasher.update(tool);
    }
    for element in leading {
        hasher.update(element.digest.as_bytes());
    }
    Digest::of(&hasher)
}

fn sorted_keys(map: &Map<String, Value>) -> Vec<&String> {
    let mut keys: Vec<_> = map.keys().collect();
    keys.sort_unstable();
    keys
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
