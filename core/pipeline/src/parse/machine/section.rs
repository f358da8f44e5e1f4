//! Sections: frames around calls.

use super::{Place, Role, Walker};
use crate::parse::bytes::{is_blank, without_leading, without_trailing};

impl Walker<'_> {
    pub(super) fn open_section(&mut self, opener: &[u8]) {
        let thinking = self.place == Place::Reasoning;
        self.held.extend_from_slice(opener);
        self.in_section = true;
        self.section_shown = false;
        self.place = Place::Section { thinking };
    }

    /// If the text before a call ends in a misspelt opener, that opens a section.
    pub(super) fn take_misspelt_opener(&mut self, thinking: bool) {
        let Some((open, _)) = self.grammar.section_misspelt else { return };
        let text = if thinking { &mut self.reasoning } else { &mut self.content };
        let before = without_trailing(text, is_blank).strip_suffix(open.as_bytes());
        let Some(before) = before.map(<[u8]>::len) else { return };
        self.held.extend_from_slice(&text[before..]);
        text.truncate(before);
        self.in_section = true;
        self.section_shown = false;
        self.remark("section_misspelt");
    }

    pub(super) fn marker_in_section(&mut self, thinking: bool, role: Role, bytes: &[u8]) {
        self.settle_gap(thinking);
        match (self.place, role) {
            (Place::Section { .. }, Role::CallOpen) => {
                self.held.extend_from_slice(bytes);
                self.place = Place::Call { thinking };
            }
            (Place::Section { .. }, Role::SectionClose) => self.close_section(thinking, bytes),
            (Place::Section { thinking: true }, Role::ThinkClose) => {
                self.back_to_thought(b"");
                self.close_reasoning();
            }
            (Place::Section { .. }, Role::ThinkOpen | Role::SectionOpen) => {
                self.fault("section_unclosed");
                self.leave_section();
                self.marker(role, bytes);
            }
            (Place::Section { .. }, _) => {
                self.fault("stray_marker");
                self.show_held(bytes);
            }
            _ => self.marker(role, bytes),
        }
    }

    /// Decides what the text before the next marker of a section is.
    fn settle_gap(&mut self, thinking: bool) {
        let gap = std::mem::take(&mut self.pending);
        let text = without_leading(&gap, is_blank);
        if text.is_empty() {
            match self.held.is_empty() {
                true => self.show(&gap),
                false => self.held.extend_from_slice(&gap),
            }
            return;
        }
        let misspelt = self.grammar.section_misspelt.map(|(_, close)| close.as_bytes());
        if let Some(close) = misspelt
            && let Some(rest) = text.strip_prefix(close)
            && self.held.is_empty()
        {
            self.remark("section_misspelt");
            self.show(&gap[..gap.len() - text.len()]);
            self.close_section(thinking, close);
            self.show(rest);
            return;
        }
        if thinking {
            self.pending = gap;
            self.back_to_thought(b"");
            return;
        }
        self.fault("text_in_section");
        self.show_held(&gap);
    }

    /// Shows text of a section, its opener before it if no call has justified that.
    fn show_held(&mut self, text: &[u8]) {
        self.section_shown |= !self.held.is_empty();
        let text = [std::mem::take(&mut self.held).as_slice(), text].concat();
        self.show(&text);
    }

    fn close_section(&mut self, thinking: bool, close: &[u8]) {
        if self.held.is_empty() {
            if self.section_shown {
                self.show(close);
            }
        } else if thinking {
            self.back_to_thought(close);
            return;
        } else {
            self.fault("section_empty");
            self.show_held(close);
        }
        self.leave_section();
    }

    /// Back to the content; what is held is content too.
    fn leave_section(&mut self) {
        self.show_held(b"");
        self.in_section = false;
        self.searched = self.content.len();
        self.place = Place::Content;
    }

    /// The answer ends in a section.
    pub(super) fn settle_section(&mut self, thinking: bool) {
        self.settle_gap(thinking);
        if !matches!(self.place, Place::Section { .. }) {
            return;
        }
        self.remark("section_unclosed");
        self.section_open = true;
        if !self.held.is_empty() {
            self.ill_formed = true;
            if thinking {
                self.remark("call_ended_reasoning");
            }
        }
        self.leave_section();
    }
}
