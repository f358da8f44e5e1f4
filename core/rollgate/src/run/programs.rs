//! Finding the agents' programs before anything is started.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use rollgate_controller::programs::{Programs, wanted_version};
use rollgate_controller::task::{Agent, Task};
use rollgate_harness::{Harness, Job, by_name};

use crate::agents::bundle;
use crate::exit::Stop;

/// The programs of all agents that come in bundles. An agent that is neither in a bundle nor on PATH
/// is an error that says how to install it; without a PATH it is not known here what sandboxes have.
pub(super) fn find(
    tasks: &[Task],
    default: &Agent,
    dir: Option<&Path>,
    path_env: Option<&str>,
) -> Result<Programs, Stop> {
    let mut programs = Programs::default();
    // Without a HOME there is no such directory, and PATH remains.
    let dir = match dir {
        Some(dir) => Some(dir.to_owned()),
        None => bundle::dir(None).ok(),
    };
    for task in tasks {
        let agent = task.agent.as_ref().unwrap_or(default);
        // A name that is unknown is told by whoever runs the job, with the task's id.
        let Ok(harness) = by_name(&agent.name) else { continue };
        let Some(version) = wanted_version(agent, harness.as_ref()) else { continue };
        if harness.package().is_none() || programs.of(agent, harness.as_ref()).is_some() {
            continue;
        }
        let found = dir.as_deref().and_then(|dir| bundle::find(dir, &agent.name, &version));
        match found {
            Some(program) => {
                programs.add(&agent.name, &version, program.to_string_lossy().into_owned());
            }
            None => path_env
                .map_or(Ok(()), |path| on_path(task, agent, harness.as_ref(), path))
                .map_err(|program| lacking(task, agent, &version, &program, dir.as_deref()))?,
        }
    }
    Ok(programs)
}

/// Whether the agent is on PATH, or may be: the error is the program that is not.
fn on_path(task: &Task, agent: &Agent, harness: &dyn Harness, path: &str) -> Result<(), String> {
    let Some(program) = harness.version_argv(&job(agent)).and_then(|argv| argv.into_iter().next())
    else {
        return Ok(());
    };
    // A path is the task's own, and a PATH of its own may have what its set-up installs.
    if program.contains('/') || task.env.contains_key("PATH") {
        return Ok(());
    }
    let runs = |dir: &str| {
        let file = std::fs::metadata(Path::new(dir).join(&program));
        file.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if path.split(':').any(runs) { Ok(()) } else { Err(program) }
}

fn lacking(task: &Task, agent: &Agent, version: &str, program: &str, dir: Option<&Path>) -> Stop {
    let (id, name) = (&task.task_id, &agent.name);
    let Some(dir) = dir else {
        return Stop::wrong_use(format!(
            "task `{id}`: there is no `{program}` on PATH, and no directory of bundles. Install it \
             with `rollgate agents install {name}@{version} --into DIR` and give `--agents DIR`"
        ));
    };
    let here = bundle::installed(dir).into_iter().filter(|bundle| bundle.name == *name);
    let here: Vec<String> = here.map(|bundle| bundle.version).collect();
    let other =
        if here.is_empty() { String::new() } else { format!(" (there: {})", here.join(", ")) };
    let dir = dir.display();
    Stop::wrong_use(format!(
        "task `{id}`: {name} {version} is not in {dir}{other}, and there is no `{program}` on PATH. \
         Install it: rollgate agents install {name}@{version} --into {dir}"
    ))
}

/// A job that only serves to ask which program would be started.
fn job(agent: &Agent) -> Job {
    Job {
        instruction: String::new(),
        openai_base_url: String::new(),
        anthropic_base_url: String::new(),
        key: String::new(),
        model: String::new(),
        program: None,
        max_context: u32::MAX,
        workdir: String::new(),
        home: String::new(),
        rollgate: String::new(),
        args: agent.args.clone(),
        timeout: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(more: &str) -> Vec<Task> {
        let line = format!(r#"{{"task_id":"t","instruction":"go"{more}}}"#);
        rollgate_controller::task::parse(Path::new("t"), &line).unwrap()
    }

    fn found(dir: &Path, path: &str, more: &str) -> Result<Option<String>, String> {
        let tasks = task(more);
        let default = Agent::named("mini-swe-agent");
        let programs =
            find(&tasks, &default, Some(dir), Some(path)).map_err(|stop| stop.message)?;
        let agent = tasks[0].agent.as_ref().unwrap_or(&default);
        let harness = by_name(&agent.name).unwrap();
        Ok(programs.of(agent, harness.as_ref()).map(str::to_owned))
    }

    fn bundle_in(dir: &Path, label: &str) {
        let (name, version) = label.split_once('@').unwrap();
        std::fs::create_dir_all(dir.join(label).join("bin")).unwrap();
        std::fs::write(dir.join(label).join("bin").join(name), "").unwrap();
        let told = serde_json::json!({
            "name": name, "version": version, "as_of": null, "packages": [], "runtime": "native",
            "platform": "", "bytes": 0, "lock_digest": "", "says": "", "created_at_ms": 0,
            "rollgate": "",
        });
        std::fs::write(dir.join(label).join("bundle.json"), told.to_string()).unwrap();
    }

    #[test]
    fn a_bundle_then_path_then_an_error_that_says_how_to_install() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let lacks = found(path, "/nowhere", "").unwrap_err();
        let install =
            format!("rollgate agents install mini-swe-agent@2.4.6 --into {}", path.display());
        assert!(lacks.contains("no `mini` on PATH") && lacks.ends_with(&install), "{lacks}");

        let on_path = path.join("mini");
        std::fs::write(&on_path, "").unwrap();
        assert!(found(path, path.to_str().unwrap(), "").is_err(), "it must be executable");
        std::fs::set_permissions(&on_path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found(path, path.to_str().unwrap(), ""), Ok(None));

        bundle_in(path, "mini-swe-agent@2.4.6");
        let program = format!("{}/mini-swe-agent@2.4.6/bin/mini-swe-agent", path.display());
        assert_eq!(found(path, "/nowhere", ""), Ok(Some(program.clone())));
        assert_eq!(found(path, path.to_str().unwrap(), ""), Ok(Some(program)));
        let pinned = r#","agent":{"name":"mini-swe-agent","version":"9.1"}"#;
        let lacks = found(path, "/nowhere", pinned).unwrap_err();
        assert!(lacks.contains("9.1 is not in") && lacks.contains("(there: 2.4.6)"), "{lacks}");
    }

    #[test]
    fn what_the_task_brings_itself_is_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let own = r#","agent":{"name":"mini-swe-agent","args":["/venv/bin/mini"]}"#;
        assert_eq!(found(dir.path(), "/nowhere", own), Ok(None));
        assert_eq!(found(dir.path(), "/nowhere", r#","env":{"PATH":"/x"}"#), Ok(None));
        assert_eq!(found(dir.path(), "/nowhere", r#","agent":{"name":"command"}"#), Ok(None));
    }
}
