//! Qwen3: `<think>…</think>`, content, and Hermes calls `<tool_call>\n{json}\n</tool_call>`.
//!
//! Markers are recognised by token id. The same letters spelled with ordinary tokens are text: a
//! model that writes *about* markers does so in ordinary tokens, and a reader of text could not
//! tell (remark `marker_as_text`). The first closing marker ends a call, even where the model put
//! the marker itself into a JSON string: then the call is ill-formed. A marker that a vocabulary
//! does not have as an added token is never recognised.
//!
//! White space next to a marker belongs to the template and not to the text:
//!
//! - reasoning loses the newlines at both ends, and is none if nothing but white space is left;
//! - content loses newlines right after `</think>`, and all white space right before and after a
//!   well-formed call; texts on both sides of calls are joined by one newline;
//! - nothing else is trimmed, so a reply without calls and thoughts is the text exactly.
//!
//! A call opener in open reasoning ends the reasoning if `{` follows and `</think>` does not come
//! before the call's end (remark `call_ended_reasoning`); else the marker was part of the thought.
//! Thoughts are always handed on as reasoning, whether the agent asked for them or not: a dialect
//! decides what it shows, and the ids are recorded anyway.

use super::call::{self, Written};
use super::{End, Machine, Parsed, Setting};
use crate::id::TokenId;
use crate::render::{Markers, Tokenizer};
use crate::turn::{Reply, Tool};

/// Where the machine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Reasoning,
    Content,
    /// After a call opener.
    Call {
        /// Whether the opener stood in open reasoning.
        thinking: bool,
    },
    /// After the token that ends the turn.
    Over,
}

/// Which white space the next text loses at its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Skip {
    Nothing,
    Newlines,
    /// All white space; if text stands before, a newline takes its place.
    AroundCall,
}

/// The id of a token's role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    ThinkOpen,
    ThinkClose,
    CallOpen,
    CallClose,
    End,
    Control,
    Text,
}

/// Parses a generation id by id.
pub(super) struct Qwen3<'a> {
    tools: &'a [Tool],
    markers: &'a Markers,
    tokenizer: &'a dyn Tokenizer,
    end_of_text: Option<TokenId>,
    place: Place,
    skip: Skip,
    reasoning: Vec<u8>,
    content: Vec<u8>,
    /// The open call: its text after the opener.
    pending: Vec<u8>,
    calls: Vec<Written>,
    /// Bytes of the last text token: a stop text ends among them.
    last_len: usize,
    reasoning_open: bool,
    ill_formed: bool,
    remarks: Vec<&'static str>,
}

impl Machine for Qwen3<'_> {
    fn push(&mut self, id: TokenId) {
        let Some(bytes) = self.tokenizer.bytes_of(id) else {
            self.fault("unknown_id");
            return;
        };
        let role = self.role(id, bytes);
        match (self.place, role) {
            (_, Role::Control) => self.fault("control_token"),
            (Place::Over, Role::End) => {}
            (Place::Over, _) => self.fault("text_after_end"),
            (_, Role::End) => {
                self.settle();
                // An answer that is cut off may leave a thought open; one that ends itself may not.
                self.ill_formed |= self.reasoning_open;
            }
            (_, Role::Text) => {
                self.last_len = bytes.len();
                self.text(bytes);
            }
            (_, role) => {
                self.last_len = bytes.len();
                self.marker(role, bytes);
            }
        }
    }

    fn finish(mut self: Box<Self>, end: &End<'_>) -> Parsed {
        let (stop_text, tools, call_seed) = (end.stop_text, self.tools, end.call_seed);
        self.settle();
        if let Some(stop) = stop_text {
            let text = if self.reasoning_open { &mut self.reasoning } else { &mut self.content };
            cut_stop(text, stop.as_bytes(), self.last_len);
        }
        let unknown = |written: &Written| !call::offered(tools, &written.name);
        if !tools.is_empty() && self.calls.iter().any(unknown) {
            self.remark("unknown_tool");
        }
        let opener = self.spelled(self.markers.call_open);
        if !self.ill_formed && find(&self.content, &opener).is_some() {
            self.remark("marker_as_text");
        }
        let thought = without_leading(&self.reasoning, |b| b == b'\n');
        let thought = without_trailing(thought, |b| b == b'\n').to_vec();
        let content = std::mem::take(&mut self.content);
        let reasoning = (!thought.trim_ascii().is_empty()).then(|| self.decoded(thought));
        let content = self.decoded(content);
        let calls = std::mem::take(&mut self.calls).into_iter().enumerate();
        Parsed {
            reply: Reply {
                reasoning,
                content,
                tool_calls: calls.map(|(at, w)| call::identified(w, call_seed, at)).collect(),
                ill_formed: self.ill_formed,
                remarks: self.remarks.into_iter().map(str::to_owned).collect(),
            },
            reasoning_open: self.reasoning_open,
        }
    }
}

impl<'a> Qwen3<'a> {
    /// A machine for what follows this end of a prompt.
    pub(super) fn new(setting: Setting<'a>) -> Self {
        let Setting { markers, tokenizer, prompt_tail, tools } = setting;
        let thinking = thought_is_open(markers, tokenizer, prompt_tail);
        Self {
            tools,
            markers,
            tokenizer,
            end_of_text: tokenizer.added("<|endoftext|>"),
            place: if thinking { Place::Reasoning } else { Place::Content },
            skip: Skip::Nothing,
            reasoning: Vec::new(),
            content: Vec::new(),
            pending: Vec::new(),
            calls: Vec::new(),
            last_len: 0,
            reasoning_open: false,
            ill_formed: false,
            remarks: Vec::new(),
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

    fn role(&self, id: TokenId, bytes: &[u8]) -> Role {
        let is = |marker: Option<TokenId>| marker == Some(id);
        if id == self.markers.close || is(self.end_of_text) {
            Role::End
        } else if is(self.markers.think_open) {
            Role::ThinkOpen
        } else if is(self.markers.think_close) {
            Role::ThinkClose
        } else if is(self.markers.call_open) {
            Role::CallOpen
        } else if is(self.markers.call_close) {
            Role::CallClose
        } else if self.is_control(id, bytes) {
            Role::Control
        } else {
            Role::Text
        }
    }

    fn is_control(&self, id: TokenId, bytes: &[u8]) -> bool {
        bytes.len() > 4
            && bytes.starts_with(b"<|")
            && bytes.ends_with(b"|>")
            && std::str::from_utf8(bytes).is_ok_and(|text| self.tokenizer.added(text) == Some(id))
    }

    fn text(&mut self, bytes: &[u8]) {
        match self.place {
            Place::Reasoning => self.reasoning.extend_from_slice(bytes),
            Place::Content => self.show(bytes),
            Place::Call { .. } => self.pending.extend_from_slice(bytes),
            Place::Over => {}
        }
    }

    /// Appends to the content, but for white space that belongs to a marker before it.
    fn show(&mut self, bytes: &[u8]) {
        let rest = match self.skip {
            Skip::Nothing => bytes,
            Skip::Newlines => without_leading(bytes, |b| b == b'\n'),
            Skip::AroundCall => without_leading(bytes, is_blank),
        };
        if rest.is_empty() {
            return;
        }
        if self.skip == Skip::AroundCall && !self.content.is_empty() {
            self.content.push(b'\n');
        }
        self.skip = Skip::Nothing;
        self.content.extend_from_slice(rest);
    }

    fn marker(&mut self, role: Role, bytes: &[u8]) {
        match (self.place, role) {
            (Place::Reasoning, Role::ThinkClose) => self.close_reasoning(),
            (Place::Reasoning, Role::ThinkOpen) if self.reasoning.trim_ascii().is_empty() => {
                // The prompt had opened it, and the model opens it once more.
                self.remark("think_repeated");
            }
            (Place::Content, Role::ThinkOpen) => self.open_reasoning(),
            (Place::Reasoning, Role::CallOpen) => self.place = Place::Call { thinking: true },
            (Place::Content, Role::CallOpen) => self.place = Place::Call { thinking: false },
            (Place::Call { thinking }, Role::CallClose) => self.close_call(thinking),
            (Place::Call { thinking }, Role::CallOpen) => {
                self.give_up_call(thinking, "call_unclosed", b"");
                self.marker(role, bytes);
            }
            (Place::Call { thinking: true }, Role::ThinkClose) => {
                self.back_to_thought(b"");
                self.close_reasoning();
            }
            // In a call the brackets of a thought are letters of its JSON.
            (Place::Call { .. }, _) => self.pending.extend_from_slice(bytes),
            _ => {
                self.fault("stray_marker");
                self.text(bytes);
            }
        }
    }

    fn open_reasoning(&mut self) {
        let first = self.reasoning.is_empty()
            && self.calls.is_empty()
            && self.content.trim_ascii().is_empty();
        if first {
            self.content.clear();
        } else {
            self.fault("think_again");
            self.reasoning.push(b'\n');
        }
        self.place = Place::Reasoning;
    }

    fn close_reasoning(&mut self) {
        self.place = Place::Content;
        if self.content.is_empty() {
            self.skip = Skip::Newlines;
        }
    }

    fn close_call(&mut self, thinking: bool) {
        if thinking && !call::attempted(&self.pending) {
            let close = self.spelled(self.markers.call_close);
            self.back_to_thought(&close);
            return;
        }
        match call::read(&self.pending) {
            Ok(written) => {
                if thinking {
                    self.remark("call_ended_reasoning");
                }
                if written.as_string {
                    self.remark("call_arguments_string");
                }
                self.calls.push(written);
                self.pending.clear();
                self.content.truncate(without_trailing(&self.content, is_blank).len());
                self.skip = Skip::AroundCall;
                self.place = Place::Content;
            }
            Err(remark) => {
                let close = self.spelled(self.markers.call_close);
                self.give_up_call(thinking, remark, &close);
            }
        }
    }

    /// What looked like a call is text after all, markers included.
    fn give_up_call(&mut self, thinking: bool, remark: &'static str, close: &[u8]) {
        if thinking && !call::attempted(&self.pending) {
            self.back_to_thought(close);
            return;
        }
        self.fault(remark);
        if thinking {
            self.remark("call_ended_reasoning");
        }
        let text = self.opened_text(close);
        self.place = Place::Content;
        self.show(&text);
    }

    /// A call opener was a word of the thought.
    fn back_to_thought(&mut self, close: &[u8]) {
        self.remark("marker_in_reasoning");
        let text = self.opened_text(close);
        self.reasoning.extend_from_slice(&text);
        self.place = Place::Reasoning;
    }

    /// The open call as text.
    fn opened_text(&mut self, close: &[u8]) -> Vec<u8> {
        let mut text = self.spelled(self.markers.call_open);
        text.append(&mut self.pending);
        text.extend_from_slice(close);
        text
    }

    fn spelled(&self, marker: Option<TokenId>) -> Vec<u8> {
        marker.and_then(|id| self.tokenizer.bytes_of(id)).unwrap_or_default().to_vec()
    }

    /// The turn is over, by its own token or for want of more.
    fn settle(&mut self) {
        if let Place::Call { thinking } = self.place {
            self.give_up_call(thinking, "call_unclosed", b"");
        }
        if self.place == Place::Reasoning {
            self.remark("reasoning_unclosed");
            self.reasoning_open = true;
        }
        self.place = Place::Over;
    }

    fn fault(&mut self, remark: &'static str) {
        self.ill_formed = true;
        self.remark(remark);
    }

    fn remark(&mut self, remark: &'static str) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }
}

/// Whether the prompt ends in an open thought: the last bracket of a thought in the present turn
/// decides. Thoughts of earlier turns say nothing about it.
fn thought_is_open(markers: &Markers, tokenizer: &dyn Tokenizer, prompt_tail: &[TokenId]) -> bool {
    let turn_open = tokenizer.added("<|im_start|>");
    let brackets = [markers.think_open, markers.think_close, turn_open];
    let last = prompt_tail.iter().rev().find(|&&id| brackets.contains(&Some(id)));
    last.is_some_and(|&id| markers.think_open == Some(id))
}

/// Cuts a text at the stop text that ended it. Engines keep the token that completed the stop text
/// whole, so the stop text ends somewhere in the last `last_len` bytes.
fn cut_stop(text: &mut Vec<u8>, stop: &[u8], last_len: usize) {
    let from = text.len().saturating_sub((last_len + stop.len()).saturating_sub(1));
    if let Some(at) = find(&text[from..], stop) {
        text.truncate(from + at);
    }
}

/// Where `part` first stands in `text`; an empty part stands nowhere.
fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    let first = *part.first()?;
    let starts = text.iter().enumerate().filter(|&(_, &byte)| byte == first);
    starts.map(|(at, _)| at).find(|&at| text[at..].starts_with(part))
}

/// White space in the sense of templates.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn without_leading(bytes: &[u8], unwanted: fn(u8) -> bool) -> &[u8] {
    let start = bytes.iter().position(|&b| !unwanted(b)).unwrap_or(bytes.len());
    &bytes[start..]
}

fn without_trailing(bytes: &[u8], unwanted: fn(u8) -> bool) -> &[u8] {
    let end = bytes.iter().rposition(|&b| !unwanted(b)).map_or(0, |last| last + 1);
    &bytes[..end]
}

#[cfg(test)]
mod tests;
