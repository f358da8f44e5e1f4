//! Text that is rendered and not encoded yet.

use super::control::Marks;
use super::{Model, Stretch};
use crate::fault::Fault;
use crate::id::TokenId;
use crate::id_text::Spelled;

/// A stretch before it is encoded. Holds all that encoding needs, the model aside.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Ids that stand before those of the text.
    pub(super) before: Spelled,
    pub(super) text: String,
    /// Where in the text the part to encode begins.
    pub(super) start: usize,
    pub(super) marks: Marks,
    /// The sampled token that begins the next turn: the text's first one, or one beside it.
    pub(super) joins: Option<TokenId>,
    pub(super) marker_conflicts: u32,
    pub(super) head: HeadUse,
}

/// What became of the head of a whole render: the part that many sessions share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HeadUse {
    /// Nothing was looked up.
    #[default]
    None,
    /// Its ids were known.
    Known,
    /// They were not.
    New,
}

impl Draft {
    /// The part of a render that begins at `start`.
    pub(super) fn of(text: String, start: usize, marks: Marks) -> Self {
        let (before, joins) = (Spelled::default(), None);
        Self { before, text, start, marks, joins, marker_conflicts: 0, head: HeadUse::None }
    }

    /// The text to encode.
    pub(super) fn text(&self) -> &str {
        self.text.get(self.start..).unwrap_or("")
    }

    /// Bytes of the text to encode.
    pub fn bytes(&self) -> usize {
        self.text.len().saturating_sub(self.start)
    }

    /// What became of the head.
    pub fn head(&self) -> HeadUse {
        self.head
    }

    /// Encodes it.
    pub fn encode(self, model: &Model) -> Result<Stretch, Fault> {
        let mut ids = Vec::new();
        model.encode(self.text(), self.marks, &mut ids)?;
        let mut marker_conflicts = self.marker_conflicts;
        let mut joined = 0;
        if let Some(sampled) = self.joins {
            match ids.first() == Some(&sampled) {
                true => joined = 1,
                false => marker_conflicts += 1,
            }
        }
        let mut all = self.before;
        all.ids.extend_from_slice(&ids[joined..]);
        Ok(Stretch { ids: all, marker_conflicts })
    }
}
