//! One machine for all families that write markers: reasoning, content and calls, driven by token
//! ids, over the [`Grammar`] of a family.
//!
//! Markers are recognised by token id. The same letters spelled with ordinary tokens are text: a
//! model that writes *about* markers does so in ordinary tokens, and a reader of text could not
//! tell (remark `marker_as_text`). The first closing marker ends a call, even where the model put
//! the marker itself into a value: then the call is ill-formed. A marker that a vocabulary does not
//! have as an added token is never recognised, but for markers inside a call.
//!
//! White space next to a marker belongs to the template and not to the text:
//!
//! - reasoning loses the newlines at both ends, and is none if nothing but white space is left;
//! - content loses newlines right after the end of a thought, and all white space right before and
//!   after a well-formed call; texts on both sides of calls are joined by one newline;
//! - nothing else is trimmed, so a reply without calls and thoughts is the text exactly.
//!
//! A call opener in open reasoning ends the reasoning if what follows is an attempt at a call and
//! the thought is not closed before the call's end (remark `call_ended_reasoning`); else the marker
//! was part of the thought. Thoughts are always handed on as reasoning, whether the agent asked for
//! them or not: a dialect decides what it shows, and the ids are recorded anyway.
//!
//! A section is a frame around calls. Its markers are shown only if something in it is no call.
//! What is not yet justified by a call is held, so that it can be shown whole and in order.
//!
//! Each byte is looked at a bounded number of times: the cost is linear in the answer.

mod section;

use std::collections::BTreeSet;

use super::bytes::{cut_stop, find, is_blank, without_leading, without_trailing};
use super::call;
use super::grammar::{Called, Found, Grammar, Lexicon, Mark, Role};
use super::{End, Machine, Parsed, Setting};
use crate::id::TokenId;
use crate::turn::{Reply, Tool, ToolCall};

/// Where the machine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Reasoning,
    Content,
    /// In a section, between calls.
    Section {
        /// Whether the section's opener stood in open reasoning and no call has ended it.
        thinking: bool,
    },
    /// After a call opener.
    Call {
        /// Whether the opener, or that of its section, stood in open reasoning.
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

/// Parses a generation id by id.
pub(super) struct Walker<'a> {
    grammar: &'static Grammar,
    lexicon: Lexicon<'a>,
    tools: &'a [Tool],
    place: Place,
    skip: Skip,
    reasoning: Vec<u8>,
    /// Whether the reasoning is more than white space.
    thought: bool,
    content: Vec<u8>,
    /// Up to where the content has been searched for calls without opener.
    searched: usize,
    /// Openers not yet justified by a call, with the white space between them.
    held: Vec<u8>,
    /// The text after `held`: of the open call, or between the calls of a section.
    pending: Vec<u8>,
    /// Inner markers in `pending`.
    marks: Vec<Mark>,
    in_section: bool,
    /// Whether the section's opener became content.
    section_shown: bool,
    calls: Vec<Called>,
    /// Bytes of the last token: a stop text ends among them.
    last_len: usize,
    reasoning_open: bool,
    section_open: bool,
    ill_formed: bool,
    remarks: Vec<&'static str>,
}

impl Machine for Walker<'_> {
    fn push(&mut self, id: TokenId) {
        let Some((bytes, role)) = self.lexicon.look_up(id) else {
            self.fault("unknown_id");
            return;
        };
        match (self.place, role) {
            (_, Role::Control) => self.fault("control_token"),
            (Place::Over, Role::End) => {}
            (Place::Over, _) => self.fault("text_after_end"),
            (_, Role::End) => {
                self.bare_calls(false);
                self.settle();
                // An answer that is cut off may leave things open; one that ends itself may not.
                self.ill_formed |= self.reasoning_open || self.section_open;
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
        let stop = end.stop_text.unwrap_or_default().as_bytes();
        if stop.is_empty() {
            // A stop text may have to be cut off from what would be the call.
            self.bare_calls(false);
        }
        self.settle();
        let text = if self.reasoning_open { &mut self.reasoning } else { &mut self.content };
        cut_stop(text, stop, self.last_len);
        let unknown = |call: &Called| !call::offered(self.tools, &call.written.name);
        if !self.tools.is_empty() && self.calls.iter().any(unknown) {
            self.remark("unknown_tool");
        }
        let mut openers = self.grammar.call_open.iter().chain(self.grammar.section_open);
        if !self.ill_formed
            && openers.any(|opener| find(&self.content, opener.as_bytes()).is_some())
        {
            self.remark("marker_as_text");
        }
        let thought = without_leading(&self.reasoning, |b| b == b'\n');
        let thought = without_trailing(thought, |b| b == b'\n').to_vec();
        let content = std::mem::take(&mut self.content);
        let reasoning = (!thought.trim_ascii().is_empty()).then(|| self.decoded(thought));
        let content = self.decoded(content);
        let tool_calls = self.identified(end.call_seed);
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
}

impl<'a> Walker<'a> {
    /// A machine for what follows this end of a prompt.
    pub(super) fn new(grammar: &'static Grammar, setting: Setting<'a>) -> Self {
        let Setting { markers, tokenizer, prompt_tail, tools } = setting;
        let lexicon = Lexicon::new(grammar, tokenizer, markers.close);
        let thinking = lexicon.thought_is_open(grammar, prompt_tail);
        Self {
            grammar,
            lexicon,
            tools,
            place: if thinking { Place::Reasoning } else { Place::Content },
            skip: Skip::Nothing,
            reasoning: Vec::new(),
            thought: false,
            content: Vec::new(),
            searched: 0,
            held: Vec::new(),
            pending: Vec::new(),
            marks: Vec::new(),
            in_section: false,
            section_shown: false,
            calls: Vec::new(),
            last_len: 0,
            reasoning_open: false,
            section_open: false,
            ill_formed: false,
            remarks: Vec::new(),
        }
    }

    /// The calls under their ids. An id that the model gave twice names the first only.
    fn identified(&mut self, call_seed: &str) -> Vec<ToolCall> {
        let mut seen = BTreeSet::new();
        let mut calls = Vec::with_capacity(self.calls.len());
        for (index, Called { written, id }) in
            std::mem::take(&mut self.calls).into_iter().enumerate()
        {
            let mut call = call::identified(written, call_seed, index);
            match id {
                Some(id) if seen.insert(id.clone()) => call.id = id,
                Some(_) => self.remark("call_id_repeated"),
                None => {}
            }
            calls.push(call);
        }
        calls
    }

    /// Bytes as text. A character cut by the end of the answer, or bytes that are none, are shown
    /// as U+FFFD; the ids keep the truth.
    fn decoded(&mut self, bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap_or_else(|error| {
            self.remark("invalid_utf8");
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        })
    }

    fn text(&mut self, bytes: &[u8]) {
        match self.place {
            Place::Reasoning => self.think(bytes),
            Place::Content => self.show(bytes),
            Place::Section { .. } | Place::Call { .. } => self.pending.extend_from_slice(bytes),
            Place::Over => {}
        }
    }

    fn think(&mut self, bytes: &[u8]) {
        self.thought |= !bytes.trim_ascii().is_empty();
        self.reasoning.extend_from_slice(bytes);
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
            (Place::Reasoning, Role::ThinkOpen) if !self.thought => {
                // The prompt had opened it, and the model opens it once more.
                self.remark("think_repeated");
            }
            (Place::Content, Role::ThinkOpen) => self.open_reasoning(),
            (Place::Reasoning | Place::Content, Role::SectionOpen) => self.open_section(bytes),
            (Place::Reasoning | Place::Content, Role::CallOpen) => self.open_call(bytes),
            (Place::Content, Role::CallClose) if self.bare_calls(true) => {}
            (Place::Section { thinking }, role) => self.marker_in_section(thinking, role, bytes),
            (Place::Call { thinking }, Role::CallClose) => self.close_call(thinking, bytes),
            (Place::Call { thinking }, Role::CallOpen | Role::SectionOpen | Role::SectionClose) => {
                self.end_unclosed(thinking);
                self.marker(role, bytes);
            }
            (Place::Call { thinking: true }, Role::ThinkClose) => {
                self.back_to_thought(b"");
                self.close_reasoning();
            }
            (Place::Call { .. }, role) => {
                if let Role::Inner(kind) = role {
                    let start = self.pending.len();
                    self.marks.push(Mark { start, end: start + bytes.len(), kind });
                }
                // The brackets of a thought are letters of the call.
                self.pending.extend_from_slice(bytes);
            }
            _ => {
                self.fault("stray_marker");
                self.text(bytes);
            }
        }
    }

    fn open_reasoning(&mut self) {
        self.bare_calls(false);
        let first = self.reasoning.is_empty()
            && self.calls.is_empty()
            && self.content.trim_ascii().is_empty();
        if first {
            self.content.clear();
            self.searched = 0;
        } else {
            // The reply has no place for the order in which it was thought.
            self.remark("think_again");
            self.ill_formed |= !self.grammar.interleaved;
            if !self.reasoning.is_empty() {
                self.reasoning.push(b'\n');
            }
        }
        self.place = Place::Reasoning;
    }

    fn close_reasoning(&mut self) {
        self.place = Place::Content;
        if self.content.is_empty() {
            self.skip = Skip::Newlines;
        }
    }

    fn open_call(&mut self, opener: &[u8]) {
        let thinking = self.place == Place::Reasoning;
        if thinking || !self.bare_calls(false) {
            self.take_misspelt_opener(thinking);
        }
        self.held.extend_from_slice(opener);
        self.place = Place::Call { thinking };
    }

    fn close_call(&mut self, thinking: bool, close: &[u8]) {
        if thinking && !self.is_attempt() {
            self.back_to_thought(close);
            return;
        }
        match self.read_call() {
            Ok(found) => {
                if thinking {
                    self.remark("call_ended_reasoning");
                }
                if !self.in_section && !self.grammar.section_open.is_empty() {
                    self.remark("section_missing");
                }
                self.accept(found);
            }
            Err(remark) => self.give_up_call(thinking, remark, close),
        }
    }

    /// Something else begins, or the answer ends, before the open call is closed.
    fn end_unclosed(&mut self, thinking: bool) {
        let text = without_trailing(&self.pending, is_blank);
        let whole = self.grammar.bare.is_some_and(|(_, close)| text.ends_with(close.as_bytes()));
        match whole.then(|| self.read_call()) {
            Some(Ok(found)) => {
                if thinking {
                    self.remark("call_ended_reasoning");
                }
                self.remark("call_close_missing");
                self.accept(found);
            }
            _ => self.give_up_call(thinking, "call_unclosed", b""),
        }
    }

    /// Whether the open call is an attempt at one.
    fn is_attempt(&self) -> bool {
        (self.grammar.attempted)(&self.lexicon.body(&self.pending, &self.marks), self.tools)
    }

    fn read_call(&self) -> Result<Found, &'static str> {
        (self.grammar.read)(&self.lexicon.body(&self.pending, &self.marks), self.tools)
    }

    fn accept(&mut self, found: Found) {
        found.remarks.iter().for_each(|remark| self.remark(remark));
        if found.calls.iter().any(|call| call.written.as_string) {
            self.remark("call_arguments_string");
        }
        self.calls.extend(found.calls);
        self.held.clear();
        self.pending.clear();
        self.marks.clear();
        self.content.truncate(without_trailing(&self.content, is_blank).len());
        self.searched = self.content.len();
        self.skip = Skip::AroundCall;
        self.place = self.after_call();
    }

    fn after_call(&self) -> Place {
        if self.in_section { Place::Section { thinking: false } } else { Place::Content }
    }

    /// What looked like a call is text after all, markers included.
    fn give_up_call(&mut self, thinking: bool, remark: &'static str, close: &[u8]) {
        if thinking && !self.is_attempt() {
            self.back_to_thought(close);
            return;
        }
        self.fault(remark);
        if thinking {
            self.remark("call_ended_reasoning");
        }
        let text = self.opened_text(close);
        self.place = self.after_call();
        self.section_shown = self.in_section;
        self.show(&text);
        self.searched = self.content.len();
    }

    /// A call opener was a word of the thought.
    fn back_to_thought(&mut self, close: &[u8]) {
        self.remark("marker_in_reasoning");
        let text = self.opened_text(close);
        self.think(&text);
        self.in_section = false;
        self.place = Place::Reasoning;
    }

    /// All that is held back, as text.
    fn opened_text(&mut self, close: &[u8]) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.held);
        text.append(&mut self.pending);
        text.extend_from_slice(close);
        self.marks.clear();
        text
    }

    /// Takes calls that stand in the content without their opener. They begin a line, unless the
    /// marker that ends a call follows (`closed`); they end with their closing tag, and nothing else
    /// follows; their tools are on offer: else text about calls would be taken for calls.
    fn bare_calls(&mut self, closed: bool) -> bool {
        let Some((open, close)) = self.grammar.bare.filter(|_| self.place == Place::Content) else {
            return false;
        };
        let from = std::mem::replace(&mut self.searched, self.content.len());
        let text = &self.content[from..];
        let mut starts = text.iter().enumerate().filter(|&(_, &byte)| byte == b'<');
        let may_begin = |at: usize| match (from + at).checked_sub(1) {
            Some(before) if !closed => self.content[before] == b'\n',
            _ => true,
        };
        let first = starts
            .find(|&(at, _)| text[at..].starts_with(open.as_bytes()) && may_begin(at))
            .map(|(at, _)| from + at);
        let Some(start) = first else { return false };
        let text = without_trailing(&self.content[start..], is_blank);
        if !closed && !text.ends_with(close.as_bytes()) {
            return false;
        }
        let read = (self.grammar.read)(&self.lexicon.body(&self.content[start..], &[]), self.tools);
        match read {
            Ok(found) if found.calls.iter().all(|c| call::offered(self.tools, &c.written.name)) => {
                self.content.truncate(start);
                self.remark("call_opener_missing");
                self.accept(found);
                true
            }
            _ => false,
        }
    }

    /// The turn is over, by its own token or for want of more.
    fn settle(&mut self) {
        if let Place::Call { thinking } = self.place {
            self.end_unclosed(thinking);
        }
        if let Place::Section { thinking } = self.place {
            self.settle_section(thinking);
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

#[cfg(test)]
mod tests;
