//! Elements: what matching walks over, and which differences between two messages do not count.
//!
//! Ignored always: outer white space, CRLF, empty messages, consecutive assistant messages split or
//! joined, reasoning present or absent, tool-call ids (a result counts by the position of its
//! call), key order, spacing and number spelling of tool arguments.

use blake3::Hasher;
use serde_json::Value;

use super::Digest;
use crate::turn::{Message, Role, ToolCall};

/// One normalised message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element {
    /// Loose digest: equal for messages that mean the same.
    pub digest: Digest,
    /// Who speaks.
    pub role: Role,
    /// Index of the first message that it folds.
    pub first_message: usize,
    /// What tells it from others of the same digest.
    pub evidence: Evidence,
}

/// What an assistant element says beyond its meaning. Two answers may mean the same; which of them
/// an agent goes on from shows in what it echoes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Evidence {
    /// Digest of the ids of its tool calls, where it has any.
    pub call_ids: Option<Digest>,
    /// Digest of its reasoning, where it has some.
    pub reasoning: Option<Digest>,
}

impl Evidence {
    /// Of an assistant element with these calls and this reasoning.
    pub fn new<'a>(
        calls: impl Iterator<Item = &'a ToolCall>,
        reasoning: impl Iterator<Item = &'a str>,
    ) -> Self {
        let digest = |texts: Vec<Vec<u8>>| {
            let mut hasher = Hasher::new();
            texts.iter().for_each(|text| add_bytes(&mut hasher, text));
            texts.iter().any(|text| !text.is_empty()).then(|| Digest::of(&hasher))
        };
        Self {
            call_ids: digest(calls.map(|call| id_core(&call.id)).collect()),
            reasoning: digest(reasoning.map(|text| text.trim().as_bytes().to_vec()).collect()),
        }
    }

    /// How much of what `echoed` says this one confirms; what is missing there says nothing.
    pub fn confirms(&self, echoed: &Evidence) -> u32 {
        let same = |ours: Option<Digest>, theirs: Option<Digest>| {
            u32::from(theirs.is_some() && ours == theirs)
        };
        2 * same(self.call_ids, echoed.call_ids) + same(self.reasoning, echoed.reasoning)
    }
}

/// Folds messages to elements.
pub fn fold(messages: &[Message]) -> Vec<Element> {
    let mut elements = Vec::with_capacity(messages.len());
    let mut calls: Vec<&ToolCall> = Vec::new();
    let mut results = 0;
    let mut at = 0;
    while at < messages.len() {
        let first_message = at;
        let role = messages[at].role;
        let mut evidence = Evidence::default();
        let digest = match role {
            Role::Assistant => {
                let run = assistant_run(&messages[at..]);
                at += run.len();
                calls = run.iter().flat_map(|message| &message.tool_calls).collect();
                results = 0;
                let reasoning = run.iter().filter_map(|message| message.reasoning.as_deref());
                evidence = Evidence::new(calls.iter().copied(), reasoning);
                assistant_digest(run)
            }
            Role::Tool => {
                at += 1;
                results += 1;
                Some(result_digest(&messages[first_message], &calls, results - 1))
            }
            Role::System | Role::Developer | Role::User => {
                at += 1;
                text_digest(&messages[first_message])
            }
        };
        elements.extend(digest.map(|digest| Element { digest, role, first_message, evidence }));
    }
    elements
}

/// Digest of an assistant element with this text and these calls; `None` when it is empty, since
/// an empty message vanishes.
pub fn answer_digest(content: &str, tool_calls: &[ToolCall]) -> Option<Digest> {
    let mut message = Message::text(Role::Assistant, content);
    message.tool_calls = tool_calls.to_vec();
    assistant_digest(std::slice::from_ref(&message))
}

/// Assistant messages that follow each other, empty ones among them.
fn assistant_run(messages: &[Message]) -> &[Message] {
    let end = messages.iter().position(|message| message.role != Role::Assistant);
    &messages[..end.unwrap_or(messages.len())]
}

fn assistant_digest(run: &[Message]) -> Option<Digest> {
    let mut hasher = start(Role::Assistant);
    let joined;
    let text = match run {
        [only] => only.content.as_str(),
        several => {
            joined = several.iter().map(|message| message.content.as_str()).collect::<String>();
            &joined
        }
    };
    let mut empty = add_text(&mut hasher, text);
    for call in run.iter().flat_map(|message| &message.tool_calls) {
        empty = false;
        add_bytes(&mut hasher, call.name.as_bytes());
        add_bytes(&mut hasher, canonical_arguments(&call.arguments).as_bytes());
    }
    (!empty).then(|| Digest::of(&hasher))
}

fn text_digest(message: &Message) -> Option<Digest> {
    let mut hasher = start(message.role);
    let empty = add_text(&mut hasher, &message.content);
    hasher.update(&message.media_dropped.to_le_bytes());
    (!empty || message.media_dropped > 0).then(|| Digest::of(&hasher))
}

/// A result counts by the place of its call among the calls before it; one that answers no call of
/// theirs, by its own place among the results.
fn result_digest(message: &Message, calls: &[&ToolCall], place: usize) -> Digest {
    let id = message.tool_call_id.as_deref().unwrap_or_default();
    let called = calls.iter().position(|call| same_call_id(&call.id, id));
    let mut hasher = start(Role::Tool);
    hasher.update(&(called.unwrap_or(place) as u64).to_le_bytes());
    add_text(&mut hasher, &message.content);
    hasher.update(&message.media_dropped.to_le_bytes());
    Digest::of(&hasher)
}

/// Agents rewrite ids to fit alphabets of their own; letters and digits survive.
fn same_call_id(left: &str, right: &str) -> bool {
    left == right || (!id_core(left).is_empty() && id_core(left) == id_core(right))
}

fn id_core(id: &str) -> Vec<u8> {
    id.bytes().filter(u8::is_ascii_alphanumeric).collect()
}

fn start(role: Role) -> Hasher {
    let mut hasher = Hasher::new();
    add_bytes(&mut hasher, role.name().as_bytes());
    hasher
}

fn add_bytes(hasher: &mut Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// Adds text without outer white space and with LF line ends; says whether nothing was left.
fn add_text(hasher: &mut Hasher, text: &str) -> bool {
    let text = text.trim();
    if text.contains('\r') {
        add_bytes(hasher, text.replace("\r\n", "\n").as_bytes());
    } else {
        add_bytes(hasher, text.as_bytes());
    }
    text.is_empty()
}

/// Arguments in one spelling: keys sorted, no spaces, whole numbers without fraction. Text that is
/// not JSON stands for itself.
fn canonical_arguments(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        // A number beyond what is read exactly must not make two calls equal.
        Ok(_) if has_long_number(arguments) => arguments.trim().to_owned(),
        Ok(value) => {
            let mut out = String::with_capacity(arguments.len());
            write_canonical(&value, &mut out);
            out
        }
        Err(_) if arguments.trim().is_empty() => "{}".to_owned(),
        Err(_) => arguments.trim().to_owned(),
    }
}

fn has_long_number(text: &str) -> bool {
    text.as_bytes()
        .chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
        .any(|run| run.len() > LONG_NUMBER_DIGITS && run[0].is_ascii_digit())
}

/// Numbers of up to this many digits survive a 64-bit float.
const LONG_NUMBER_DIGITS: usize = 15;

pub(super) fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for key in keys {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(&map[key], out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => {
                out.push_str(&(float as i64).to_string());
            }
            _ => out.push_str(&number.to_string()),
        },
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
    }

    fn assistant(content: &str, tool_calls: Vec<ToolCall>) -> Message {
        Message { tool_calls, ..Message::text(Role::Assistant, content) }
    }

    fn result(id: &str, content: &str) -> Message {
        Message { tool_call_id: Some(id.into()), ..Message::text(Role::Tool, content) }
    }

    fn digests(messages: &[Message]) -> Vec<Digest> {
        fold(messages).into_iter().map(|element| element.digest).collect()
    }

    fn same(left: &[Message], right: &[Message]) {
        assert_eq!(digests(left), digests(right), "{left:?}\n{right:?}");
    }

    fn differ(left: &[Message], right: &[Message]) {
        assert_ne!(digests(left), digests(right), "{left:?}\n{right:?}");
    }

    #[test]
    fn what_does_not_count() {
        let user = |text: &str| Message::text(Role::User, text);
        same(&[user("a\r\nb ")], &[user("\na\nb")]);
        same(&[user("a"), user("  ")], &[user("a")]);
        same(&[assistant("a", vec![]), assistant("b", vec![])], &[assistant("ab", vec![])]);
        let thinking = Message { reasoning: Some("hm".into()), ..assistant("a", vec![]) };
        same(&[thinking], &[assistant("a", vec![])]);
        same(
            &[assistant("", vec![call("1", "f", r#"{"a": 1.0, "b": [true]}"#)])],
            &[assistant(" ", vec![call("2", "f", r#"{"b":[true],"a":1}"#)])],
        );
        same(
            &[assistant("", vec![call("1", "f", "")])],
            &[assistant("", vec![call("1", "f", "{}")])],
        );
    }

    #[test]
    fn what_counts() {
        let user = |text: &str| Message::text(Role::User, text);
        differ(&[user("a b")], &[user("a  b")]);
        differ(&[user("a")], &[Message::text(Role::System, "a")]);
        differ(&[assistant("a", vec![])], &[assistant("a", vec![call("1", "f", "{}")])]);
        differ(
            &[assistant("", vec![call("1", "f", r#"{"a":1}"#)])],
            &[assistant("", vec![call("1", "f", r#"{"a":"1"}"#)])],
        );
        differ(&[user("ab"), user("c")], &[user("a"), user("bc")]);
    }

    #[test]
    fn results_count_by_the_place_of_their_call() {
        let calls = || assistant("", vec![call("call_1", "f", "{}"), call("call-2", "g", "{}")]);
        same(
            &[calls(), result("call_1", "x"), result("call_2", "y")],
            &[calls(), result("call1", "x"), result("call-2", "y")],
        );
        differ(
            &[calls(), result("call_1", "x"), result("call_2", "y")],
            &[calls(), result("call_2", "x"), result("call_1", "y")],
        );
        same(&[result("lost", "x")], &[result("gone", "x")]);
    }

    #[test]
    fn an_answer_is_found_again_when_it_comes_back() {
        let calls = vec![call("rg1", "bash", r#"{"command":"ls"}"#)];
        let back = assistant("look\n", vec![call("other", "bash", r#"{ "command": "ls" }"#)]);
        assert_eq!(answer_digest("look", &calls), Some(digests(&[back])[0]));
        assert_eq!(answer_digest(" ", &[]), None);
    }

    #[test]
    fn long_numbers_are_compared_digit_by_digit() {
        let with = |n: &str| assistant("", vec![call("1", "f", &format!(r#"{{"n":{n}}}"#))]);
        differ(&[with("12345678901234567890123")], &[with("12345678901234567890124")]);
        same(&[with("12345678901234567890123")], &[with("12345678901234567890123")]);
    }

    #[test]
    fn an_element_knows_its_first_message() {
        let messages = [
            Message::text(Role::User, "q"),
            assistant("", vec![]),
            assistant("a", vec![]),
            Message::text(Role::User, "r"),
        ];
        let firsts: Vec<_> = fold(&messages).iter().map(|element| element.first_message).collect();
        assert_eq!(firsts, [0, 1, 3]);
    }
}
