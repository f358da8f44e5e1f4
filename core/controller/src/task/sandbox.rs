//! From a task to the sandbox that it needs.

use std::time::Duration;

use rollgate_backends::{Resources, Spec};

use super::{Agent, Task, seconds};
use crate::limits;

impl Task {
    /// The deadline of its agent: what the task says for this very agent, else for any, else what
    /// the job's agent says.
    pub fn agent_timeout(&self, agent: &Agent) -> Duration {
        let own = self.agent.as_ref().and_then(|agent| agent.timeout_s);
        seconds(own.or(self.timeout_s).or(agent.timeout_s), limits::AGENT)
    }

    /// Puts what it asks for over what a sandbox would be without it.
    pub fn shape(&self, spec: &mut Spec) {
        if let Some(image) = &self.image {
            spec.image = Some(image.clone());
        }
        let Resources { cpus, memory_mib, disk_mib, pids } = self.resources;
        let given = &mut spec.resources;
        given.cpus = cpus.or(given.cpus);
        given.memory_mib = memory_mib.or(given.memory_mib);
        given.disk_mib = disk_mib.or(given.disk_mib);
        given.pids = pids.or(given.pids);
    }
}

/// Whether nothing is asked for.
pub(super) fn are_default(resources: &Resources) -> bool {
    *resources == Resources::default()
}

/// Resources in JSON: keys as the fields', all optional.
pub(super) mod resources {
    use super::Resources;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Default, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Written {
        #[serde(skip_serializing_if = "Option::is_none")]
        cpus: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        memory_mib: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        disk_mib: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pids: Option<u32>,
    }

    pub(in super::super) fn serialize<S: Serializer>(
        resources: &Resources,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let Resources { cpus, memory_mib, disk_mib, pids } = *resources;
        Written { cpus, memory_mib, disk_mib, pids }.serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Resources, D::Error> {
        let Written { cpus, memory_mib, disk_mib, pids } = Written::deserialize(from)?;
        Ok(Resources { cpus, memory_mib, disk_mib, pids })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(more: &str) -> Task {
        let line = format!(r#"{{"task_id":"t","instruction":"go"{more}}}"#);
        super::super::parse(std::path::Path::new("dir/t"), &line).unwrap().remove(0)
    }

    #[test]
    fn what_the_task_asks_for_wins_over_what_there_would_be() {
        let task =
            task(r#","image":"python:3.12","resources":{"cpus":1.5,"memory_mib":512,"pids":64}"#);
        let mut spec = Spec::new("t.0", "run-1");
        spec.image = Some("job".to_owned());
        spec.resources = Resources { disk_mib: Some(9), pids: Some(1), ..Resources::default() };
        task.shape(&mut spec);
        assert_eq!(spec.image.as_deref(), Some("python:3.12"));
        assert_eq!((spec.resources.cpus, spec.resources.memory_mib), (Some(1.5), Some(512)));
        assert_eq!((spec.resources.disk_mib, spec.resources.pids), (Some(9), Some(64)));
        let again: Task = serde_json::from_value(serde_json::to_value(&task).unwrap()).unwrap();
        assert_eq!(again, task);
    }

    #[test]
    fn a_folder_to_build_an_image_from_is_found_from_the_task_file() {
        let image = |text: &str| task(&format!(r#","image":"{text}""#)).image.unwrap();
        assert_eq!(image("org/image:1"), "org/image:1");
        assert_eq!(image("/abs/env"), "/abs/env");
        let built = image("./env");
        assert!(built.starts_with('/') && built.ends_with("/dir/env"), "{built}");
    }

    #[test]
    fn the_tasks_own_agent_has_the_first_word_on_the_deadline() {
        let job = Agent { timeout_s: Some(9.0), ..Agent::named("x") };
        let secs = |more: &str| task(more).agent_timeout(&job).as_secs();
        assert_eq!(secs(""), 9);
        assert_eq!(secs(r#","timeout_s":5"#), 5);
        assert_eq!(secs(r#","timeout_s":5,"agent":{"name":"x","timeout_s":3}"#), 3);
    }
}
