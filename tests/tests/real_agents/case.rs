//! What a case says: what the engine answers, what the agent is asked, and what must come out.

use std::path::Path;

use serde_json::{Value, json};

use crate::seen::Seen;

/// A run of one agent.
pub struct Case {
    /// Name of the harness, as for `--agent`.
    pub agent: &'static str,
    /// What the case is about; unique for the agent.
    pub name: &'static str,
    /// Whether the agent comes in a bundle. `false`: the task's arguments say what runs.
    pub bundled: bool,
    /// What the engine answers (docs/engine-script.md).
    pub script: Value,
    /// Tokens of the engine's context, which the agent is told too.
    pub max_context: u32,
    /// The line of the task file. `task_id` is filled in, and of `agent` the name and a timeout where
    /// it has none.
    pub task: Value,
    /// Further arguments of `rollgate run`.
    pub run_args: Vec<String>,
    /// Files to write beside the run before it starts: path and text.
    pub files: Vec<(String, String)>,
    /// Scene and rule of every call that sampled tokens, in the order of the calls.
    pub calls: Vec<(&'static str, &'static str)>,
    /// Whether that order is certain; where calls overlap it is not.
    pub ordered: bool,
    /// Names of the matching rules that took part, in any turn; sorted.
    pub rules: Vec<&'static str>,
    /// Samples that come out, that is segments.
    pub samples: usize,
    /// Links of all samples: kind, scene of the segment it stands on, scene of the turn it leads to;
    /// sorted.
    pub links: Vec<(&'static str, &'static str, &'static str)>,
    /// How the attempt ends.
    pub outcome: &'static str,
    /// The reward.
    pub reward: Option<f64>,
    /// Answered calls whose tokens the gate never got, such as those of faults in between.
    pub lost_calls: usize,
    /// What else must hold; gives what does not.
    pub check: fn(&Seen, &Path) -> Vec<String>,
}

impl Case {
    /// A case of a bundled agent with a context of 65 536 tokens that must end done with reward 1,
    /// one sample, and no rule or link. Set `script`, `task` and `calls`, and what is otherwise. The rule of an
    /// agent without a scene file is `default-main`.
    pub fn new(agent: &'static str, name: &'static str) -> Self {
        Self {
            agent,
            name,
            bundled: true,
            script: json!({}),
            max_context: 65_536,
            task: json!({}),
            run_args: Vec::new(),
            files: Vec::new(),
            calls: Vec::new(),
            ordered: true,
            rules: Vec::new(),
            samples: 1,
            links: Vec::new(),
            outcome: "done",
            reward: Some(1.0),
            lost_calls: 0,
            check: |_, _| Vec::new(),
        }
    }

    /// `AGENT/NAME`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.agent, self.name)
    }
}

/// So many calls of one scene and rule.
pub fn times(
    count: usize,
    scene: &'static str,
    rule: &'static str,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    std::iter::repeat_n((scene, rule), count)
}
