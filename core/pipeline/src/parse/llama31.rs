//! Llama 3.1 and later 3.x: `<|python_tag|>{json}`, or bare JSON at the start of the answer.
//!
//! A call is `{"name": …, "parameters": {…}}`; `arguments` is taken for `parameters`. Several calls
//! follow each other, with white space or `;` between them. The turn ends with `<|eot_id|>`, or with
//! `<|eom_id|>` where the model waits for a result. These models write no thoughts.
//!
//! Bare JSON has no marker, so what makes it a call is decided here:
//!
//! - only where the agent offered tools, and only from the first byte of the answer that is not
//!   white space: JSON behind prose is an example, not a call;
//! - an object without a name or without arguments is content, and a call right behind it is one;
//! - text behind the last call is content, up to the end: no call is looked for in it.
//!
//! Behind the tag every object must be a call, and what is none is content, the tag included where
//! nothing else told of it (remarks `call_no_name` and so on). Code after the tag, as the models'
//! own interpreter takes it, is content too: no agent offers that interpreter.
//!
//! A call needs no closing marker: its JSON says where it ends. What is cut before that is content.

use super::bytes::cut_stop;
use super::call;
use super::draft::{Draft, is_control};
use super::object::{self, Start};
use super::{End, Machine, Parsed, Setting};
use crate::id::TokenId;

const TAG: &str = "<|python_tag|>";
const ENDS: [&str; 3] = ["<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"];

/// Parses a generation id by id.
pub(super) struct Llama31<'a> {
    setting: Setting<'a>,
    tag: Option<TokenId>,
    ends: [Option<TokenId>; ENDS.len()],
    over: bool,
    /// The text before the first tag, and the text behind each tag.
    parts: Vec<Vec<u8>>,
    /// Bytes of the last text token: a stop text ends among them.
    last_len: usize,
    draft: Draft,
}

impl Machine for Llama31<'_> {
    fn push(&mut self, id: TokenId) {
        let tokenizer = self.setting.tokenizer;
        let Some(bytes) = tokenizer.bytes_of(id) else {
            self.draft.fault("unknown_id");
            return;
        };
        let tagged = self.tag == Some(id);
        if id == self.setting.markers.close || self.ends.contains(&Some(id)) {
            self.over = true;
        } else if !tagged && is_control(tokenizer, id, &[("<|", "|>")]) {
            self.draft.fault("control_token");
        } else if self.over {
            self.draft.fault("text_after_end");
        } else if tagged {
            self.parts.push(Vec::new());
        } else if let Some(part) = self.parts.last_mut() {
            self.last_len = bytes.len();
            part.extend_from_slice(bytes);
        }
    }

    fn finish(mut self: Box<Self>, end: &End<'_>) -> Parsed {
        if let Some(part) = self.parts.last_mut() {
            cut_stop(part, end.stop_text.unwrap_or_default().as_bytes(), self.last_len);
        }
        for (at, part) in std::mem::take(&mut self.parts).iter().enumerate() {
            if at > 0 {
                self.read(part, TAG);
            } else if !self.setting.tools.is_empty() && part.trim_ascii_start().starts_with(b"{") {
                self.read(part, "");
            } else {
                self.draft.show(part);
            }
        }
        self.draft.finish(self.setting, end, &[TAG], call::id)
    }
}

impl<'a> Llama31<'a> {
    /// A machine for an answer; these models need no more of the prompt.
    pub(super) fn new(setting: Setting<'a>) -> Self {
        Self {
            setting,
            tag: setting.tokenizer.added(TAG),
            ends: ENDS.map(|end| setting.tokenizer.added(end)),
            over: false,
            parts: vec![Vec::new()],
            last_len: 0,
            draft: Draft::default(),
        }
    }

    /// Reads a run of JSON objects and the text behind it. `tag` is empty for bare JSON.
    fn read(&mut self, part: &[u8], mut tag: &str) {
        let tagged = !tag.is_empty();
        // Text that is not shown yet; `rest` is its end that is not read yet.
        let (mut text, mut rest) = (part, part);
        let mut silent = tagged;
        let unfinished = loop {
            let (json, behind) = match object::start(rest) {
                Start::Value(json, behind) if json.starts_with('{') => (json, behind),
                other => break other == Start::Unfinished,
            };
            match object::call(json) {
                Ok((written, _)) => {
                    let before = &text[..text.len() - behind.len() - json.len()];
                    if !before.trim_ascii().is_empty() {
                        self.draft.show(tag.as_bytes());
                    }
                    self.draft.show(before);
                    self.draft.call(written, None);
                    rest = without_separator(behind);
                    (tag, text, silent) = ("", rest, false);
                }
                Err(remark) => {
                    if tagged || !matches!(remark, "call_no_name" | "call_no_arguments") {
                        self.draft.fault(remark);
                        silent = false;
                    }
                    rest = without_separator(behind);
                }
            }
        };
        let left = rest.trim_ascii_start();
        let attempted = (tagged && left.starts_with(b"{")) || names_itself(left);
        if silent || attempted || closes(left) {
            self.draft.fault(if unfinished { "call_unclosed" } else { "call_bad_json" });
        }
        self.draft.show(tag.as_bytes());
        self.draft.show(text);
    }
}

/// The text behind a `;` between two objects, or after the last one.
fn without_separator(text: &[u8]) -> &[u8] {
    let rest = text.trim_ascii_start();
    let behind = rest.strip_prefix(b";").unwrap_or(rest).trim_ascii_start();
    if behind.is_empty() || behind.starts_with(b"{") { behind } else { text }
}

/// Whether text begins as these models begin a call.
fn names_itself(text: &[u8]) -> bool {
    let Some(inner) = text.strip_prefix(b"{") else { return false };
    let inner = inner.trim_ascii_start();
    inner.starts_with(b"\"name\"") || inner.starts_with(b"\"type\"")
}

/// Whether text begins with a bracket that closes nothing.
fn closes(text: &[u8]) -> bool {
    text.starts_with(b"}") || text.starts_with(b"]")
}

#[cfg(test)]
mod tests;
