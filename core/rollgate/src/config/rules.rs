//! Rules that can be read and cannot be used: told with the line they stand in.

use std::slice::from_ref;

use rollgate_pipeline::exchange::rule_set;
use rollgate_pipeline::scene::SceneSet;
use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::raw::RawSessions;

/// Checks each rule by itself. Whether rules of one list go together is seen when they are settled.
pub(super) fn check(path: &str, text: &str, sessions: &RawSessions) -> Result<(), ConfigError> {
    let wrong = |list: &str, at: usize, key: &str, message: String| ConfigError::Parse {
        path: path.to_owned(),
        line: line(text, list, at, key).unwrap_or(1),
        message: format!("sessions.{list}: {message}"),
    };
    for (at, rule) in sessions.rules.iter().enumerate() {
        rule_set(None, from_ref(rule), &[])
            .map_err(|message| wrong("rules", at, "pattern", message))?;
    }
    for (at, rule) in sessions.scenes.iter().enumerate() {
        SceneSet::for_session(None, from_ref(rule), &[]).map_err(|error| {
            wrong("scenes", at, error.key().unwrap_or("name"), error.to_string())
        })?;
    }
    Ok(())
}

/// The line of a rule's key, or of the first of its keys; from 1.
fn line(text: &str, list: &str, at: usize, key: &str) -> Option<usize> {
    let file = DeValue::Table(DeTable::parse(text).ok()?.into_inner());
    let rule = file.get("sessions")?.get_ref().get(list)?.get_ref().get(at)?.get_ref();
    // `header.NAME` is a table in a table.
    let (outer, inner) = key.split_once('.').unwrap_or((key, key));
    let when = || rule.get("when").and_then(|when| when.get_ref().get(outer));
    let value = rule.get(outer).or_else(when);
    let value = value.map(|outer| outer.get_ref().get(inner).unwrap_or(outer));
    let first = || rule.as_table()?.values().min_by_key(|value| value.span().start);
    let at = value.or_else(first)?.span().start;
    Some(text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1)
}
