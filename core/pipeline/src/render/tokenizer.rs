//! Tokenizers behind one trait.

use std::sync::Arc;

use crate::id::TokenId;

/// What to do with text that spells an added token (`<|im_end|>` in a file).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlText {
    /// It is the token: for text that the template wrote.
    Match,
    /// It is plain text: for text from outside. Holds for every added token, whether or not the
    /// file calls it special.
    Plain,
}

/// Text to ids and ids to bytes.
pub trait Tokenizer: Send + Sync {
    /// Appends the ids of `text`, without adding a BOS or EOS.
    fn encode(
        &self,
        text: &str,
        control: ControlText,
        out: &mut Vec<TokenId>,
    ) -> Result<(), String>;
    /// Bytes of one id, by table; `None` for an id outside the vocabulary.
    fn bytes_of(&self, id: TokenId) -> Option<&[u8]>;
    /// Id of an added token by its exact text.
    fn added(&self, text: &str) -> Option<TokenId>;
    /// Largest id plus one that the tokenizer knows.
    fn size(&self) -> u32;
    /// One that does the same and shares nothing with this one that encoding writes to; `None` where
    /// this one can be shared. Costs as much as loading it.
    fn separate(&self) -> Result<Option<Arc<dyn Tokenizer>>, String> {
        Ok(None)
    }
}
