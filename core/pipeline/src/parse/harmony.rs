//! gpt-oss: messages with a header each, `<|start|>HEADER<|message|>BODY<|end|>`.
//!
//! The header says what a message is, its parts may stand in two places:
//!
//! ```text
//! <|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>
//! <|start|>assistant to=functions.NAME<|channel|>commentary json<|message|>{…}<|call|>
//! ```
//!
//! A recipient `functions.NAME` makes a call, whatever the channel. Else channel `analysis` is
//! reasoning, `commentary` (words before a call) and `final` are content. Bodies are kept exactly,
//! but for newlines around all reasoning; several of one kind are joined by one newline. The generation prompt ends in an open header, so
//! the prompt is read from its last `<|start|>` on.
//!
//! Models write headers with faults. Where the meaning is plain the message is taken for what it
//! means and the reply is ill-formed all the same (remark `header_odd`): a second `<|channel|>`, a
//! marker in letters glued to a name, no channel at all, a bare name of a tool that is on offer, a
//! missing `<|start|>`. Everything else is content as it was written, markers included: an unknown
//! channel or recipient, another role than the assistant's, text where a header should begin.
//!
//! A call counts once its own `<|call|>` is there (`<|end|>` is taken for it, with a remark). An
//! answer may be analysis alone, where it is cut off; one that returns in it is ill-formed.

mod header;

use self::header::{Header, Meaning, Part};
use super::bytes::cut_stop;
use super::call::{self, Written};
use super::draft::{Draft, is_control};
use super::object::{self, Start};
use super::{End, Machine, Parsed, Setting};
use crate::id::TokenId;

/// A token that structures messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Start,
    Channel,
    Constrain,
    Message,
    End,
    Call,
    Return,
    EndOfText,
}

const ROLES: [(&str, Role); 8] = [
    ("<|start|>", Role::Start),
    ("<|channel|>", Role::Channel),
    ("<|constrain|>", Role::Constrain),
    ("<|message|>", Role::Message),
    ("<|end|>", Role::End),
    ("<|call|>", Role::Call),
    ("<|return|>", Role::Return),
    ("<|endoftext|>", Role::EndOfText),
];

/// Where the machine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Header,
    Body,
    /// After a message.
    Between,
    /// After the token that ends the turn.
    Over,
}

/// Parses a generation id by id.
pub(super) struct Harmony<'a> {
    setting: Setting<'a>,
    roles: [(Option<TokenId>, Role); ROLES.len()],
    place: Place,
    header: Header,
    meaning: Meaning,
    body: Vec<u8>,
    /// Bytes of the last text token: a stop text ends among them.
    last_len: usize,
    draft: Draft,
}

impl Machine for Harmony<'_> {
    fn push(&mut self, id: TokenId) {
        let tokenizer = self.setting.tokenizer;
        let Some(bytes) = tokenizer.bytes_of(id) else {
            self.draft.fault("unknown_id");
            return;
        };
        let role = self.roles.iter().find(|(known, _)| *known == Some(id)).map(|&(_, role)| role);
        match role {
            Some(Role::Return | Role::EndOfText) if self.place == Place::Over => {}
            Some(_) if self.place == Place::Over => self.draft.fault("text_after_end"),
            Some(role) => self.marker(role, bytes),
            None if is_control(tokenizer, id, &[("<|", "|>")]) => self.draft.fault("control_token"),
            None => {
                self.last_len = bytes.len();
                self.text(bytes);
            }
        }
    }

    fn finish(mut self: Box<Self>, end: &End<'_>) -> Parsed {
        let text = match self.place {
            Place::Header => &mut self.header.raw,
            Place::Body => &mut self.body,
            Place::Between | Place::Over if self.draft.reasoning_open => &mut self.draft.reasoning,
            Place::Between | Place::Over => &mut self.draft.content,
        };
        cut_stop(text, end.stop_text.unwrap_or_default().as_bytes(), self.last_len);
        self.close(None, b"");
        self.draft.finish(self.setting, end, &["<|channel|>", "<|message|>"], call::id)
    }
}

impl<'a> Harmony<'a> {
    /// A machine for what follows this end of a prompt.
    pub(super) fn new(setting: Setting<'a>) -> Self {
        let id_of = |(text, role): (&str, Role)| (setting.tokenizer.added(text), role);
        let mut machine = Self {
            setting,
            roles: ROLES.map(id_of),
            place: Place::Header,
            header: Header::default(),
            meaning: Meaning::Raw,
            body: Vec::new(),
            last_len: 0,
            draft: Draft::default(),
        };
        let start = setting.tokenizer.added("<|start|>");
        let open = setting.prompt_tail.iter().rposition(|&id| Some(id) == start);
        setting.prompt_tail[open.unwrap_or(setting.prompt_tail.len())..]
            .iter()
            .for_each(|&id| machine.push(id));
        if machine.place == Place::Over {
            machine.place = Place::Between;
        }
        // What the prompt says is no part of the reply.
        machine.draft = Draft::default();
        machine.header.raw.clear();
        machine.body.clear();
        machine
    }

    fn text(&mut self, bytes: &[u8]) {
        match self.place {
            Place::Header => self.header.text(bytes),
            Place::Body => self.body.extend_from_slice(bytes),
            Place::Between => {
                let bytes = bytes.trim_ascii_start();
                if bytes.is_empty() {
                    return;
                }
                self.draft.fault("text_between");
                self.header = Header::default();
                self.meaning = Meaning::Raw;
                self.place = Place::Body;
                self.body.extend_from_slice(bytes);
            }
            Place::Over => self.draft.fault("text_after_end"),
        }
    }

    fn marker(&mut self, role: Role, bytes: &[u8]) {
        match (self.place, role) {
            (Place::Header | Place::Body | Place::Between, Role::Start) => {
                if self.place == Place::Header && self.header.raw.is_empty() {
                    // The prompt had opened the message, and the model opens it once more.
                    self.draft.remark("start_repeated");
                }
                self.close(Some(role), b"");
                self.header = Header::default();
                self.header.raw.extend_from_slice(bytes);
                self.place = Place::Header;
            }
            (Place::Between, Role::Channel | Role::Constrain | Role::Message) => {
                self.header = Header::default();
                self.header.odd = true;
                self.place = Place::Header;
                self.marker(role, bytes);
            }
            (Place::Header, Role::Channel) => self.header.part(Part::Channel, bytes),
            (Place::Header, Role::Constrain) => self.header.part(Part::Constrain, bytes),
            (Place::Header, Role::Message) => {
                self.header.raw.extend_from_slice(bytes);
                self.meaning = self.header.meaning(self.setting.tools);
                self.place = Place::Body;
            }
            (Place::Body, Role::Channel | Role::Constrain | Role::Message) => {
                self.draft.fault("stray_marker");
                self.body.extend_from_slice(bytes);
            }
            (Place::Between, Role::End | Role::Call) => self.draft.fault("stray_marker"),
            (_, role) => self.close(Some(role), bytes),
        }
    }

    /// The message is over, by this token or for want of more.
    fn close(&mut self, by: Option<Role>, spelled: &[u8]) {
        match self.place {
            Place::Header => self.close_header(),
            Place::Body => self.close_body(by, spelled),
            Place::Between | Place::Over => {}
        }
        self.place = match by {
            Some(Role::Return | Role::EndOfText) | None => Place::Over,
            Some(_) => Place::Between,
        };
    }

    /// A header without a body is text.
    fn close_header(&mut self) {
        let raw = std::mem::take(&mut self.header.raw);
        if !raw.trim_ascii().is_empty() {
            self.draft.fault("header_unclosed");
            self.draft.show_apart(&raw);
        }
    }

    fn close_body(&mut self, by: Option<Role>, spelled: &[u8]) {
        let body = std::mem::take(&mut self.body);
        let header = std::mem::take(&mut self.header);
        if header.odd {
            self.draft.fault("header_odd");
        }
        if by == Some(Role::Start) {
            self.draft.fault("message_unclosed");
        }
        let meaning = std::mem::replace(&mut self.meaning, Meaning::Raw);
        if by == Some(Role::Call) && !matches!(meaning, Meaning::Call(_)) {
            self.draft.fault("stray_marker");
        }
        match meaning {
            Meaning::Thought => self.close_thought(by, &body),
            Meaning::Shown => self.draft.show_apart(&body),
            Meaning::Call(name) => match read_call(name, &body, by) {
                Ok(written) => {
                    if by != Some(Role::Call) {
                        self.draft.remark("call_closed_oddly");
                    }
                    self.draft.call_apart(written);
                }
                Err(remark) => {
                    self.draft.fault(remark);
                    self.raw(by, &header.raw, &body, spelled);
                }
            },
            Meaning::Raw => {
                self.draft.fault("header_unknown");
                self.raw(by, &header.raw, &body, spelled);
            }
        }
    }

    fn close_thought(&mut self, by: Option<Role>, body: &[u8]) {
        self.draft.think(body);
        match by {
            None | Some(Role::EndOfText) => {
                self.draft.remark("reasoning_unclosed");
                self.draft.reasoning_open = true;
                if by.is_some() {
                    self.draft.fault("reasoning_unclosed");
                }
            }
            Some(Role::Return) => self.draft.fault("return_in_reasoning"),
            Some(_) => {}
        }
    }

    /// A message that is shown as it was written.
    fn raw(&mut self, by: Option<Role>, header: &[u8], body: &[u8], spelled: &[u8]) {
        let spelled = if matches!(by, Some(Role::End | Role::Call)) { spelled } else { b"" };
        self.draft.show_apart(&[header, body, spelled].concat());
    }
}

/// Reads the body of a call, or says in a remark why it is none.
fn read_call(name: String, body: &[u8], by: Option<Role>) -> Result<Written, &'static str> {
    if !matches!(by, Some(Role::Call | Role::End)) {
        return Err("call_unclosed");
    }
    let Start::Value(json, behind) = object::start(body) else { return Err("call_bad_json") };
    if !behind.trim_ascii().is_empty() {
        return Err("call_bad_json");
    }
    let (arguments, as_string) = call::arguments(json)?;
    Ok(Written { name, arguments, as_string })
}

#[cfg(test)]
mod tests;
