//! What an agent may change in its own history without making another history of it.
//!
//! A rule says that two forms are the same turn. It never edits stored ids. Rules are declarative,
//! shipped per agent, extended by configuration, session and task.

use serde::{Deserialize, Serialize};

use crate::turn::Message;

/// What a rule does with what it finds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Hidden from model and matching.
    Strip,
    /// Shown to the model, ignored in matching.
    Overlay,
    /// Two texts count as equal.
    Same,
    /// Equal except for spans that one side replaced by a mask.
    Masked,
}

/// One rule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, as turns quote it.
    pub name: String,
    /// What it does.
    pub action: Action,
}

/// The rules of a session, ready to use.
#[derive(Debug, Default)]
pub struct RuleSet {}

impl RuleSet {
    /// Takes out of the messages what `strip` rules hide; how many messages were touched.
    pub fn strip(&self, _messages: &mut Vec<Message>) -> u32 {
        0
    }
}
