//! A request as a path: what its tree hangs from, and the chain of its elements.

use blake3::Hasher;
use serde_json::{Map, Value};

use super::element::write_canonical;
use super::{Digest, Element, fold};
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    /// Digest of the [`Root`] and the leading instructions.
    pub root: Digest,
    /// Elements after the leading instructions.
    pub elements: Vec<Element>,
    /// `chains[i]` stands for the root and the first `i` elements.
    chains: Vec<Digest>,
}

impl Path {
    /// Digests a request.
    pub fn new(root: Root<'_>, messages: &[Message], _habits: Habits<'_>) -> Self {
        let mut elements = fold(messages);
        let leading = elements.iter().take_while(|element| instructs(element.role)).count();
        let rest = elements.split_off(leading);
        let root = root_digest(root, &elements);
        let mut chains = Vec::with_capacity(rest.len() + 1);
        chains.push(root);
        chains.extend(rest.iter().scan(root, |chain, element| {
            *chain = extend(*chain, element.digest);
            Some(*chain)
        }));
        Self { root, elements: rest, chains }
    }

    /// The chain that stands for the first `count` elements.
    pub fn chain(&self, count: usize) -> Digest {
        self.chains[count]
    }

    /// Index of the first message behind the first `count` elements, given how many there are.
    pub fn first_message(&self, count: usize, messages: usize) -> usize {
        self.elements.get(count).map_or(messages, |element| element.first_message)
    }
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
