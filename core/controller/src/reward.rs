//! A reward from an evaluation: a reward file, else an exit code, or a JSON answer.
//!
//! A command finds the path to write in [`REWARD_FILE_ENV`]: a plain number, or JSON with the key
//! `reward` and named parts, either beside it or in an object `parts`. Without a file, exit code 0
//! is 1.0 and 1 is 0.0. `"reward": null` says that there is none. All else is an error: a missing
//! or broken reward is never 0.

use rollgate_backends::Exit;
use rollgate_pipeline::record::Reward;
use serde_json::{Map, Value};

use crate::outcome::Reason;

/// Environment variable that holds the reward file's path.
pub const REWARD_FILE_ENV: &str = "ROLLGATE_REWARD_FILE";

/// The reward of an evaluation that ended so and left this reward file.
pub fn of(exit: &Exit, file: Option<&[u8]>) -> Result<Reward, Reason> {
    if exit.timed_out {
        return Err(Reason::new("evaluate_timeout", "the evaluation did not end in time"));
    }
    if let Some(bytes) = file {
        return from_file(bytes).map_err(|what| {
            Reason::new("reward_unusable", format_args!("the reward file {what}"))
        });
    }
    let scalar = match exit.code {
        Some(0) => 1.0,
        Some(1) => 0.0,
        Some(code) => {
            let what = format!("the evaluation exited with {code} and wrote no reward file");
            return Err(Reason::new("reward_missing", what));
        }
        None => {
            let what = "the evaluation was killed by a signal and wrote no reward file";
            return Err(Reason::new("reward_missing", what));
        }
    };
    Ok(Reward { reward: Some(scalar), parts: Default::default() })
}

/// The reward of a Harbor test script that ended so and left these files. The exit code is no
/// reward.
pub(crate) fn of_harbor(
    exit: &Exit,
    json: Option<&[u8]>,
    plain: Option<&[u8]>,
) -> Result<Reward, Reason> {
    if exit.timed_out {
        return Err(Reason::new("evaluate_timeout", "the evaluation did not end in time"));
    }
    let read = match (json, plain) {
        (Some(json), _) => ("reward.json", from_file(json).and_then(numbered)),
        (None, Some(plain)) => ("reward.txt", text(plain).and_then(scalar)),
        (None, None) => {
            let code = exit.code.map_or("a signal".to_owned(), |code| format!("code {code}"));
            let what =
                format!("the tests ended with {code} and wrote neither reward.json nor reward.txt");
            return Err(Reason::new("reward_missing", what));
        }
    };
    let (name, reward) = read;
    reward.map_err(|what| Reason::new("reward_unusable", format_args!("{name} {what}")))
}

/// The reward in a grader's JSON answer.
pub(crate) fn answered(answer: &Value) -> Result<Reward, String> {
    match answer {
        Value::Object(object) => from_object(object),
        other => Err(format!("is no JSON object: {}", head(&other.to_string()))),
    }
}

fn from_file(bytes: &[u8]) -> Result<Reward, String> {
    let text = text(bytes)?;
    if !text.starts_with('{') {
        return scalar(text);
    }
    let object: Map<String, Value> =
        serde_json::from_str(text).map_err(|e| format!("is not JSON: {e}"))?;
    from_object(&object)
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?.trim();
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(text) }
}

fn scalar(text: &str) -> Result<Reward, String> {
    let scalar = text.parse().map_err(|_| format!("holds no number: {:?}", head(text)))?;
    Ok(Reward { reward: Some(finite("it", scalar)?), parts: Default::default() })
}

fn numbered(reward: Reward) -> Result<Reward, String> {
    if reward.reward.is_some() { Ok(reward) } else { Err("has no number at `reward`".to_owned()) }
}

fn from_object(object: &Map<String, Value>) -> Result<Reward, String> {
    let mut reward = Reward { reward: None, parts: Default::default() };
    let inner = object.get("parts").and_then(Value::as_object);
    let outer = object.iter().filter(|(key, _)| inner.is_none() || *key != "parts");
    for (key, value) in outer {
        if key == "reward" && value.is_null() {
            continue;
        }
        let number = value.as_f64().ok_or_else(|| format!("has no number at `{key}`"))?;
        let number = finite(key, number)?;
        if key == "reward" {
            reward.reward = Some(number);
        } else {
            reward.parts.insert(key.clone(), number);
        }
    }
    for (key, value) in inner.into_iter().flatten() {
        let number = value.as_f64().ok_or_else(|| format!("has no number at `parts.{key}`"))?;
        reward.parts.insert(key.clone(), finite(key, number)?);
    }
    if object.contains_key("reward") {
        return Ok(reward);
    }
    let keys: Vec<&str> = object.keys().map(String::as_str).collect();
    Err(format!("has no key `reward`, only [{}]", head(&keys.join(", "))))
}

fn finite(what: &str, number: f64) -> Result<f64, String> {
    if number.is_finite() { Ok(number) } else { Err(format!("holds {number} at `{what}`")) }
}

fn head(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[track_caller]
    fn check(code: Option<i32>, file: Option<&str>, expected: Result<f64, &str>) {
        let exit = Exit {
            code,
            timed_out: false,
            stdout: Vec::new(),
            stderr: Vec::new(),
            cut_bytes: 0,
            took: Duration::ZERO,
        };
        let found = of(&exit, file.map(str::as_bytes));
        match (&found, expected) {
            (Ok(reward), Ok(expected)) => assert_eq!(reward.reward, Some(expected)),
            (Err(reason), Err(expected)) => {
                assert!(reason.to_string().contains(expected), "{reason}")
            }
            _ => panic!("{found:?} is not {expected:?}"),
        }
        let late = of(&Exit { timed_out: true, ..exit }, file.map(str::as_bytes));
        assert_eq!(late.unwrap_err().code, "evaluate_timeout");
    }

    #[test]
    fn exit_codes_count_only_without_a_file() {
        check(Some(0), None, Ok(1.0));
        check(Some(1), None, Ok(0.0));
        check(Some(2), None, Err("reward_missing"));
        check(Some(127), None, Err("exited with 127"));
        check(None, None, Err("signal"));
        check(Some(0), Some("0.25"), Ok(0.25));
        check(Some(3), Some(" -1 \n"), Ok(-1.0));
    }

    #[test]
    fn a_broken_file_is_never_zero() {
        for (file, what) in [
            ("", "is empty"),
            (" \n", "is empty"),
            ("NaN", "holds NaN"),
            ("inf", "holds inf"),
            ("1e999", "holds inf"),
            ("good", "holds no number"),
            ("{", "is not JSON"),
            ("{}", "has no key `reward`"),
            (r#"{"reward": NaN}"#, "is not JSON"),
            (r#"{"reward": "1"}"#, "no number at `reward`"),
            (r#"{"reward": 1, "tests": null}"#, "no number at `tests`"),
            (r#"{"reward": 1, "parts": {"a": "b"}}"#, "no number at `parts.a`"),
            (r#"{"score": 1}"#, "has no key `reward`"),
        ] {
            check(Some(0), Some(file), Err(what));
        }
    }

    #[test]
    fn row_39_no_reward_is_said_in_so_many_words() {
        let none = from_file(br#"{"reward": null, "parts": {"style": 1}}"#).unwrap();
        assert_eq!((none.reward, none.parts), (None, [("style".to_owned(), 1.0)].into()));
        assert!(answered(&Value::Null).unwrap_err().contains("is no JSON object: null"));
    }

    #[track_caller]
    fn harbor(code: i32, json: Option<&str>, plain: Option<&str>, expected: Result<f64, &str>) {
        let exit = Exit {
            code: Some(code),
            timed_out: false,
            stdout: Vec::new(),
            stderr: Vec::new(),
            cut_bytes: 0,
            took: Duration::ZERO,
        };
        let found = of_harbor(&exit, json.map(str::as_bytes), plain.map(str::as_bytes));
        match (found, expected) {
            (Ok(reward), Ok(expected)) => assert_eq!(reward.reward, Some(expected)),
            (Err(reason), Err(expected)) => {
                assert!(reason.to_string().contains(expected), "{reason}")
            }
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn row_40_a_harbor_reward_is_a_finite_number_in_a_file() {
        harbor(1, None, Some("1.0\n"), Ok(1.0));
        harbor(0, Some(r#"{"reward": 0.5, "speed": 2}"#), Some("1"), Ok(0.5));
        harbor(0, None, None, Err("reward_missing: the tests ended with code 0"));
        for (json, plain, what) in [
            (None, Some(""), "reward.txt is empty"),
            (None, Some("nan"), "reward.txt holds NaN"),
            (None, Some("-inf"), "reward.txt holds -inf"),
            (None, Some("one"), "reward.txt holds no number"),
            (None, Some(r#"{"reward": 1}"#), "reward.txt holds no number"),
            (Some(""), Some("1"), "reward.json is empty"),
            (Some(r#"{"reward": null}"#), Some("1"), "reward.json has no number at `reward`"),
            (Some(r#"{"a": 1, "b": 2}"#), None, "has no key `reward`, only [a, b]"),
            (Some(r#"{"reward": 1e999}"#), None, "reward.json is not JSON"),
        ] {
            harbor(0, json, plain, Err(what));
        }
    }

    proptest::proptest! {
        #[test]
        fn row_40_whatever_is_in_a_file_a_reward_is_finite(
            text in "[-+0-9a-zA-Z.\":{}, ]{0,40}|\\{\"reward\": ?(-?[0-9]{1,3}(e[0-9]{1,4})?|null|NaN)\\}",
        ) {
            for found in [
                from_file(text.as_bytes()),
                super::text(text.as_bytes()).and_then(scalar),
                serde_json::from_str(&text).map_err(|_| String::new()).and_then(|v| answered(&v)),
            ].into_iter().flatten() {
                proptest::prop_assert!(found.reward.is_none_or(f64::is_finite));
                proptest::prop_assert!(found.parts.values().all(|part| part.is_finite()));
                let said_none = found.reward.is_none();
                proptest::prop_assert!(!said_none || text.contains("null"), "{}", text);
            }
        }
    }

    #[test]
    fn other_keys_are_parts() {
        let reward = from_file(br#"{"reward": 0.5, "tests": 3, "style": 0.1}"#).unwrap();
        assert_eq!(reward.parts, [("tests".to_owned(), 3.0), ("style".to_owned(), 0.1)].into());
        let nested = from_file(br#"{"reward": 0.5, "parts": {"tests": 3, "style": 0.1}}"#).unwrap();
        assert_eq!(nested, reward);
    }
}
