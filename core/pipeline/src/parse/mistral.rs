//! Mistral: `[THINK]…[/THINK]`, content, and calls behind `[TOOL_CALLS]`.
//!
//! Three forms of calls are read, whatever the tokenizer's version:
//!
//! - `[TOOL_CALLS][{"name": …, "arguments": {…}}, …]`: a list, or one object without the brackets;
//! - `[TOOL_CALLS]NAME[ARGS]{…}`, once per call, also with `[CALL_ID]ID` before the arguments;
//! - `[TOOL_CALLS]NAME{…}`, once per call.
//!
//! Nothing closes a call: its JSON says where it ends, and text behind it is content. A list counts
//! whole or not at all. Markers are never letters of a call's JSON: each one ends the open call.
//!
//! The templates accept ids of nine letters and digits only, so calls get such ids; an id that the
//! model wrote is kept if it is one.
//!
//! White space, thoughts and calls in open thoughts follow the rules of the Qwen3 machine, with one
//! difference that the missing close marker makes: `[/THINK]` behind a call that stands in a thought
//! makes that call part of the thought.

mod pending;

use self::pending::Pending;
use super::bytes::cut_stop;
use super::draft::{Draft, is_control};
use super::{End, Machine, Parsed, Setting};
use crate::id::TokenId;

const CALLS: &str = "[TOOL_CALLS]";
const CONTROL: [(&str, &str); 2] = [("[", "]"), ("<", ">")];

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

/// The token ids that mean something.
#[derive(Clone, Copy)]
struct Ids {
    end: Option<TokenId>,
    think_open: Option<TokenId>,
    think_close: Option<TokenId>,
    calls: Option<TokenId>,
    call_id: Option<TokenId>,
    args: Option<TokenId>,
}

/// Parses a generation id by id.
pub(super) struct Mistral<'a> {
    setting: Setting<'a>,
    ids: Ids,
    place: Place,
    pending: Pending,
    /// Whether newlines at the start of the content belong to the marker before it.
    after_thought: bool,
    /// Bytes of the last text token: a stop text ends among them.
    last_len: usize,
    draft: Draft,
}

impl Machine for Mistral<'_> {
    fn push(&mut self, id: TokenId) {
        let tokenizer = self.setting.tokenizer;
        let Some(bytes) = tokenizer.bytes_of(id) else {
            self.draft.fault("unknown_id");
            return;
        };
        let (is, ids) = (Some(id), self.ids);
        let marker = [ids.think_open, ids.think_close, ids.calls, ids.call_id, ids.args];
        if is == ids.end || id == self.setting.markers.close {
            self.settle();
            if self.draft.reasoning_open {
                self.draft.fault("reasoning_unclosed");
            }
        } else if marker.contains(&is) {
            if self.place == Place::Over {
                self.draft.fault("text_after_end");
            } else {
                self.last_len = bytes.len();
                self.marker(id, bytes);
            }
        } else if is_control(tokenizer, id, &CONTROL) {
            self.draft.fault("control_token");
        } else {
            self.last_len = bytes.len();
            self.text(bytes);
        }
    }

    fn finish(mut self: Box<Self>, end: &End<'_>) -> Parsed {
        let text = match self.place {
            Place::Call { .. } => &mut self.pending.text,
            Place::Reasoning => &mut self.draft.reasoning,
            Place::Over if self.draft.reasoning_open => &mut self.draft.reasoning,
            Place::Content | Place::Over => &mut self.draft.content,
        };
        cut_stop(text, end.stop_text.unwrap_or_default().as_bytes(), self.last_len);
        self.pending.forget_what_was_cut();
        self.settle();
        self.draft.finish(self.setting, end, &[CALLS], id)
    }
}

impl<'a> Mistral<'a> {
    /// A machine for what follows this end of a prompt.
    pub(super) fn new(setting: Setting<'a>) -> Self {
        let added = |text| setting.tokenizer.added(text);
        let ids = Ids {
            end: added("</s>"),
            think_open: added("[THINK]"),
            think_close: added("[/THINK]"),
            calls: added(CALLS),
            call_id: added("[CALL_ID]"),
            args: added("[ARGS]"),
        };
        // The last bracket of a thought in the present turn decides: prompts explain the brackets
        // to the model in its instructions, and those end with a marker of their own.
        let ends = ["[/INST]", "[/TOOL_RESULTS]", "[/SYSTEM_PROMPT]", "</s>"].map(added);
        let decides = |id: &&TokenId| {
            let id = Some(**id);
            id == ids.think_open || id == ids.think_close || ends.contains(&id)
        };
        let thinking = setting.prompt_tail.iter().rev().find(decides).copied() == ids.think_open
            && ids.think_open.is_some();
        Self {
            setting,
            ids,
            place: if thinking { Place::Reasoning } else { Place::Content },
            pending: Pending::default(),
            after_thought: false,
            last_len: 0,
            draft: Draft::default(),
        }
    }

    fn text(&mut self, bytes: &[u8]) {
        match self.place {
            Place::Reasoning => self.draft.reasoning.extend_from_slice(bytes),
            Place::Content => self.show(bytes),
            Place::Call { .. } => self.pending.text.extend_from_slice(bytes),
            Place::Over => self.draft.fault("text_after_end"),
        }
    }

    fn show(&mut self, bytes: &[u8]) {
        let newlines = bytes.iter().take_while(|&&b| b == b'\n').count();
        let bytes = if self.after_thought { &bytes[newlines..] } else { bytes };
        self.after_thought &= bytes.is_empty();
        self.draft.show(bytes);
    }

    fn marker(&mut self, id: TokenId, bytes: &[u8]) {
        let (is, ids) = (Some(id), self.ids);
        match self.place {
            Place::Call { .. } if is == ids.call_id && self.pending.awaits_id() => {
                self.pending.begin_id(bytes);
            }
            Place::Call { .. } if is == ids.args && self.pending.awaits_arguments() => {
                self.pending.begin_arguments(bytes);
            }
            Place::Call { thinking: true } if is == ids.think_close => {
                self.back_to_thought();
                self.close_reasoning();
            }
            Place::Call { thinking } => {
                self.close_call(thinking);
                self.marker(id, bytes);
            }
            Place::Reasoning if is == ids.think_close => self.close_reasoning(),
            Place::Reasoning if is == ids.calls => self.place = Place::Call { thinking: true },
            Place::Reasoning
                if is == ids.think_open && self.draft.reasoning.trim_ascii().is_empty() =>
            {
                // The prompt had opened it, and the model opens it once more.
                self.draft.remark("think_repeated");
            }
            Place::Content if is == ids.think_open => self.open_reasoning(),
            Place::Content if is == ids.calls => self.place = Place::Call { thinking: false },
            _ => {
                self.draft.fault("stray_marker");
                self.text(bytes);
            }
        }
    }

    fn open_reasoning(&mut self) {
        let draft = &mut self.draft;
        if draft.reasoning.is_empty()
            && draft.calls.is_empty()
            && draft.content.trim_ascii().is_empty()
        {
            draft.content.clear();
        } else {
            draft.fault("think_again");
            draft.reasoning.push(b'\n');
        }
        self.place = Place::Reasoning;
    }

    fn close_reasoning(&mut self) {
        self.place = Place::Content;
        self.after_thought = self.draft.content.is_empty();
    }

    /// The open call ends: where its JSON ends if it is one, else it was text.
    fn close_call(&mut self, thinking: bool) {
        self.place = Place::Content;
        match self.pending.read() {
            Ok((calls, behind)) => {
                if thinking {
                    self.draft.remark("call_ended_reasoning");
                }
                for (written, id) in calls {
                    let id = id.filter(|id| id.len() == 9 && is_plain(id));
                    self.draft.call(written, id);
                }
                let text = std::mem::take(&mut self.pending).text;
                let behind = &text[behind..];
                if behind.trim_ascii_start().starts_with(b"}") {
                    self.draft.fault("call_bad_json");
                }
                self.show(behind);
            }
            Err(_) if thinking && !self.pending.is_attempt() => self.back_to_thought(),
            Err(remark) => {
                if thinking {
                    self.draft.remark("call_ended_reasoning");
                }
                self.draft.fault(remark);
                let text = self.opened_text();
                self.show(&text);
            }
        }
    }

    /// A call opener was a word of the thought.
    fn back_to_thought(&mut self) {
        self.draft.remark("marker_in_reasoning");
        let text = self.opened_text();
        self.draft.reasoning.extend_from_slice(&text);
        self.place = Place::Reasoning;
    }

    /// The open call as text.
    fn opened_text(&mut self) -> Vec<u8> {
        let mut text = CALLS.as_bytes().to_vec();
        text.append(&mut std::mem::take(&mut self.pending).text);
        text
    }

    /// The turn is over, by its own token or for want of more.
    fn settle(&mut self) {
        if let Place::Call { thinking } = self.place {
            self.close_call(thinking);
        }
        if self.place == Place::Reasoning {
            self.draft.remark("reasoning_unclosed");
            self.draft.reasoning_open = true;
        }
        self.place = Place::Over;
    }
}

fn is_plain(id: &str) -> bool {
    id.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The id of a call: nine letters and digits that depend on the seed and the call's place.
fn id(index: usize, call_seed: &str) -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(index as u64).to_le_bytes());
    hasher.update(call_seed.as_bytes());
    let digest = hasher.finalize();
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    digest.as_bytes().iter().take(9).map(letter).collect()
}

#[cfg(test)]
mod tests;
