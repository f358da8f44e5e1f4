//! The reference tokenizer: the 0.2x line of `tokenizers`, against which the serving one is checked.
//!
//! Slow by design; never serves.

use serde_json::Value;
use tokenizers_oracle::Tokenizer as Reference;

use super::fast::make_all_special;
use super::vocabulary::Vocabulary;
use super::{ControlText, Tokenizer};
use crate::id::TokenId;

/// The reference tokenizer.
pub struct OracleTokenizer {
    matching: Reference,
    plain: Reference,
    vocabulary: Vocabulary,
}

impl OracleTokenizer {
    /// Loads the content of a `tokenizer.json`. The error is the reason alone.
    pub fn load(raw: &[u8]) -> Result<Self, String> {
        let mut file: Value =
            serde_json::from_slice(raw).map_err(|error| format!("it is not JSON: {error}"))?;
        let vocabulary = Vocabulary::read(&file)?;
        let matching = Reference::from_bytes(raw).map_err(|error| error.to_string())?;
        make_all_special(&mut file);
        let mut plain =
            Reference::from_bytes(file.to_string()).map_err(|error| error.to_string())?;
        plain.set_encode_special_tokens(true);
        Ok(Self { matching, plain, vocabulary })
    }
}

impl Tokenizer for OracleTokenizer {
    fn encode(
        &self,
        text: &str,
        control: ControlText,
        out: &mut Vec<TokenId>,
    ) -> Result<(), String> {
        let reference = match control {
            ControlText::Match => &self.matching,
            ControlText::Plain => &self.plain,
        };
        let encoding = reference.encode_fast(text, false).map_err(|error| error.to_string())?;
        out.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    fn bytes_of(&self, id: TokenId) -> Option<&[u8]> {
        self.vocabulary.bytes_of(id)
    }

    fn added(&self, text: &str) -> Option<TokenId> {
        self.matching.get_added_vocabulary().get_vocab().get(text).copied()
    }

    fn size(&self) -> u32 {
        self.matching.get_vocab_size(true) as u32
    }
}
