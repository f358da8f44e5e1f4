//! The tokenizer that serves: `tokenizers` 1.x, tens of times faster than the 0.2x line.
//!
//! A file that it refuses is refused, with its reason: there is no slow way round.

use std::sync::Arc;

use serde_json::Value;
use tokenizers::pipeline::{EncodeOptions, Override, PipelineToken, PipelineTokenizer};

use super::vocabulary::{AddedToken, Vocabulary};
use super::{ControlText, Tokenizer};
use crate::id::TokenId;

/// The serving tokenizer.
pub struct FastTokenizer {
    encoder: PipelineTokenizer,
    /// What the encoder was made from, to make others.
    file: Arc<str>,
    vocabulary: Arc<Vocabulary>,
    firm: Vec<TokenId>,
    matching: EncodeOptions,
    plain: EncodeOptions,
}

impl FastTokenizer {
    /// Loads the content of a `tokenizer.json`. The error is the reason alone.
    pub fn load(raw: &[u8]) -> Result<Self, String> {
        let mut file: Value =
            serde_json::from_slice(raw).map_err(|error| format!("it is not JSON: {error}"))?;
        let vocabulary = Vocabulary::read(&file)?;
        let firm = firm(&file);
        tokenizers::canonicalize_value(&mut file).map_err(|error| error.to_string())?;
        make_all_special(&mut file);
        let file: Arc<str> = file.to_string().into();
        let encoder = tokenizers::from_json(&file).map_err(|error| error.to_string())?;
        let matching = EncodeOptions {
            add_special_tokens: false,
            encode_special_tokens: false,
            padding: Override::Off,
            truncation: Override::Off,
        };
        let plain = EncodeOptions { encode_special_tokens: true, ..matching.clone() };
        let loaded =
            Self { encoder, file, vocabulary: Arc::new(vocabulary), firm, matching, plain };
        loaded.check_added_ids()?;
        Ok(loaded)
    }

    /// All added tokens of the file.
    pub fn all_added(&self) -> &[AddedToken] {
        self.vocabulary.all_added()
    }

    /// Ids of the added tokens that are matched in the text as it stands, before it is normalized.
    /// None where matching any of them depends on its neighbours.
    pub(super) fn firm(&self) -> &[TokenId] {
        &self.firm
    }

    /// The encoder numbers added tokens by itself; where the file has a gap, the two disagree.
    fn check_added_ids(&self) -> Result<(), String> {
        for token in self.vocabulary.all_added() {
            let mut ids = Vec::new();
            self.encode(&token.text, ControlText::Match, &mut ids)?;
            if ids != [token.id] {
                return Err(format!(
                    "added token {:?} has id {} in the file, but encodes to {ids:?}",
                    token.text, token.id
                ));
            }
        }
        Ok(())
    }
}

impl Tokenizer for FastTokenizer {
    fn encode(
        &self,
        text: &str,
        control: ControlText,
        out: &mut Vec<TokenId>,
    ) -> Result<(), String> {
        let options = match control {
            ControlText::Match => &self.matching,
            ControlText::Plain => &self.plain,
        };
        let mut tokens: Vec<PipelineToken> = Vec::with_capacity(text.len() / 3 + 8);
        self.encoder.encode_into(text, options, &mut tokens).map_err(|error| error.to_string())?;
        out.extend_from_slice(PipelineToken::cast_slice(&tokens));
        Ok(())
    }

    fn bytes_of(&self, id: TokenId) -> Option<&[u8]> {
        self.vocabulary.bytes_of(id)
    }

    fn added(&self, text: &str) -> Option<TokenId> {
        self.vocabulary.added(text)
    }

    fn size(&self) -> u32 {
        self.vocabulary.size()
    }

    /// An encoder takes its working memory from a pool behind locks, which lie side by side: threads
    /// that share one write to the same cache lines.
    fn separate(&self) -> Result<Option<Arc<dyn Tokenizer>>, String> {
        let encoder = tokenizers::from_json(&self.file).map_err(|error| error.to_string())?;
        Ok(Some(Arc::new(Self {
            encoder,
            file: self.file.clone(),
            vocabulary: self.vocabulary.clone(),
            firm: self.firm.clone(),
            matching: self.matching.clone(),
            plain: self.plain.clone(),
        })))
    }
}

/// Both tokenizer lines can switch off the matching of *special* added tokens only, yet `<think>`
/// and `<tool_call>` are added tokens without that flag. The flag has no other effect on encoding.
pub(super) fn make_all_special(file: &mut Value) {
    if let Some(tokens) = file["added_tokens"].as_array_mut() {
        for token in tokens.iter_mut().filter_map(Value::as_object_mut) {
            token.insert("special".to_owned(), Value::Bool(true));
        }
    }
}

/// See [`FastTokenizer::firm`].
fn firm(file: &Value) -> Vec<TokenId> {
    let tokens = file["added_tokens"].as_array().map_or(&[][..], Vec::as_slice);
    let flag = |token: &Value, name: &str| token[name].as_bool().unwrap_or(false);
    let leans =
        |token: &Value| ["lstrip", "rstrip", "single_word"].iter().any(|name| flag(token, name));
    if tokens.iter().any(leans) {
        return Vec::new();
    }
    let firm = tokens.iter().filter(|token| !token["normalized"].as_bool().unwrap_or(true));
    firm.filter_map(|token| TokenId::try_from(token["id"].as_u64()?).ok()).collect()
}
