//! How a turn of the model ends in text.
//!
//! Most templates write a token of its own behind an answer (`<|im_end|>`). Some families stop with
//! the token that begins the next turn (`<|user|>`, `<|observation|>`): there, nothing is written
//! between an answer and that token.

use super::control::ControlTexts;
use super::family::Family;
use crate::id::TokenId;

/// How the template ends an assistant's turn.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct TurnEnd {
    /// The tokens behind which a turn is over; the one that the template writes is the first.
    pub closers: Vec<(String, TokenId)>,
    /// Where closers belong to the next turn: the tokens that begin one, whoever speaks.
    pub next_roles: &'static [&'static str],
    /// Ids that end open reasoning, with the white space that the template writes around them.
    pub end_of_reasoning: Vec<TokenId>,
    /// Whether the tools never show behind a turn's end.
    pub tools_in_header: bool,
    /// Whether markers behind a turn's end depend on what came long before.
    pub markers_vary: bool,
}

impl TurnEnd {
    /// Learns it from what the template writes between an answer and the user's next message.
    pub fn learn(family: Family, between: &str, control: &ControlTexts) -> Result<Self, String> {
        let (at, close, id) = control.find(between).ok_or(
            "no added token ends an assistant's turn, so a generation cannot be continued exactly",
        )?;
        if !between[..at].trim().is_empty() {
            return Err(format!(
                "it writes {:?} between an answer and {close:?}, which a model would not",
                &between[..at]
            ));
        }
        let mut closers = vec![(close.to_owned(), id)];
        for text in family.closers() {
            let known = control.find(text).filter(|(_, found, _)| found == text && *text != close);
            closers.extend(known.map(|(_, found, id)| (found.to_owned(), id)));
        }
        Ok(Self { closers, next_roles: family.next_roles(), ..Self::default() })
    }

    /// Whether a turn has no end of its own: the token that begins the next one ends it.
    pub fn begins_next(&self) -> bool {
        !self.next_roles.is_empty()
    }

    /// Whether a generation that ends with this id has ended its turn.
    pub fn closes(&self, last: Option<TokenId>) -> bool {
        self.closers.iter().any(|(_, id)| Some(*id) == last)
    }

    /// Where, in a render, the text behind the turn that ends in `sentinel` begins.
    pub fn after(&self, text: &str, sentinel: &str) -> Option<usize> {
        let from = text.rfind(sentinel)? + sentinel.len();
        let rest = text.get(from..)?;
        if self.begins_next() {
            let at = self.next_roles.iter().filter_map(|role| rest.find(role)).min()?;
            return Some(from + at);
        }
        let end = |(close, _): &(String, TokenId)| Some((rest.find(close.as_str())?, close.len()));
        let (at, length) = self.closers.iter().filter_map(end).min()?;
        Some(from + at + length)
    }
}
