//! Unknown keys, told with the nearest known one.

use serde_json::{Map, Value};

/// An object's first key that is not in `known`, as a message; `None` when all are known.
pub(crate) fn unknown_key(object: &Map<String, Value>, known: &[&str]) -> Option<String> {
    let key = object.keys().find(|key| !known.contains(&key.as_str()))?;
    Some(match nearest(key, known) {
        Some(near) => format!("unknown key `{key}`; did you mean `{near}`?"),
        None => format!("unknown key `{key}`; known keys: {}", known.join(", ")),
    })
}

pub(crate) fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().map(|name| (strsim::jaro_winkler(key, name), *name));
    let (score, name) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score >= 0.75).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: Option<&str>) {
        let object = serde_json::from_str(json).unwrap();
        let message = unknown_key(&object, &["instruction", "limits", "env"]);
        assert_eq!(message.as_deref(), expected);
    }

    #[test]
    fn names_the_near_key_or_lists_all() {
        check(r#"{"env": 1, "limits": 2}"#, None);
        check(
            r#"{"env": 1, "instructoin": 2}"#,
            Some("unknown key `instructoin`; did you mean `instruction`?"),
        );
        check(r#"{"zzz": 2}"#, Some("unknown key `zzz`; known keys: instruction, limits, env"));
    }
}
