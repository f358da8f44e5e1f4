//! One rule and its conditions.

use std::collections::BTreeMap;

use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Scene;
use crate::protocol::Dialect;

/// What a rule says where it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Says {
    /// That the exchange is of this scene.
    Scene(Scene),
    /// Nothing: it takes out the farther rules of its name. Written `off`.
    Off,
}

impl Serialize for Says {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Says::Scene(scene) => scene.serialize(to),
            Says::Off => to.serialize_str("off"),
        }
    }
}

impl<'de> Deserialize<'de> for Says {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match String::deserialize(from)?.as_str() {
            "off" => Ok(Says::Off),
            name => Scene::deserialize(name.into_deserializer()).map(Says::Scene),
        }
    }
}

/// A rule: exchanges of these agents for which all conditions hold are of this scene.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SceneRule {
    /// Its name, as exchanges quote it. Of two rules of one name the nearer counts: the session's,
    /// then the node's, then the shipped one.
    pub name: String,
    /// The scene, or `off`.
    #[serde(rename = "scene")]
    pub says: Says,
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
    /// User messages in which this is found do not count as a user's last: agents put notes of their
    /// own behind what was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_user: Option<String>,
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
