//! Plays a case: engine, `rollgate run`, and what is found afterwards.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rollgate_tests::program;
use rollgate_tests::scripted::Scripted;
use serde_json::{Value, json};

use crate::bundles::Bundles;
use crate::case::Case;
use crate::judge;
use crate::seen::Seen;
use crate::table::Row;

/// Longest run of an agent, unless its task says otherwise.
const TIMEOUT_S: u64 = 150;

/// Plays a case; whatever goes wrong is in the row.
pub fn play(case: &Case, bundles: &Bundles) -> Row {
    let begun = Instant::now();
    let mut row = Row::new(case, bundles.version(case.agent));
    let directory = tempfile::tempdir().expect("a directory can be made");
    let (dir, kept) = match kept(case) {
        Some(dir) => (dir, true),
        None => (directory.path().to_owned(), false),
    };
    let played = catch_unwind(AssertUnwindSafe(|| run(case, bundles, &dir, &mut row)));
    if let Err(panic) = played {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        row.problems.push(said.unwrap_or_else(|| "it panicked".to_owned()));
    }
    if !row.problems.is_empty() {
        row.problems.push(logs(&dir.join("out/logs")));
        if kept {
            row.problems.push(format!("all of it lies in {}", dir.display()));
        }
    }
    row.seconds = begun.elapsed().as_secs();
    row
}

/// An empty directory that stays, where that is asked for.
fn kept(case: &Case) -> Option<PathBuf> {
    let dir = PathBuf::from(std::env::var_os("ROLLGATE_REAL_AGENTS_KEEP")?);
    let dir = std::path::absolute(dir.join(case.label())).expect("a path");
    // Nothing of an earlier run may be taken for this one's.
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("the directory to keep can be made");
    Some(dir)
}

fn run(case: &Case, bundles: &Bundles, dir: &Path, row: &mut Row) {
    for (path, text) in &case.files {
        std::fs::write(dir.join(path), text).expect("a file of the case can be written");
    }
    let context = case.max_context.to_string();
    let engine = Scripted::start_with(
        dir,
        &case.script,
        &["--record", "calls.jsonl", "--max-context", &context],
    );
    std::fs::write(dir.join("tasks.jsonl"), format!("{}\n", task(case))).expect("the task");
    let (model, agents) = (program::demo_model(), bundles.dir.to_string_lossy());
    let model = model.to_str().expect("a path of text");
    let mut arguments = vec!["run", "tasks.jsonl", "--agents", &agents, "--engine", &engine.url];
    arguments.extend(["--model", model, "--n", "1", "--shards", "1", "-o", "out"]);
    arguments.extend(case.run_args.iter().map(String::as_str));
    let ran = program::run(dir, &arguments);
    if ran.code != Some(0) {
        row.problems.push(format!("rollgate run ended with {:?}: {}", ran.code, ran.stderr.trim()));
    }
    let seen = Seen::read(&dir.join("out"), &dir.join("calls.jsonl"));
    judge::judge(case, &seen, row);
    row.problems.extend((case.check)(&seen, dir));
    let (code, report) = program::verify(dir, &["out"]);
    if code != Some(0) {
        row.problems.push(format!("rollgate verify ended with {code:?}: {report}"));
    }
}

fn task(case: &Case) -> Value {
    let mut task = case.task.clone();
    task["task_id"] = json!(case.name);
    if task["agent"].is_null() {
        task["agent"] = json!({});
    }
    task["agent"]["name"] = json!(case.agent);
    if task["agent"]["timeout_s"].is_null() {
        task["agent"]["timeout_s"] = json!(TIMEOUT_S);
    }
    task
}

/// The ends of what the agent printed.
fn logs(dir: &Path) -> String {
    let mut told = String::new();
    let tries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for file in tries.flat_map(|entry| std::fs::read_dir(entry.path()).into_iter().flatten()) {
        let Ok(file) = file else { continue };
        let text = std::fs::read(file.path()).unwrap_or_default();
        let end = String::from_utf8_lossy(&text[text.len().saturating_sub(1_500)..]).into_owned();
        if !end.trim().is_empty() {
            told += &format!("-- {}\n{end}\n", file.path().display());
        }
    }
    told
}
