//! `run.json`: what the run was started with, written once, compared later.

use std::path::Path;

use serde_json::{Value, json};

use super::{RunSettings, SinkError};

const FILE: &str = "run.json";

/// Refuses a directory whose run was started otherwise.
pub(super) fn check(dir: &Path, run: &RunSettings) -> Result<(), SinkError> {
    let path = dir.join(FILE);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return fresh(dir),
        Err(source) => return Err(SinkError::Io { path, source }),
    };
    let earlier: Value = serde_json::from_slice(&text)
        .map_err(|e| SinkError::Damaged { path, what: format!("not JSON: {e}") })?;
    let now = compared(run);
    let differ = difference(&earlier, &now);
    if differ.is_empty() {
        return Ok(());
    }
    Err(SinkError::OtherSettings { dir: dir.to_owned(), differ: differ.join(", ") })
}

/// Writes `run.json` if it is not there.
pub(super) fn write(dir: &Path, run: &RunSettings) -> Result<(), SinkError> {
    let path = dir.join(FILE);
    if path.exists() {
        return Ok(());
    }
    let mut all = compared(run);
    all["notes"] = run.notes.clone();
    all["versions"] = json!({ "rollgate": env!("CARGO_PKG_VERSION"), "sample_format": 1 });
    let temporary = dir.join("run.json.tmp");
    std::fs::write(&temporary, format!("{all:#}\n")).map_err(SinkError::io(&temporary))?;
    std::fs::rename(&temporary, &path).map_err(SinkError::io(&path))
}

fn compared(run: &RunSettings) -> Value {
    json!({ "format": run.format, "settings": run.settings })
}

fn fresh(dir: &Path) -> Result<(), SinkError> {
    let ours = ["attempts.jsonl", "samples", "samples-00001.jsonl", "samples-00001.parquet"];
    if ours.iter().any(|name| dir.join(name).exists()) {
        return Err(SinkError::Foreign(dir.to_owned()));
    }
    Ok(())
}

/// Names of the settings that differ.
fn difference(earlier: &Value, now: &Value) -> Vec<String> {
    let mut names = Vec::new();
    if earlier["format"] != now["format"] {
        names.push("format".to_owned());
    }
    let (before, after) = (&earlier["settings"], &now["settings"]);
    match (before.as_object(), after.as_object()) {
        (Some(before), Some(after)) => {
            let all = before.keys().chain(after.keys().filter(|key| !before.contains_key(*key)));
            names.extend(all.filter(|key| before.get(*key) != after.get(*key)).cloned());
        }
        _ if before != after => names.push("settings".to_owned()),
        _ => {}
    }
    names
}
