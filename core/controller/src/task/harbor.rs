//! Harbor task folders: `task.toml`, `instruction.md`, `environment/`, `tests/test.sh`.
//!
//! A folder is one task, or holds folders that are. What `task.toml` asks for is honoured, or told
//! by name, or, where the task would be another one without it, refused. `solution/` is not read.

mod manifest;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::load::{Gathered, Loaded};
use super::{Task, TaskError};
use crate::evaluate::{Evaluate, Grader, Where};
use crate::limits;
use manifest::Manifest;

/// Reads one task folder, or all that a folder holds.
pub(super) fn read(path: &Path) -> Result<Loaded, TaskError> {
    let io = |source| TaskError::Io { path: path.to_owned(), source };
    let root = path.canonicalize().map_err(io)?;
    let mut remarks = Vec::new();
    let mut tasks = Gathered::new(&root);
    for folder in folders(&root, &mut remarks).map_err(io)? {
        let task = task(&folder, &mut remarks)?;
        let what = |what| TaskError::File { path: folder.clone(), what };
        tasks.add(task).map_err(what)?;
    }
    let tasks = tasks.all().map_err(|_| TaskError::File {
        path: path.to_owned(),
        what: "neither it nor a folder in it has a task.toml".to_owned(),
    })?;
    Ok(Loaded { tasks, remarks })
}

fn folders(root: &Path, remarks: &mut Vec<String>) -> std::io::Result<Vec<PathBuf>> {
    if root.join("task.toml").is_file() {
        return Ok(vec![root.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !path.is_dir() || hidden {
            continue;
        }
        if path.join("task.toml").is_file() {
            found.push(path);
        } else if path.join("task.yaml").is_file() {
            let what = "has task.yaml, not task.toml: a task of Terminal-Bench 1, not read";
            remarks.push(format!("{} {what}", path.display()));
        } else {
            remarks.push(format!("{} is no task: it has no task.toml", path.display()));
        }
    }
    found.sort();
    remarks.sort();
    Ok(found)
}

fn task(folder: &Path, remarks: &mut Vec<String>) -> Result<Task, TaskError> {
    let wrong =
        |file: &str, what: &str| TaskError::File { path: folder.join(file), what: what.to_owned() };
    let mut manifest = Manifest::parse(&folder.join("task.toml"), &text(folder, "task.toml")?)?;
    let instruction = text(folder, "instruction.md")?;
    if instruction.trim().is_empty() {
        return Err(wrong("instruction.md", "it is empty"));
    }
    if !folder.join("tests/test.sh").is_file() {
        return Err(wrong("tests", "there is no test.sh in it"));
    }
    let name = folder.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| wrong("", "its name is not UTF-8"))?;
    let verifier = manifest.verifier()?;
    let sandbox = match verifier.separate {
        false => Where::Same,
        true => Where::Fresh { image: verifier.image },
    };
    let artifacts = manifest.artifacts()?;
    let hooks = match sandbox {
        Where::Same if !artifacts.is_empty() => vec![manifest::collecting(&artifacts)],
        _ => Vec::new(),
    };
    let artifacts = if sandbox == Where::Same { Vec::new() } else { artifacts };
    let task = Task {
        task_id: name.to_owned(),
        instruction,
        files: BTreeMap::new(),
        workdir: manifest.workdir()?,
        image: image(folder, &mut manifest)?,
        resources: manifest.resources()?,
        setup: manifest.healthcheck()?.into_iter().collect(),
        env: manifest.env()?,
        agent: None,
        timeout_s: manifest.agent_timeout()?,
        hooks,
        evaluate: Some(Evaluate {
            grader: Grader::Harbor { tests: folder.join("tests"), sandbox },
            timeout_s: verifier.timeout_s,
            artifacts,
            env: verifier.env,
        }),
        limits: Default::default(),
        sampling: Default::default(),
        history: None,
        retention: None,
        rules: Vec::new(),
        scenes: Vec::new(),
        metadata: manifest.metadata()?,
    };
    super::parse::sense(&task).map_err(|what| wrong("task.toml", &what))?;
    remarks.extend(manifest.left()?);
    Ok(task)
}

/// A ready image, else the folder to build one from.
fn image(folder: &Path, manifest: &mut Manifest) -> Result<Option<String>, TaskError> {
    let environment = folder.join("environment");
    for name in ["docker-compose.yaml", "docker-compose.yml"] {
        if environment.join(name).exists() {
            let what = "several services are not supported: give the task one image".to_owned();
            return Err(TaskError::File { path: environment.join(name), what });
        }
    }
    if let Some(ready) = manifest.image()? {
        return Ok(Some(ready));
    }
    if !environment.join("Dockerfile").is_file() {
        return Ok(None);
    }
    let path = environment.to_str().map(str::to_owned);
    let what = "its path is not UTF-8".to_owned();
    path.map(Some).ok_or(TaskError::File { path: environment, what })
}

fn text(folder: &Path, name: &str) -> Result<String, TaskError> {
    let path = folder.join(name);
    let io = |source| TaskError::Io { path: path.clone(), source };
    let bytes = std::fs::metadata(&path).map_err(io)?.len();
    if bytes > limits::TASK_FILE_BYTES {
        let what = format!("{bytes} bytes are over the {} allowed", limits::TASK_FILE_BYTES);
        return Err(TaskError::File { path, what });
    }
    std::fs::read_to_string(&path).map_err(io)
}

#[cfg(test)]
mod tests;
