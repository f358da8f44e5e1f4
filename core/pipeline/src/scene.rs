//! What an exchange is for.

use serde::{Deserialize, Serialize};

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

/// Classifies an exchange. `entry` is the scene named by the URL, which outranks all else; without
/// one, a session has one loop: main.
pub fn classify(entry: Option<Scene>) -> Verdict {
    match entry {
        Some(scene) => Verdict { scene, rule: "entry-url".to_owned() },
        None => Verdict { scene: Scene::Main, rule: "default-main".to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for scene in Scene::ALL {
            assert_eq!(Scene::parse(scene.name()), Some(scene));
        }
        assert_eq!(Scene::parse("nonsense"), None);
    }
}
