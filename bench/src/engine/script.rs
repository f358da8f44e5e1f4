//! What a scripted engine says: a JSON file, read strictly.
//!
#![doc = include_str!("script/help.md")]

mod demo;
mod fault;
mod when;

use std::path::Path;

use rollgate_pipeline::turn::Finish;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

pub use fault::ScriptedFault;
pub use when::{Parts, When};

/// How a script is written, for people.
pub const SCRIPT_HELP: &str = include_str!("script/help.md");

/// How many tokens `"non_canonical": true` says in two pieces.
const SPLITS: u32 = 2;

/// What a scripted engine says; see the module's documentation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Replies, chosen by match or by turn.
    #[serde(default)]
    pub replies: Vec<ScriptedReply>,
    /// The reply where no other fits.
    #[serde(default)]
    pub otherwise: Option<ScriptedReply>,
    /// After this many generation calls the weights have this label; ascending.
    #[serde(default)]
    pub version_bumps: Vec<(u64, String)>,
    /// Whether an id outside the vocabulary is answered where the real engine would die.
    #[serde(default)]
    pub forgiving: bool,
}

/// One reply of a script.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedReply {
    /// When this reply is given; without it: by turn.
    #[serde(rename = "match")]
    pub when: Option<When>,
    /// Reasoning, without its markers.
    pub reasoning: Option<String>,
    /// Text for the reader.
    pub content: Option<String>,
    /// Tool calls, in order.
    pub tool_calls: Vec<ScriptedCall>,
    /// Text that is said as it is, instead of the three above.
    pub raw: Option<String>,
    /// Why the generation ends.
    #[serde(deserialize_with = "some_finish")]
    pub finish: Option<Finish>,
    /// How many tokens are said in two pieces.
    #[serde(deserialize_with = "splits")]
    pub non_canonical: u32,
    /// Wait before the answer, in milliseconds.
    pub delay_ms: u64,
    /// What goes wrong with the answer.
    pub fault: Option<ScriptedFault>,
    /// The fault is for the first so many calls that get this reply; `None`: for all.
    pub times: Option<u32>,
    /// Labels of the weights at the first, second, … call that gets this reply; the last one stays.
    /// Empty: those of the whole script.
    pub versions: Vec<String>,
}

/// A tool call to say.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// Name of the function.
    pub name: String,
    /// Arguments, said in this order.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// Why a script cannot be played. It is always the script's author who has to act.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("the script {path} cannot be read: {reason}")]
    Unreadable {
        /// Path as given.
        path: String,
        /// What the system said.
        reason: std::io::Error,
    },
    /// It is not JSON, or not of the script's form.
    #[error("the script is not of the expected form at {at}: {reason}")]
    Form {
        /// Path within the JSON, such as `replies[2].fault`.
        at: String,
        /// What the reader said.
        reason: serde_json::Error,
    },
    /// It reads, but contradicts itself or the model.
    #[error("{at} of the script: {reason}")]
    Sense {
        /// Which part, such as `replies[2]`.
        at: String,
        /// What is wrong and what to do.
        reason: String,
    },
}

/// Reads and checks a script file.
pub fn read_script(path: &Path) -> Result<Script, ScriptError> {
    let text = std::fs::read_to_string(path)
        .map_err(|reason| ScriptError::Unreadable { path: path.display().to_string(), reason })?;
    parse_script(&text)
}

/// Reads and checks a script.
pub fn parse_script(text: &str) -> Result<Script, ScriptError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let script: Script = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        ScriptError::Form { at: error.path().to_string(), reason: error.into_inner() }
    })?;
    reader.end().map_err(|reason| ScriptError::Form { at: "its end".to_owned(), reason })?;
    script.check()?;
    Ok(script)
}

impl Script {
    /// Whether the script makes sense by itself.
    pub fn check(&self) -> Result<(), ScriptError> {
        let sense =
            |at: String, reason: &str| Err(ScriptError::Sense { at, reason: reason.into() });
        if self.replies.is_empty() && self.otherwise.is_none() {
            return sense("the whole".into(), "there is no reply; add one to `replies`");
        }
        for (at, reply) in self.named_replies() {
            if let Some(reason) = reply.nonsense() {
                return sense(at, reason);
            }
        }
        if self.otherwise.as_ref().is_some_and(|reply| reply.when.is_some()) {
            return sense("otherwise".into(), "it cannot have a `match`; move it to `replies`");
        }
        if !self.version_bumps.is_sorted_by(|a, b| a.0 < b.0) {
            return sense("version_bumps".into(), "the numbers of calls must ascend");
        }
        Ok(())
    }

    /// Every reply with its name for messages; the index is the reply's place, `otherwise` last.
    pub(super) fn named_replies(&self) -> impl Iterator<Item = (String, &ScriptedReply)> {
        let listed =
            self.replies.iter().enumerate().map(|(n, reply)| (format!("replies[{n}]"), reply));
        listed.chain(self.otherwise.iter().map(|reply| ("otherwise".to_owned(), reply)))
    }

    /// The label of the weights at the call with this number, counted from 0.
    pub(super) fn version_at(&self, call: u64) -> Option<&str> {
        self.version_bumps.iter().rev().find(|bump| bump.0 <= call).map(|bump| bump.1.as_str())
    }
}

impl ScriptedReply {
    /// Why the generation ends.
    pub fn finish(&self) -> Finish {
        self.finish.unwrap_or(Finish::Stop)
    }

    fn nonsense(&self) -> Option<&'static str> {
        let said =
            self.reasoning.is_some() || self.content.is_some() || !self.tool_calls.is_empty();
        match () {
            () if self.raw.is_some() && said => {
                Some("`raw` stands alone: remove `reasoning`, `content` and `tool_calls`")
            }
            () if self.raw.is_none() && !said && self.fault.is_none() => {
                Some("it says nothing; give it `content`, `tool_calls` or `raw`")
            }
            () if self.times.is_some() && self.fault.is_none() => {
                Some("`times` limits a `fault`, and there is none")
            }
            () if self.when.as_ref().is_some_and(When::is_empty) => {
                Some("`match` is empty; give it `prompt_contains` or `turn`, or remove it")
            }
            () if self.when.as_ref().is_some_and(|when| when.nth == Some(0)) => {
                Some("`nth` counts from 1")
            }
            () => None,
        }
    }
}

fn some_finish<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Finish>, D::Error> {
    Finish::deserialize(from).map(Some)
}

fn splits<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "`non_canonical` is true, false or a number of tokens")]
    enum Form {
        Switch(bool),
        Number(u32),
    }
    Ok(match Form::deserialize(from)? {
        Form::Switch(true) => SPLITS,
        Form::Switch(false) => 0,
        Form::Number(number) => number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read() {
        let script = parse_script(
            r#"{"replies": [{"content": "a", "non_canonical": true},
                {"raw": "<think>", "finish": "length", "match": {"turn": 1}},
                {"content": "b", "fault": {"status": 503}, "times": 1}],
                "version_bumps": [[2, "v2"], [5, "v3"]]}"#,
        )
        .unwrap();
        assert_eq!(script.replies[0].non_canonical, 2);
        assert_eq!(script.replies[1].finish(), Finish::Length);
        let fault = script.replies[2].fault.as_ref();
        assert!(matches!(fault, Some(ScriptedFault::Status { status: 503, body: None })));
        let versions: Vec<_> = [0, 1, 2, 4, 5, 9].map(|call| script.version_at(call)).into();
        assert_eq!(versions, [None, None, Some("v2"), Some("v2"), Some("v3"), Some("v3")]);
    }

    #[test]
    fn what_is_wrong_with_a_script_is_said() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            let message = parse_script(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
        check(r#"{"replies": [{"contents": "a"}]}"#, "replies[0]");
        check(r#"{"replies": []}"#, "there is no reply");
        check(r#"{"replies": [{"content": "a", "raw": "b"}]}"#, "`raw` stands alone");
        check(
            r#"{"replies": [{"content": "a"}, {}]}"#,
            "replies[1] of the script: it says nothing",
        );
        check(r#"{"replies": [{"content": "a", "times": 2}]}"#, "`times`");
        check(r#"{"replies": [{"content": "a", "match": {}}]}"#, "`match` is empty");
        check(r#"{"replies": [{"content": "a", "match": {"nth": 0}}]}"#, "`nth` counts from 1");
        check(
            r#"{"replies": [{"content": "a", "match": {"last_contains": 3}}]}"#,
            "a text or a list of texts",
        );
        check(r#"{"replies": [{"content": "a", "finish": "eos"}]}"#, "replies[0].finish");
        check(r#"{"replies": [{"content": "a", "non_canonical": "yes"}]}"#, "a number of tokens");
        check(r#"{"replies": [{"content": "a", "fault": {}}]}"#, "exactly one");
        check(
            r#"{"replies": [{"content": "a", "fault": {"stall_ms": 1, "bad_id": true}}]}"#,
            "exactly one",
        );
        check(r#"{"replies": [{"content": "a", "fault": {"status": 99}}]}"#, "status");
        check(
            r#"{"replies": [{"content": "a"}], "version_bumps": [[2, "b"], [1, "a"]]}"#,
            "ascend",
        );
        check(r#"{"replies": [{"content": "a"}]} x"#, "its end");
        check(r#"{"otherwise": {"content": "a", "match": {"turn": 1}}}"#, "cannot have a `match`");
    }

    #[test]
    fn the_demo_script_makes_sense() {
        Script::demo().check().unwrap();
        assert!(Script::demo().named_replies().all(|(_, reply)| reply.non_canonical > 0));
    }
}
