//! Rows of any table, as tasks: which column holds what.

use std::str::FromStr;

use serde_json::{Map, Value};

use super::{Task, parse};
use crate::near::nearest;

/// Which column becomes which key of a task: `prompt=instruction,extra.repo=metadata.repo,*=metadata`.
///
/// A dot leads into a structure, on both sides. `*` is every column that is not named and is no key
/// of a task. Columns that are named like a key of a task need no entry; all others are left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Columns(Vec<(String, String)>);

/// Why a column map is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("column map: {0}")]
pub struct ColumnError(String);

impl FromStr for Columns {
    type Err = ColumnError;

    fn from_str(text: &str) -> Result<Self, ColumnError> {
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        pairs.map(pair).collect::<Result<Vec<_>, _>>().map(Self)
    }
}

fn pair(text: &str) -> Result<(String, String), ColumnError> {
    let Some((column, key)) = text.split_once('=') else {
        return Err(ColumnError(format!("`{text}` is not COLUMN=KEY")));
    };
    let (column, key) = (column.trim(), key.trim());
    if column.is_empty() || key.split('.').any(str::is_empty) {
        return Err(ColumnError(format!("`{text}` has an empty side")));
    }
    let first = key.split('.').next().unwrap_or_default();
    if !parse::TASK.contains(&first) {
        let near = nearest(first, &parse::TASK)
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return Err(ColumnError(format!("a task has no key `{first}`{near}")));
    }
    if column == "*" && key != "metadata" {
        return Err(ColumnError("`*` can only become `metadata`".to_owned()));
    }
    Ok((column.to_owned(), key.to_owned()))
}

impl Columns {
    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The task of a row. `id` is its id where the row has none.
    pub(super) fn task(&self, row: Map<String, Value>, id: &str) -> Result<Task, String> {
        let mut task = Map::new();
        for (column, value) in &row {
            let named = self.0.iter().any(|(from, _)| top(&row, from) == *column);
            let set_anew = self.0.iter().any(|(_, key)| key == column);
            if parse::TASK.contains(&column.as_str()) && !named && !set_anew {
                set(&mut task, column, value.clone())?;
            }
        }
        for (column, key) in &self.0 {
            if column == "*" {
                for (name, value) in &row {
                    let named = self.0.iter().any(|(from, _)| top(&row, from) == *name);
                    if !named && !parse::TASK.contains(&name.as_str()) {
                        insert(&mut task, &["metadata", name], value.clone())?;
                    }
                }
                continue;
            }
            let value = find(&row, column).ok_or_else(|| absent(&row, column))?;
            set(&mut task, key, value.clone())?;
        }
        task.entry("task_id").or_insert_with(|| id.into());
        parse::from_object(task)
    }
}

/// The column that a path begins with: a name may itself have dots.
fn top<'a>(row: &Map<String, Value>, path: &'a str) -> &'a str {
    if row.contains_key(path) { path } else { path.split('.').next().unwrap_or(path) }
}

fn find<'a>(row: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(value) = row.get(path) {
        return Some(value);
    }
    let mut parts = path.split('.');
    let first = row.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

fn absent(row: &Map<String, Value>, path: &str) -> String {
    let names: Vec<&str> = row.keys().map(String::as_str).collect();
    match nearest(path, &names) {
        Some(near) => format!("there is no column `{path}`; did you mean `{near}`?"),
        None => format!("there is no column `{path}`; columns: {}", names.join(", ")),
    }
}

/// Sets a key to a column's value, in the shape that the key wants. A null is no value.
fn set(task: &mut Map<String, Value>, key: &str, value: Value) -> Result<(), String> {
    let value = match (key, value) {
        (_, Value::Null) => return Ok(()),
        ("instruction", Value::Array(messages)) => instruction(&messages)?.into(),
        ("task_id", Value::Number(number)) => number.to_string().into(),
        (key, Value::String(text))
            if structured(key) && text.trim_start().starts_with(['{', '[']) =>
        {
            serde_json::from_str(&text).map_err(|e| format!("`{key}` holds broken JSON: {e}"))?
        }
        (_, value) => value,
    };
    let path: Vec<&str> = key.split('.').collect();
    insert(task, &path, value)
}

/// Keys whose value is an object or a list; tables often hold those as JSON in a text.
fn structured(key: &str) -> bool {
    let plain = ["task_id", "instruction", "workdir", "timeout_s", "history", "retention"];
    !key.contains('.') && !plain.contains(&key)
}

fn insert(task: &mut Map<String, Value>, path: &[&str], value: Value) -> Result<(), String> {
    match path {
        [] => Ok(()),
        [key] => match task.insert((*key).to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(format!("`{key}` is set twice, or as a whole and in parts")),
        },
        [key, rest @ ..] => {
            let inner = task.entry(*key).or_insert_with(|| Map::new().into());
            match inner.as_object_mut() {
                Some(inner) => insert(inner, rest, value),
                None => Err(format!("`{key}` is set as a whole and in parts")),
            }
        }
    }
}

/// The text of a chat that an agent has not begun to answer.
fn instruction(messages: &[Value]) -> Result<String, String> {
    let mut texts = Vec::new();
    for message in messages {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        if !["user", "system", "developer"].contains(&role) {
            return Err(format!(
                "`instruction` is a chat with a message of role {role:?}; only the user's and the \
                 system's words can be an instruction"
            ));
        }
        let text = message.get("content").and_then(Value::as_str);
        texts.push(text.ok_or("`instruction` is a chat with a content that is no text")?);
    }
    Ok(texts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(map: &str, row: Value) -> Result<Task, String> {
        let Value::Object(row) = row else { panic!("a row is an object") };
        map.parse::<Columns>().map_err(|e| e.to_string())?.task(row, "set-000007")
    }

    #[test]
    fn columns_become_keys() {
        let row = json!({
            "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go."}],
            "extra_info": {"index": 12, "split": "train"},
            "reward_model": {"ground_truth": "42"},
            "env": "{\"A\": \"b\"}",
            "unused": null,
            "difficulty": 3,
        });
        let map = "prompt=instruction, extra_info.index=task_id, \
                   reward_model.ground_truth=metadata.truth, *=metadata";
        let task = task(map, row).unwrap();
        assert_eq!((task.task_id.as_str(), task.instruction.as_str()), ("12", "Be brief.\n\nGo."));
        assert_eq!(task.env["A"], "b");
        assert_eq!(
            Value::Object(task.metadata),
            json!({"truth": "42", "unused": null, "difficulty": 3})
        );
    }

    #[test]
    fn what_is_not_mapped_is_left_out_and_a_row_has_an_id() {
        let task = task("q=instruction", json!({"q": "x", "patch": "secret"})).unwrap();
        assert_eq!((task.task_id.as_str(), task.metadata.len()), ("set-000007", 0));
    }

    #[track_caller]
    fn refuse(map: &str, row: Value, expected: &str) {
        let error = task(map, row).unwrap_err();
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
    }

    #[test]
    fn an_error_names_the_column_or_the_key() {
        refuse("prompt", json!({}), "`prompt` is not COLUMN=KEY");
        refuse("=instruction", json!({}), "has an empty side");
        refuse("q=instructoin", json!({}), "no key `instructoin`; did you mean `instruction`?");
        refuse("*=env", json!({}), "`*` can only become `metadata`");
        refuse("promt=instruction", json!({"prompt": "x"}), "did you mean `prompt`?");
        refuse("a.b=instruction", json!({"a": 1, "c": 2}), "there is no column `a.b`");
        refuse("q=instruction", json!({"q": null}), "missing field `instruction`");
        refuse("q=instruction", json!({"q": 3}), "invalid type");
        refuse(
            "q=instruction",
            json!({"q": [{"role": "assistant", "content": "x"}]}),
            "a message of role \"assistant\"",
        );
        refuse("q=instruction", json!({"q": "x", "env": "{"}), "`env` holds broken JSON");
        refuse(
            "q=instruction,q=metadata.q,r=metadata",
            json!({"q": "x", "r": "{}"}),
            "`metadata` is set twice",
        );
    }
}
