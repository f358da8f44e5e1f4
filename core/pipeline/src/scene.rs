//! What an exchange is for, and the rules that tell it.
//!
//! Order of evidence: the scene in the URL; then the rules of the session, of the node, and those
//! shipped for its agent (`shipped/AGENT.toml`), in their order: the first that holds decides. Of rules of
//! one name only the nearest is asked. Where there are rules that say what the main loop is (shipped files
//! always do), none of which holds, the exchange is `unknown`: untrained and counted. An agent whose main
//! loop nobody described has just that one: main.

mod conditions;
mod error;
mod facts;
mod recall;
mod rule;
mod set;

use serde::{Deserialize, Serialize};

pub use error::SceneError;
pub use recall::{Instructions, Recall};
pub use rule::{Says, SceneRule, When};
pub use set::{SceneSet, detected_by, shipped_agents};

use crate::http::Header;
use crate::protocol::Dialect;
use crate::turn::{Asked, Message, Role};

/// The closed list of scenes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scene {
    /// The agent's own loop.
    Main,
    /// An agent started by the agent.
    Subagent,
    /// Summarising history to free context.
    Compaction,
    /// Naming a conversation.
    Title,
    /// A summary for people.
    Summary,
    /// Detecting a topic.
    Topic,
    /// Extracting memories.
    Memory,
    /// Looking back on a run.
    Review,
    /// A periodic sign of life.
    Heartbeat,
    /// Announcing a result.
    Announce,
    /// Counting tokens.
    Count,
    /// Trying whether a model answers.
    Probe,
    /// No rule decided.
    Unknown,
}

impl Scene {
    /// Every scene.
    pub const ALL: [Scene; 13] = [
        Scene::Main,
        Scene::Subagent,
        Scene::Compaction,
        Scene::Title,
        Scene::Summary,
        Scene::Topic,
        Scene::Memory,
        Scene::Review,
        Scene::Heartbeat,
        Scene::Announce,
        Scene::Count,
        Scene::Probe,
        Scene::Unknown,
    ];

    /// The name used in URLs, records and samples.
    pub fn name(self) -> &'static str {
        match self {
            Scene::Main => "main",
            Scene::Subagent => "subagent",
            Scene::Compaction => "compaction",
            Scene::Title => "title",
            Scene::Summary => "summary",
            Scene::Topic => "topic",
            Scene::Memory => "memory",
            Scene::Review => "review",
            Scene::Heartbeat => "heartbeat",
            Scene::Announce => "announce",
            Scene::Count => "count",
            Scene::Probe => "probe",
            Scene::Unknown => "unknown",
        }
    }

    /// The scene of this name.
    pub fn parse(name: &str) -> Option<Scene> {
        Scene::ALL.into_iter().find(|scene| scene.name() == name)
    }

    /// Whether sampled tokens of this scene are trained by default.
    pub fn trained(self) -> bool {
        matches!(self, Scene::Main | Scene::Subagent | Scene::Compaction)
    }
}

/// The scene of an exchange and the rule that decided it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The scene.
    pub scene: Scene,
    /// Name of the rule.
    pub rule: String,
}

/// What a classifier may look at.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// The scene that the URL names: outranks all else.
    pub entry: Option<Scene>,
    /// The request's headers.
    pub headers: &'a [Header],
    /// The caller's dialect.
    pub dialect: Dialect,
    /// What was asked, without what `strip` rules took away.
    pub asked: &'a Asked,
    /// The leading instructions as sent ([`instructions`]); may be empty where no rule of the set
    /// looks at them ([`SceneSet::reads_instructions`]).
    pub system: &'a str,
    /// Whether it continues a turn of the session.
    pub continues: bool,
    /// The agent that earlier calls of the session were found to be of ([`detected_by`]).
    pub detected: Option<&'a str>,
}

/// The leading instructions of a request, joined by newlines.
pub fn instructions(messages: &[Message]) -> String {
    let instructs = |m: &&Message| matches!(m.role, Role::System | Role::Developer);
    let leading: Vec<&str> =
        messages.iter().take_while(instructs).map(|m| m.content.as_str()).collect();
    leading.join("\n")
}

impl Verdict {
    /// The scene that a URL names.
    pub fn entry(scene: Scene) -> Self {
        Self { scene, rule: "entry-url".to_owned() }
    }

    /// Without rules for the agent a session has one loop: main.
    pub fn default_main() -> Self {
        Self { scene: Scene::Main, rule: "default-main".to_owned() }
    }

    /// Who asks for a compaction item asks for a compaction, whatever the agent.
    pub fn compaction_item() -> Self {
        Self { scene: Scene::Compaction, rule: "compaction-item".to_owned() }
    }

    /// Rules say what the agent does, and nothing of that is what it did.
    pub fn none() -> Self {
        Self { scene: Scene::Unknown, rule: "none".to_owned() }
    }
}

#[cfg(test)]
mod tests;
