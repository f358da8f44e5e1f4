//! A reply in the making: what a machine has gathered, and what holds for every family.
//!
//! Texts on both sides of calls are joined by one newline, and white space right before and after a
//! call is not part of the text. Everything else is kept as it came.

use super::bytes::{find, without_leading, without_trailing};
use super::call::{self, Written};
use super::{End, Parsed, Setting};
use crate::id::TokenId;
use crate::render::Tokenizer;
use crate::turn::{Reply, ToolCall};

/// What was gathered so far.
#[derive(Default)]
pub struct Draft {
    /// Text of thoughts.
    pub reasoning: Vec<u8>,
    /// Text for the reader.
    pub content: Vec<u8>,
    /// Calls, in order, each with the id that the model wrote for it.
    pub calls: Vec<(Written, Option<String>)>,
    /// Whether a thought is open.
    pub reasoning_open: bool,
    ill_formed: bool,
    remarks: Vec<&'static str>,
    after_call: bool,
}

impl Draft {
    /// Notes something that does not fit the grammar.
    pub fn fault(&mut self, remark: &'static str) {
        self.ill_formed = true;
        self.remark(remark);
    }

    /// Notes something worth knowing.
    pub fn remark(&mut self, remark: &'static str) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// Appends to the content.
    pub fn show(&mut self, bytes: &[u8]) {
        let rest = if self.after_call { bytes.trim_ascii_start() } else { bytes };
        if rest.is_empty() {
            return;
        }
        if self.after_call && !self.content.is_empty() {
            self.content.push(b'\n');
        }
        self.after_call = false;
        self.content.extend_from_slice(rest);
    }

    /// Appends to the content on a line of its own.
    pub fn show_apart(&mut self, bytes: &[u8]) {
        if !self.content.is_empty() && !bytes.is_empty() {
            self.content.push(b'\n');
        }
        self.after_call = false;
        self.content.extend_from_slice(bytes);
    }

    /// Appends a thought of its own.
    pub fn think(&mut self, bytes: &[u8]) {
        if !self.reasoning.is_empty() && !bytes.is_empty() {
            self.reasoning.push(b'\n');
        }
        self.reasoning.extend_from_slice(bytes);
    }

    /// Takes a call.
    pub fn call(&mut self, written: Written, id: Option<String>) {
        if written.as_string {
            self.remark("call_arguments_string");
        }
        self.calls.push((written, id));
        self.content.truncate(self.content.trim_ascii_end().len());
        self.after_call = true;
    }

    /// Takes a call that stands in a message of its own, so that the text before it is kept whole.
    pub fn call_apart(&mut self, written: Written) {
        if written.as_string {
            self.remark("call_arguments_string");
        }
        self.calls.push((written, None));
    }

    /// The reply. `openers` are the texts of markers that open a call: found in the content, they
    /// were spelled with ordinary tokens. `name_call` makes the id of a call.
    pub fn finish(
        mut self,
        setting: Setting<'_>,
        end: &End<'_>,
        openers: &[&str],
        name_call: impl Fn(usize, &str) -> String,
    ) -> Parsed {
        let unknown = |call: &(Written, _)| !call::offered(setting.tools, &call.0.name);
        if !setting.tools.is_empty() && self.calls.iter().any(unknown) {
            self.remark("unknown_tool");
        }
        let spelled = |opener: &&str| find(&self.content, opener.as_bytes()).is_some();
        if !self.ill_formed && openers.iter().any(spelled) {
            self.remark("marker_as_text");
        }
        let thought = without_leading(&self.reasoning, |b| b == b'\n');
        let thought = without_trailing(thought, |b| b == b'\n').to_vec();
        let reasoning = (!thought.trim_ascii().is_empty()).then(|| self.decoded(thought));
        let content = std::mem::take(&mut self.content);
        let content = self.decoded(content);
        let mut tool_calls: Vec<ToolCall> = Vec::with_capacity(self.calls.len());
        for (at, (written, id)) in self.calls.into_iter().enumerate() {
            let taken = |id: &String| tool_calls.iter().any(|call| call.id == *id);
            let id = id.filter(|id| !taken(id)).unwrap_or_else(|| name_call(at, end.call_seed));
            tool_calls.push(ToolCall { id, name: written.name, arguments: written.arguments });
        }
        Parsed {
            reply: Reply {
                reasoning,
                content,
                tool_calls,
                ill_formed: self.ill_formed,
                remarks: self.remarks.into_iter().map(str::to_owned).collect(),
            },
            reasoning_open: self.reasoning_open,
        }
    }

    /// Bytes as text. A character cut by the end of the answer, or bytes that are none, are shown
    /// as U+FFFD; the ids keep the truth.
    fn decoded(&mut self, bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap_or_else(|error| {
            self.remark("invalid_utf8");
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        })
    }
}

/// Whether an id is an added token that begins and ends like this and carries a meaning, not text.
pub fn is_control(tokenizer: &dyn Tokenizer, id: TokenId, shapes: &[(&str, &str)]) -> bool {
    let Some(bytes) = tokenizer.bytes_of(id) else { return false };
    let shaped = |(open, close): &(&str, &str)| {
        bytes.len() >= open.len() + close.len()
            && bytes.starts_with(open.as_bytes())
            && bytes.ends_with(close.as_bytes())
    };
    shapes.iter().any(shaped)
        && std::str::from_utf8(bytes).is_ok_and(|text| tokenizer.added(text) == Some(id))
}
