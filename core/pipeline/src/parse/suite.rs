//! Every fault case of tool calls and thoughts, for every family it applies to.
//!
//! A [`Dialect`] says how a family spells a thought and a call. A case is written once, in those
//! words, and is parsed in every cut into tokens.

mod calls;
mod dialects;
mod fuzz;
mod good;
mod properties;
mod thoughts;

use serde_json::{Value, json};

pub(super) use dialects::of as dialect;

use super::Parsed;
use super::fake::{Case, Fake};
use crate::render::Family;
use crate::turn::Tool;

/// What is expected of a reply: reasoning, content, calls as `name arguments`, remarks. A leading
/// `!` among the remarks stands for `ill_formed`.
pub(super) type Expected<'a> = (Option<&'a str>, &'a str, &'a [&'a str], &'a str);

/// How values of calls are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Values {
    /// The arguments are one JSON object: the model's own bytes are kept.
    Json,
    /// Each value is plain text, typed by the tool's schema.
    Text,
}

/// How a family writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    pub(super) family: Family,
    /// Added tokens of its vocabulary.
    pub(super) added: &'static [&'static str],
    /// The token that ends a turn.
    pub(super) close: &'static str,
    /// The end of a prompt that opens no thought.
    pub(super) prompt: &'static str,
    /// The end of a prompt that opens a thought.
    pub(super) thinking_prompt: Option<&'static str>,
    /// What stands before and after a thought.
    pub(super) thought: Option<[&'static str; 2]>,
    /// An earlier turn whose thought is finished, and one whose thought never was.
    pub(super) past: Option<[&'static str; 2]>,
    /// What stands around a text: as the whole answer, before a call, behind a call.
    pub(super) answer: [&'static str; 2],
    pub(super) before: [&'static str; 2],
    pub(super) behind: [&'static str; 2],
    pub(super) values: Values,
    /// Calls with these names and arguments.
    pub(super) calls: fn(&[(&str, Value)]) -> String,
    /// A marker that a call begins with, where there is one that cannot begin anything else.
    pub(super) open: Option<&'static str>,
    /// A text that ends within a call.
    pub(super) cut: &'static str,
}

/// Longer tokens that cut texts in awkward places.
const WORDS: [&str; 12] = [
    "}}\n",
    "\n\n",
    "\"name\":",
    "}]",
    "{\"",
    "\":",
    "END of",
    "<|>",
    "caf\u{e9}",
    "</",
    "func",
    " to=",
];

/// The tools of the cases.
pub(super) fn tools() -> Vec<Tool> {
    let tool = |name: &str, properties: Value| {
        let parameters = json!({"type": "object", "properties": properties});
        json!({"type": "function", "function": {"name": name, "parameters": parameters}})
    };
    vec![
        tool(
            "f",
            json!({
                "a": {"type": "integer"},
                "s": {"type": "string"},
                "zip": {"type": "string"},
                "n": {"type": "integer"},
                "b": {"type": "boolean"},
                "arr": {"type": "array"},
                "loc": {"anyOf": [{"type": "object"}, {"type": "null"}]},
                "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "limit": {"type": "integer"},
                "note": {"type": "string"},
            }),
        ),
        tool("exec", json!({"c": {"type": "string"}})),
    ]
}

impl Dialect {
    pub(super) fn fake(&self) -> Fake {
        Fake::new(self.added, &WORDS)
    }

    /// One call.
    pub(super) fn call(&self, name: &str, arguments: Value) -> String {
        (self.calls)(&[(name, arguments)])
    }

    /// An answer that is a text.
    pub(super) fn text(&self, text: &str) -> String {
        around(self.answer, text)
    }

    /// The text with its markers spelled by ordinary tokens.
    pub(super) fn in_letters(&self, text: &str) -> String {
        let mut spelled = String::new();
        for (at, letter) in text.char_indices() {
            if self.added.iter().any(|added| text[at..].starts_with(added)) {
                spelled.push('~');
            }
            spelled.push(letter);
        }
        spelled
    }

    /// The reply to a text, the same in every cut.
    pub(super) fn parse_with(&self, prompt: &str, tools: &[Tool], output: &str) -> Parsed {
        let Dialect { family, close, .. } = *self;
        Case { family, fake: self.fake(), close, prompt, tools }.every_cut(output)
    }

    pub(super) fn parse(&self, output: &str) -> Parsed {
        self.parse_with(self.prompt, &tools(), output)
    }

    /// The reply to a text that a stop text ended.
    pub(super) fn stopped(&self, output: &str, stop: &str) -> Parsed {
        let Dialect { family, close, prompt, .. } = *self;
        let (fake, tools) = (self.fake(), tools());
        let ids = fake.bytes(output.as_bytes());
        Case { family, fake: fake.clone(), close, prompt, tools: &tools }.run(
            &fake,
            &ids,
            Some(stop),
        )
    }

    pub(super) fn check(&self, output: &str, expected: Expected<'_>) {
        self.check_from(self.prompt, output, expected);
    }

    pub(super) fn check_from(&self, prompt: &str, output: &str, expected: Expected<'_>) {
        compare(self.family, output, &self.parse_with(prompt, &tools(), output), expected);
    }
}

/// Compares a reply with what is expected of it.
pub(super) fn compare(family: Family, output: &str, parsed: &Parsed, expected: Expected<'_>) {
    let reply = &parsed.reply;
    let calls = written(parsed);
    let sign = if reply.ill_formed { "!" } else { "" };
    let remarks = format!("{sign}{}", reply.remarks.join(" "));
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let got = (reply.reasoning.as_deref(), reply.content.as_str(), &calls[..], remarks.as_str());
    assert_eq!(got, expected, "{family:?}: {output}");
}

/// Calls as `name arguments`.
pub(super) fn written(parsed: &Parsed) -> Vec<String> {
    parsed.reply.tool_calls.iter().map(|c| format!("{} {}", c.name, c.arguments)).collect()
}

/// Calls as names and values.
pub(super) fn valued(parsed: &Parsed) -> Vec<(String, Value)> {
    let value = |json: &str| serde_json::from_str(json).expect("arguments are JSON");
    let calls = parsed.reply.tool_calls.iter();
    calls.map(|call| (call.name.clone(), value(&call.arguments))).collect()
}

/// A text between two others.
pub(super) fn around([before, behind]: [&str; 2], text: &str) -> String {
    format!("{before}{text}{behind}")
}
