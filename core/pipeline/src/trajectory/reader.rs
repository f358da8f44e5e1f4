//! What matching asks of the served model, so that it needs to know none.

use crate::id::TokenId;
use crate::turn::Message;

/// Reads texts the way the served model does.
pub trait Reader {
    /// Whether the template writes `sent` (an assistant message) as the text that `sampled` spells.
    /// Then the engine would read the same, whatever the JSON looks like.
    fn reads_as(&self, sent: &Message, sampled: &[TokenId]) -> bool;

    /// How many tokens a text has.
    fn tokens(&self, text: &str) -> u32;
}
