//! One line to one task, with messages that say what to mend.

use rollgate_pipeline::exchange::{rule_set, scene_set};
use serde_json::{Map, Value};

use super::{Command, Task};
use crate::limits::LONGEST;
use crate::near::unknown_key;

const TASK: [&str; 15] = [
    "task_id",
    "instruction",
    "files",
    "workdir",
    "setup",
    "env",
    "agent",
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
const EVALUATE: [&str; 2] = ["command", "timeout_s"];
const EVALUATE_LATER: [&str; 2] = ["program", "url"];
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
    let Value::Object(object) = &value else {
        return Err("a task is a JSON object".to_owned());
    };
    keys(object)?;
    let task: Task = serde_json::from_value(value).map_err(|e| e.to_string())?;
    sense(&task)?;
    Ok(task)
}

fn keys(object: &Map<String, Value>) -> Result<(), String> {
    unknown_key(object, &TASK).map_or(Ok(()), Err)?;
    within(object, "agent", &AGENT)?;
    within(object, "limits", &LIMITS)?;
    within(object, "sampling", &SAMPLING)?;
    let Some(Value::Object(evaluate)) = object.get("evaluate") else { return Ok(()) };
    if let Some(key) = EVALUATE_LATER.iter().find(|key| evaluate.contains_key(**key)) {
        return Err(format!("in `evaluate`: `{key}` is not built yet; use `command`"));
    }
    within(object, "evaluate", &EVALUATE)?;
    if evaluate.contains_key("command") {
        Ok(())
    } else {
        Err("in `evaluate`: `command` is missing".to_owned())
    }
}

/// Checks the keys of the object at `key`, if there is one.
pub(crate) fn within(object: &Map<String, Value>, key: &str, known: &[&str]) -> Result<(), String> {
    let Some(Value::Object(inner)) = object.get(key) else { return Ok(()) };
    unknown_key(inner, known).map_or(Ok(()), |what| Err(format!("in `{key}`: {what}")))
}

fn sense(task: &Task) -> Result<(), String> {
    if task.task_id.is_empty() {
        return Err("`task_id` is empty".to_owned());
    }
    for path in task.files.keys().chain(&task.workdir) {
        if path.is_empty() || path.contains('\0') || path.split('/').any(|part| part == "..") {
            return Err(format!("path `{path}` may not hold `..` or NUL, nor be empty"));
        }
    }
    if let Some(name) = task.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(format!("`env` holds a name that cannot be one: `{name}`"));
    }
    for (index, command) in task.setup.iter().enumerate() {
        filled(command, &format!("setup[{index}]"))?;
    }
    if let Some(agent) = &task.agent {
        positive(agent.timeout_s, "agent.timeout_s")?;
    }
    if let Some(evaluate) = &task.evaluate {
        filled(&evaluate.command, "evaluate.command")?;
        positive(evaluate.timeout_s, "evaluate.timeout_s")?;
    }
    let agent = task.agent.as_ref().map(|agent| agent.name.as_str());
    rule_set(agent, &[], &task.rules)?;
    scene_set(agent, &[], &task.scenes)?;
    let none = [
        (task.limits.turns == Some(0), "limits.turns"),
        (task.limits.tokens == Some(0), "limits.tokens"),
    ];
    match none.iter().find(|(zero, _)| *zero) {
        Some((_, name)) => Err(format!("`{name}` must be at least 1; leave it out for no bound")),
        None => Ok(()),
    }
}

fn filled(command: &Command, name: &str) -> Result<(), String> {
    if command.is_empty() { Err(format!("`{name}` is empty")) } else { Ok(()) }
}

fn positive(seconds: Option<f64>, name: &str) -> Result<(), String> {
    let most = LONGEST.as_secs_f64();
    match seconds {
        Some(s) if !(s > 0.0 && s <= most) => {
            Err(format!("`{name}` must be over 0 and at most {most} seconds"))
        }
        _ => Ok(()),
    }
}
