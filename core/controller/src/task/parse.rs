//! One line to one task, with messages that say what to mend.

use rollgate_pipeline::exchange::{rule_set, scene_set};
use serde_json::{Map, Value};

use super::{Task, check};
use crate::near::unknown_key;
use crate::{evaluate, hooks};

pub(crate) const TASK: [&str; 19] = [
    "task_id",
    "instruction",
    "files",
    "workdir",
    "image",
    "resources",
    "setup",
    "env",
    "agent",
    "timeout_s",
    "hooks",
    "evaluate",
    "limits",
    "sampling",
    "history",
    "retention",
    "rules",
    "scenes",
    "metadata",
];
const AGENT: [&str; 5] = ["name", "version", "model", "args", "timeout_s"];
const RESOURCES: [&str; 4] = ["cpus", "memory_mib", "disk_mib", "pids"];
pub(crate) const LIMITS: [&str; 2] = ["turns", "tokens"];
pub(crate) const SAMPLING: [&str; 10] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "max_tokens",
    "seed",
    "stop",
    "extra",
];

pub(super) fn task(line: &str) -> Result<Task, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| format!("not JSON: {e}"))?;
    let Value::Object(object) = value else {
        return Err("a task is a JSON object".to_owned());
    };
    from_object(object)
}

/// The task that an object is.
pub(super) fn from_object(object: Map<String, Value>) -> Result<Task, String> {
    keys(&object)?;
    let task: Task = serde_path_to_error::deserialize(Value::Object(object)).map_err(|error| {
        match error.path().to_string().as_str() {
            "." => error.inner().to_string(),
            path => format!("in `{path}`: {}", error.inner()),
        }
    })?;
    sense(&task)?;
    Ok(task)
}

fn keys(object: &Map<String, Value>) -> Result<(), String> {
    unknown_key(object, &TASK).map_or(Ok(()), Err)?;
    within(object, "agent", &AGENT)?;
    within(object, "limits", &LIMITS)?;
    within(object, "sampling", &SAMPLING)?;
    within(object, "resources", &RESOURCES)?;
    within(object, "evaluate", &evaluate::KEYS)?;
    let hooks = object.get("hooks").and_then(Value::as_array);
    for (index, hook) in hooks.into_iter().flatten().enumerate() {
        if let Some(what) = hook.as_object().and_then(|hook| unknown_key(hook, &hooks::KEYS)) {
            return Err(format!("in `hooks[{index}]`: {what}"));
        }
    }
    Ok(())
}

/// Checks the keys of the object at `key`, if there is one.
pub(crate) fn within(object: &Map<String, Value>, key: &str, known: &[&str]) -> Result<(), String> {
    let Some(Value::Object(inner)) = object.get(key) else { return Ok(()) };
    unknown_key(inner, known).map_or(Ok(()), |what| Err(format!("in `{key}`: {what}")))
}

pub(super) fn sense(task: &Task) -> Result<(), String> {
    if task.task_id.is_empty() {
        return Err("`task_id` is empty".to_owned());
    }
    check::paths(task.files.keys(), "files")?;
    check::paths(&task.workdir, "workdir")?;
    check::names(&task.env, "env")?;
    if task.image.as_ref().is_some_and(|image| image.is_empty() || image.contains('\0')) {
        return Err("`image` is empty or holds NUL".to_owned());
    }
    for (index, command) in task.setup.iter().enumerate() {
        check::filled(command, &format!("setup[{index}]"))?;
    }
    if let Some(agent) = &task.agent {
        check::positive(agent.timeout_s, "agent.timeout_s")?;
    }
    check::positive(task.timeout_s, "timeout_s")?;
    hooks::sense(&task.hooks)?;
    let agent = task.agent.as_ref().map(|agent| agent.name.as_str());
    rule_set(agent, &[], &task.rules)?;
    scene_set(agent, &[], &task.scenes)?;
    let resources = &task.resources;
    if resources.cpus.is_some_and(|cpus| !(cpus > 0.0 && cpus.is_finite())) {
        return Err("`resources.cpus` must be over 0; leave it out for the default".to_owned());
    }
    let none = [
        (task.limits.turns == Some(0), "limits.turns"),
        (task.limits.tokens == Some(0), "limits.tokens"),
        (resources.memory_mib == Some(0), "resources.memory_mib"),
        (resources.disk_mib == Some(0), "resources.disk_mib"),
        (resources.pids == Some(0), "resources.pids"),
    ];
    match none.iter().find(|(zero, _)| *zero) {
        Some((_, name)) => Err(format!("`{name}` must be at least 1; leave it out for no bound")),
        None => Ok(()),
    }
}
