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
    /// Whether they belong to the next turn.
    pub begins_next: bool,
    /// Ids that end open reasoning, with the white space that the template writes around them.
    pub end_of_reasoning: Vec<TokenId>,
    /// Whether the tools never show behind a turn's end.
    pub tools_in_header: bool,
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
        Ok(Self { closers, begins_next: family.ends_with_next_role(), ..Self::default() })
    }

    /// Whether a generation that ends with this id has ended its turn.
    pub fn closes(&self, last: Option<TokenId>) -> bool {
        self.closers.iter().any(|(_, id)| Some(*id) == last)
    }

    /// Where, in a render, the text behind the turn that holds `sentinel` begins.
    pub fn after(&self, text: &str, sentinel: &str) -> Option<usize> {
        let from = text.find(sentinel)? + sentinel.len();
        let rest = text.get(from..)?;
        let first =
            |(close, _): &(String, TokenId)| Some((rest.find(close.as_str())?, close.len()));
        let (at, length) = self.closers.iter().filter_map(first).min()?;
        Some(from + at + if self.begins_next { 0 } else { length })
    }
}
