//! A reward from an evaluation command: its reward file, else its exit code.
//!
//! The command finds the path to write in [`REWARD_FILE_ENV`]: a plain number, or JSON with the key
//! `reward` and named parts, either beside it or in an object `parts`. Without a file, exit code 0 is 1.0 and 1 is 0.0. All else is an error: a missing
//! or broken reward is never 0.

use rollgate_backends::Exit;
use rollgate_pipeline::record::Reward;
use serde_json::Value;

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

fn from_file(bytes: &[u8]) -> Result<Reward, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?.trim();
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if !text.starts_with('{') {
        let scalar = text.parse().map_err(|_| format!("holds no number: {:?}", head(text)))?;
        return Ok(Reward { reward: Some(finite("it", scalar)?), parts: Default::default() });
    }
    let object: serde_json::Map<String, Value> =
        serde_json::from_str(text).map_err(|e| format!("is not JSON: {e}"))?;
    let mut reward = Reward { reward: None, parts: Default::default() };
    let inner = object.get("parts").and_then(Value::as_object);
    let outer = object.iter().filter(|(key, _)| inner.is_none() || *key != "parts");
    for (key, value) in outer {
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
    if reward.reward.is_none() {
        return Err("has no key `reward`".to_owned());
    }
    Ok(reward)
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
    fn other_keys_are_parts() {
        let reward = from_file(br#"{"reward": 0.5, "tests": 3, "style": 0.1}"#).unwrap();
        assert_eq!(reward.parts, [("tests".to_owned(), 3.0), ("style".to_owned(), 0.1)].into());
        let nested = from_file(br#"{"reward": 0.5, "parts": {"tests": 3, "style": 0.1}}"#).unwrap();
        assert_eq!(nested, reward);
    }
}
