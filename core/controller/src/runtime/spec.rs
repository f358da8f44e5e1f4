//! What sandboxes are made of: the one place where a [`Spec`] is put together.

use std::path::Path;
use std::time::Duration;

use rollgate_backends::{Mount, Resources, Spec};

use super::Ask;
use crate::limits;
use crate::plan::Room;
use crate::task::{Agent, Task};

/// What all sandboxes of a job have in common.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sandboxes {
    /// Who owns them: this run.
    pub owner: String,
    /// Image or template; `None`: the backend's own.
    pub image: Option<String>,
    /// What each may use.
    pub resources: Resources,
    /// Folders of the host that all see, read-only.
    pub mounts: Vec<Mount>,
    /// Folder with the agents' bundles, which a sandbox of another machine view has to mount.
    pub bundles: Option<std::path::PathBuf>,
}

impl Sandboxes {
    /// The sandbox of an attempt whose agent is this program.
    pub fn spec(&self, ask: &Ask, program: Option<&str>) -> Spec {
        let id = match ask.tried.retry {
            0 => ask.attempt_id.clone(),
            retry => format!("{}.retry-{retry}", ask.attempt_id),
        };
        self.kind(&ask.task, &ask.agent, program, id)
    }

    /// The same before there is an attempt: what a task's sandboxes are like.
    pub fn kind(&self, task: &Task, agent: &Agent, program: Option<&str>, id: String) -> Spec {
        let mut spec = self.of(task, life(task, agent), id);
        spec.mounts.extend(self.bundle(program));
        spec
    }

    /// A sandbox for a task without its agent, to live so long at least. What the task says wins over
    /// what the job says.
    pub fn of(&self, task: &Task, life: Duration, id: String) -> Spec {
        let mut spec = Spec::new(id, self.owner.clone());
        spec.image.clone_from(&self.image);
        spec.resources = self.resources;
        task.shape(&mut spec);
        spec.ttl = spec.ttl.max(life);
        spec.mounts.clone_from(&self.mounts);
        spec
    }

    /// What a task's sandbox takes of what the node offers.
    pub fn demand(&self, task: &Task) -> Room {
        let resources = self.of(task, Duration::ZERO, String::new()).resources;
        Room {
            millicores: (resources.cpus.unwrap_or(0.0) * 1_000.0).ceil() as u64,
            memory_mib: resources.memory_mib.unwrap_or(0),
        }
    }

    /// The bundle that a program lies in, at the same place inside.
    fn bundle(&self, program: Option<&str>) -> Option<Mount> {
        let bundles = self.bundles.as_deref()?;
        let inside = Path::new(program?).strip_prefix(bundles).ok()?;
        let from = bundles.join(inside.components().next()?);
        let to = from.to_str()?.to_owned();
        Some(Mount { from, to })
    }
}

/// Longest that an attempt may take: all of its steps with their deadlines, one after the other.
pub fn life(task: &Task, agent: &Agent) -> Duration {
    let setups = limits::SETUP.saturating_mul(task.setup.len() as u32 + 1);
    let files = limits::FILE.saturating_mul(task.files.len() as u32 + FILES_OF_OURS);
    // Taking artifacts, grading in a sandbox of its own, and what is done around it.
    let evaluate = task.evaluate.as_ref().map_or(Duration::ZERO, |evaluate| {
        evaluate.timeout().saturating_mul(2).saturating_add(limits::SANDBOX)
    });
    let hooks = task.hooks.iter().map(|hook| hook.timeout().saturating_mul(3));
    let hooks = hooks.fold(Duration::ZERO, Duration::saturating_add);
    let reach = (limits::REACH + limits::REACH_PAUSE).saturating_mul(limits::REACH_TRIES);
    [
        limits::SESSION.saturating_mul(3),
        limits::SANDBOX,
        reach,
        setups,
        files,
        limits::VERSION_WAIT,
        hooks,
        task.agent_timeout(agent),
        evaluate,
        limits::DESTROY,
        limits::CLOSE,
        limits::COLLECT,
        limits::SLACK.saturating_mul((task.setup.len() + task.hooks.len()) as u32 + 4),
        limits::ATTEMPT_MARGIN,
    ]
    .into_iter()
    .fold(Duration::ZERO, Duration::saturating_add)
}

/// Files that harness and evaluation write and read, at most.
const FILES_OF_OURS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_outlives_every_step_and_mounts_the_agents_bundle() {
        let line = r#"{"task_id":"t","instruction":"x","setup":["a","b"],
            "agent":{"name":"codex","timeout_s":100},"evaluate":{"command":"x","timeout_s":50}}"#;
        let task = crate::task::parse(Path::new("t"), &line.replace('\n', "")).unwrap().remove(0);
        let agent = task.agent.clone().unwrap();
        let least = 100 + 50 + 3 * limits::SETUP.as_secs() + limits::SANDBOX.as_secs();
        assert!(life(&task, &agent).as_secs() > least);
        let sandboxes = Sandboxes {
            owner: "me".into(),
            resources: Resources { cpus: Some(0.5), ..Resources::default() },
            bundles: Some("/bundles".into()),
            ..Sandboxes::default()
        };
        assert_eq!(sandboxes.demand(&task), Room { millicores: 500, memory_mib: 0 });
        let program = Some("/bundles/codex@1.0/bin/codex");
        let spec = sandboxes.kind(&task, &agent, program, "t.0".into());
        let to = "/bundles/codex@1.0".to_owned();
        assert_eq!(spec.mounts, [Mount { from: to.clone().into(), to }]);
        assert_eq!((spec.attempt_id.as_str(), spec.owner.as_str()), ("t.0", "me"));
        assert!(sandboxes.kind(&task, &agent, Some("/usr/bin/x"), String::new()).mounts.is_empty());
    }

    fn task(more: &str) -> Task {
        let line = format!(r#"{{"task_id":"t","instruction":"go"{}}}"#, more.replace('\n', ""));
        crate::task::parse(Path::new("dir/t"), &line).unwrap().remove(0)
    }

    #[test]
    fn a_task_has_the_first_word_on_image_and_resources() {
        let job = Sandboxes {
            image: Some("job".into()),
            resources: Resources { cpus: Some(4.0), pids: Some(9), ..Resources::default() },
            ..Sandboxes::default()
        };
        let spec = |more: &str| job.of(&task(more), Duration::ZERO, "t.0".into());
        let own = spec(r#","image":"python:3.12","resources":{"cpus":1.5,"memory_mib":512}"#);
        assert_eq!(own.image.as_deref(), Some("python:3.12"));
        assert_eq!((own.resources.cpus, own.resources.memory_mib), (Some(1.5), Some(512)));
        assert_eq!((own.resources.disk_mib, own.resources.pids), (None, Some(9)));
        assert_eq!(spec("").image.as_deref(), Some("job"));
    }

    #[test]
    fn row_11_a_sandbox_outlives_the_agent_and_its_evaluation() {
        let task = task(
            r#","agent":{"name":"x","timeout_s":50000},"setup":["a","b"],
            "hooks":[{"at":"after_run","exec":"true","timeout_s":700}],
            "evaluate":{"command":"true","timeout_s":9000}"#,
        );
        let agent = task.agent.clone().unwrap();
        let life = life(&task, &agent);
        assert!(life.as_secs() > 50_000 + 9_000 + 700 + 2 * limits::SETUP.as_secs(), "{life:?}");
        let sandboxes = Sandboxes::default();
        assert!(sandboxes.kind(&task, &agent, None, String::new()).ttl >= life);
    }
}
