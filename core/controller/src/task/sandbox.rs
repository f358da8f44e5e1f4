//! From a task to the sandbox that it needs.

use std::path::Path;
use std::time::Duration;

use rollgate_backends::Resources;

use super::{Agent, Image, Task, seconds};
use crate::limits;

impl Task {
    /// The deadline of its agent: what the task says for this very agent, else for any, else what
    /// the job's agent says.
    pub fn agent_timeout(&self, agent: &Agent) -> Duration {
        let own = self.agent.as_ref().and_then(|agent| agent.timeout_s);
        seconds(own.or(self.timeout_s).or(agent.timeout_s), limits::AGENT)
    }
}

impl Image {
    /// How it is built; `None`: it has a name.
    pub fn build(&self) -> Option<&super::Build> {
        match self {
            Image::Named(_) => None,
            Image::Built(build) => Some(build),
        }
    }

    /// Host paths as seen from a folder.
    pub(super) fn resolve(&mut self, folder: &Path) {
        if let Image::Built(build) = self {
            build.build = folder.join(&build.build);
        }
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
        super::super::parse(Path::new("dir/t"), &line).unwrap().remove(0)
    }

    #[test]
    fn an_image_to_be_built_is_found_from_the_task_file() {
        let task = task(
            r#","image":{"build":"env","args":{"BASE":"b"},"timeout_s":9},"resources":{"pids":64}"#,
        );
        let build = task.image.as_ref().unwrap().build().unwrap();
        assert_eq!((build.build.as_path(), &*build.args["BASE"]), (Path::new("dir/env"), "b"));
        let again: Task = serde_json::from_value(serde_json::to_value(&task).unwrap()).unwrap();
        assert_eq!(again, task);
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
