//! Parquet data sets: one task a row, in any shape that a column map makes a task of.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::{Map, Value};

use super::load::{Gathered, Loaded};
use super::{Columns, TaskError};

/// First and last bytes of such a file.
const MAGIC: &[u8; 4] = b"PAR1";

/// Whether a file is meant to be one, by its name or its first bytes.
pub(super) fn is_one(path: &Path) -> std::io::Result<bool> {
    let mut head = [0; MAGIC.len()];
    let starts = File::open(path)?.read_exact(&mut head).is_ok() && head == *MAGIC;
    Ok(starts || path.extension().is_some_and(|extension| extension == "parquet"))
}

/// Reads a file whole.
pub(super) fn read(path: &Path, columns: &Columns) -> Result<Loaded, TaskError> {
    let broken = |what: String| {
        let what = format!("not a Parquet file that can be read: {what}");
        TaskError::File { path: path.to_owned(), what }
    };
    let file =
        File::open(path).map_err(|source| TaskError::Io { path: path.to_owned(), source })?;
    let reader =
        guarded(|| SerializedFileReader::new(file).map_err(|e| e.to_string())).map_err(broken)?;
    let mut rows =
        guarded(|| reader.get_row_iter(None).map_err(|e| e.to_string())).map_err(broken)?;
    let mut tasks = Gathered::new(path);
    for row in 1.. {
        let at = |what| TaskError::Row { path: path.to_owned(), row, what };
        let next = guarded(|| rows.next().transpose().map_err(|e| e.to_string())).map_err(at)?;
        let Some(next) = next else { break };
        let task = columns.task(object(&next), &tasks.default_id()).map_err(at)?;
        tasks.add(task).map_err(at)?;
    }
    Ok(Loaded { tasks: tasks.all()?, remarks: Vec::new() })
}

/// The reader of Parquet may panic at damaged bytes; that is a finding about the file.
fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err("it is damaged: its reader broke off".to_owned()))
}

fn object(row: &Row) -> Map<String, Value> {
    row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
}

/// Some writers do not mark texts as such: bytes that are a text are read as one.
fn value(field: &Field) -> Value {
    match field {
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => text.into(),
            Err(_) => field.to_json_value(),
        },
        field => field.to_json_value(),
    }
}

#[cfg(test)]
mod tests;
