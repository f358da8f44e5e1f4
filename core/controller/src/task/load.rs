//! From a path to tasks: which format it is, and what all of them have in common.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::{Columns, Task, TaskError, harbor, parquet, parse};
use crate::evaluate::Grader;
use crate::limits;

/// Tasks, and what was passed over in reading them.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The tasks; their ids are unique.
    pub tasks: Vec<Task>,
    /// What a foreign format asks for and is not done, by file, task and key.
    pub remarks: Vec<String>,
}

/// Reads tasks: a folder is a Harbor task or holds such folders; a file is Parquet by its name or
/// its first bytes, else JSON lines. `columns` says where rows and lines of other shapes hold what
/// a task needs.
pub fn load(path: &Path, columns: &Columns) -> Result<Loaded, TaskError> {
    let io = |source| TaskError::Io { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(io)?.is_dir() {
        if !columns.is_empty() {
            let what = "a task folder has no columns to be mapped".to_owned();
            return Err(TaskError::File { path: path.to_owned(), what });
        }
        return harbor::read(path);
    }
    if parquet::is_one(path).map_err(io)? {
        return parquet::read(path, columns);
    }
    let text = std::fs::read_to_string(path).map_err(io)?;
    Ok(Loaded { tasks: lines(path, &text, columns)?, remarks: Vec::new() })
}

/// The tasks of JSON lines.
pub(super) fn lines(path: &Path, text: &str, columns: &Columns) -> Result<Vec<Task>, TaskError> {
    let mut tasks = Gathered::new(path);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = |what| TaskError::Line { path: path.to_owned(), line: index + 1, what };
        let task = if columns.is_empty() {
            parse::task(line)
        } else {
            object(line).and_then(|row| columns.task(row, &tasks.default_id()))
        };
        tasks.add(task.map_err(at)?).map_err(at)?;
    }
    tasks.all()
}

fn object(line: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(line).map_err(|e| format!("not a JSON object: {e}"))
}

/// Tasks of one file: ids are unique, host paths start at the file's folder.
pub(super) struct Gathered<'a> {
    path: &'a Path,
    tasks: Vec<Task>,
    ids: BTreeSet<String>,
}

impl<'a> Gathered<'a> {
    pub(super) fn new(path: &'a Path) -> Self {
        Self { path, tasks: Vec::new(), ids: BTreeSet::new() }
    }

    /// An id for a row without one.
    pub(super) fn default_id(&self) -> String {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        format!("{stem}-{:06}", self.tasks.len())
    }

    pub(super) fn add(&mut self, mut task: Task) -> Result<(), String> {
        if !self.ids.insert(task.task_id.clone()) {
            return Err(format!("task_id `{}` was used on an earlier line", task.task_id));
        }
        if self.tasks.len() >= limits::TASKS {
            return Err(format!("more than {} tasks; split the file", limits::TASKS));
        }
        let folder = self.path.parent().unwrap_or(Path::new(""));
        if let Some(image) = &mut task.image
            && let Some(below) = image.strip_prefix("./")
        {
            let path = std::path::absolute(folder.join(below));
            let path = path.map_err(|e| format!("`image`: {e}"))?;
            *image = path.to_str().ok_or("`image`: its path is not UTF-8")?.to_owned();
        }
        if let Some(evaluate) = &mut task.evaluate
            && let Grader::Harbor { tests, .. } = &mut evaluate.grader
        {
            *tests = folder.join(&*tests);
        }
        self.tasks.push(task);
        Ok(())
    }

    pub(super) fn all(self) -> Result<Vec<Task>, TaskError> {
        if self.tasks.is_empty() {
            return Err(TaskError::Empty(self.path.to_owned()));
        }
        Ok(self.tasks)
    }
}
