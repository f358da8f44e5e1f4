//! What a tree hangs from.

use std::sync::Arc;

use blake3::Hasher;
use serde_json::{Map, Value};

use super::Digest;
use super::canonical::write_canonical;
use crate::turn::Tool;

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

/// The same with its tools digested: a job offers the same ones in all of its calls.
#[derive(Clone, Copy, Debug)]
pub struct Stem<'a> {
    /// The served model.
    pub model: &'a str,
    /// Digests of the tools on offer.
    pub tools: &'a ToolDigests,
    /// Switches of the chat template.
    pub template_kwargs: &'a Map<String, Value>,
}

/// Digests of tools, in an order of their own. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolDigests(Arc<[[u8; 32]]>);

impl ToolDigests {
    /// Digests tools. What reads them is the template, so the order of keys counts.
    pub fn of(tools: &[Tool]) -> Self {
        let digest = |tool: &Tool| *blake3::hash(tool.to_string().as_bytes()).as_bytes();
        let mut digests: Vec<[u8; 32]> = tools.iter().map(digest).collect();
        digests.sort_unstable();
        Self(digests.into())
    }
}

/// What a path was hung from.
#[derive(Clone, Debug)]
pub(super) struct Held {
    model: Box<str>,
    tools: ToolDigests,
    template_kwargs: Map<String, Value>,
}

impl Held {
    pub(super) fn new(stem: Stem<'_>) -> Self {
        Self {
            model: stem.model.into(),
            tools: stem.tools.clone(),
            template_kwargs: stem.template_kwargs.clone(),
        }
    }

    #[cfg(test)]
    pub(super) fn stem(&self) -> Stem<'_> {
        let (model, tools, template_kwargs) = (&*self.model, &self.tools, &self.template_kwargs);
        Stem { model, tools, template_kwargs }
    }

    pub(super) fn is(&self, stem: Stem<'_>) -> bool {
        *self.model == *stem.model
            && (Arc::ptr_eq(&self.tools.0, &stem.tools.0) || self.tools == *stem.tools)
            && self.template_kwargs == *stem.template_kwargs
    }
}

/// Digest of a stem and the elements of the leading instructions.
pub(super) fn root_digest(stem: Stem<'_>, leading: &[Digest]) -> Digest {
    let mut kwargs = String::new();
    let mut keys: Vec<_> = stem.template_kwargs.keys().collect();
    keys.sort_unstable();
    for key in keys {
        kwargs.push_str(&Value::from(key.as_str()).to_string());
        write_canonical(&stem.template_kwargs[key], &mut kwargs);
    }
    let mut hasher = Hasher::new();
    for part in [stem.model.as_bytes(), kwargs.as_bytes()] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let tools = &stem.tools.0;
    hasher.update(&(tools.len() as u64).to_le_bytes());
    for tool in tools.iter() {
        hasher.update(tool);
    }
    for element in leading {
        hasher.update(element.as_bytes());
    }
    Digest::of(&hasher)
}
