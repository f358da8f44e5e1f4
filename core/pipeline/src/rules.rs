//! What an agent may change in its own history without making another history of it.
//!
//! A rule says that two forms are the same turn. It never edits stored ids. Rules are declarative,
//! shipped per agent (`rules/shipped.toml`), extended by configuration, session and task. Of two
//! rules of one name the nearer one counts: the session's, then the node's, then the shipped one.
//!
//! Text that the model itself wrote is touched by `masked` rules only.

mod mask;
mod set;
mod text;

use serde::{Deserialize, Serialize};

use crate::turn::Role;

pub(crate) use mask::aligned;
pub use set::RuleSet;
pub(crate) use set::{JOINED_ANSWERS, PARTIAL_ANSWER, Reach};
pub(crate) use text::Spot;

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
    /// Nothing: switches the shipped rule of this name off.
    Off,
}

/// Where in a request a rule looks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Everywhere.
    #[default]
    Any,
    /// In the last message only.
    Last,
    /// In the leading instructions only.
    System,
}

/// One rule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, as turns quote it.
    pub name: String,
    /// What it does.
    pub action: Action,
    /// Agents it is for; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Whose messages it looks at; absent: everyone's but the model's. `masked` looks at the
    /// model's too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Where it looks.
    #[serde(default, skip_serializing_if = "is_any")]
    pub place: Place,
    /// A regular expression: the spans it is about; for `masked`, what a mask looks like (absent:
    /// `***`, `[REDACTED]`, `abc123...wxyz` and the like).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Whether it is about the whole message in which the pattern is found.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// `same` only: it is about the order of results of parallel calls, not about text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub results_order: bool,
}

fn is_any(place: &Place) -> bool {
    *place == Place::Any
}

/// Why rules cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// The pattern does not compile.
    #[error(
        "rule {name:?}: its pattern is not a regular expression ({reason}): mend it (the syntax is \
         that of Rust's regex crate: no look-around, no back-references) or remove the rule"
    )]
    Pattern {
        /// The rule.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The rule does not say what it is about.
    #[error("rule {name:?}: an action {action} needs {needed}: add it or remove the rule")]
    Incomplete {
        /// The rule.
        name: String,
        /// What it does.
        action: &'static str,
        /// What is missing.
        needed: &'static str,
    },
    /// The rule would edit what the model said.
    #[error(
        "rule {name:?}: the model's own text is touched by \"masked\" rules only: give the rule \
         another role or remove it"
    )]
    OwnText {
        /// The rule.
        name: String,
    },
    /// Two rules of one list have one name.
    #[error("rule {name:?} stands twice in one list: give one of the two another name")]
    Twice {
        /// The name.
        name: String,
    },
    /// There is no such rule.
    #[error("rule {name:?} is switched off, but there is no rule of that name; there are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Names there are.
        known: String,
    },
    /// The file in the binary is damaged.
    #[error("the shipped rules cannot be read: {0}")]
    Shipped(String),
}

#[cfg(test)]
mod tests;
