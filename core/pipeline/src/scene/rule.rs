//! One rule and its conditions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Scene;
use crate::protocol::Dialect;

/// A rule: exchanges of these agents for which all conditions hold are of this scene.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SceneRule {
    /// Its name, as exchanges quote it.
    pub name: String,
    /// The scene.
    pub scene: Scene,
    /// Agents it is for; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The conditions.
    #[serde(default)]
    pub when: When,
}

/// Conditions on an exchange; what is absent does not matter, of what is there all must hold. Texts
/// are regular expressions (Rust's `regex` crate) that must be found somewhere.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// Headers by lower-case name, each there with a value in which the pattern is found.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, String>,
    /// Headers that must not be there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub no_header: Vec<String>,
    /// The caller's dialect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// Whether a stream was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// The model name that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Fewest tools on offer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_tools: Option<u32>,
    /// Most tools on offer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tools: Option<u32>,
    /// Tools that must be on offer, by canonical name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool: Vec<String>,
    /// Tools that must not be on offer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub no_tool: Vec<String>,
    /// Fewest messages, leading instructions not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_messages: Option<u32>,
    /// Most messages, leading instructions not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_messages: Option<u32>,
    /// Found in the leading instructions (system and developer messages, joined by newlines).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_system: Option<String>,
    /// Found in the first message of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_user: Option<String>,
    /// Not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_first_user: Option<String>,
    /// Found in the last message of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_user: Option<String>,
    /// Not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_last_user: Option<String>,
    /// Found in the last message, whoever speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// Found in the JSON text of the form that the answer was asked to have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Most tokens that were asked for, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Whether the answer is given as a compaction item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<bool>,
    /// Whether it continues a turn of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<bool>,
}
