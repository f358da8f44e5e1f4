//! What a `tokenizer.json` says about single ids: their bytes, and which texts are added tokens.
//!
//! Only byte-level BPE is served: there every id stands for fixed bytes, whatever comes before it.

use std::collections::HashMap;

use serde_json::Value;

use crate::id::TokenId;

/// An added token of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddedToken {
    /// Its exact text.
    pub text: String,
    /// Its id.
    pub id: TokenId,
    /// Whether matching it depends on its neighbours (`lstrip`, `rstrip`, `single_word`).
    pub contextual: bool,
}

/// Ids to bytes, and the added tokens.
#[derive(Debug)]
pub struct Vocabulary {
    bytes: Vec<u8>,
    /// Where the bytes of each id lie; `None` for a hole.
    places: Vec<Option<(u32, u32)>>,
    added: Vec<AddedToken>,
    /// Ids of the added tokens: every answer asks for a dozen, and some files have a thousand.
    by_text: HashMap<String, TokenId>,
}

impl Vocabulary {
    /// Reads the parsed file, before or after it was made canonical.
    pub fn read(file: &Value) -> Result<Self, String> {
        let model = &file["model"];
        if !is_byte_level(file) {
            return Err("it is not a byte-level BPE tokenizer, and no other kind is served".into());
        }
        let vocab =
            model["vocab"].as_object().ok_or("`model.vocab` is not an object from token to id")?;
        let added = read_added(file)?;
        let mut by_text = HashMap::new();
        for token in &added {
            by_text.entry(token.text.clone()).or_insert(token.id);
        }
        let mut table = Self { bytes: Vec::new(), places: Vec::new(), added, by_text };
        for (token, id) in vocab {
            let id = read_id(id).ok_or_else(|| format!("token {token:?} has no usable id"))?;
            // A token with a character outside the alphabet can only be an added one.
            let mut bytes = Vec::with_capacity(token.len());
            if token.chars().all(|c| byte_of(c).map(|b| bytes.push(b)).is_some()) {
                table.put(id, &bytes);
            }
        }
        for token in table.added.clone() {
            table.put(token.id, token.text.as_bytes());
        }
        Ok(table)
    }

    /// Bytes of an id.
    pub fn bytes_of(&self, id: TokenId) -> Option<&[u8]> {
        let (start, end) = (*self.places.get(id as usize)?)?;
        self.bytes.get(start as usize..end as usize)
    }

    /// Id of the added token with this exact text.
    pub fn added(&self, text: &str) -> Option<TokenId> {
        self.by_text.get(text).copied()
    }

    /// All added tokens, in the order of the file.
    pub fn all_added(&self) -> &[AddedToken] {
        &self.added
    }

    /// Largest id plus one.
    pub fn size(&self) -> u32 {
        self.places.len() as u32
    }

    fn put(&mut self, id: TokenId, bytes: &[u8]) {
        let at = id as usize;
        if at >= self.places.len() {
            self.places.resize(at + 1, None);
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        self.places[at] = Some((start, self.bytes.len() as u32));
    }
}

fn read_id(value: &Value) -> Option<TokenId> {
    // An id beyond this would make the table itself a danger.
    value.as_u64().filter(|id| *id < 1 << 24).map(|id| id as TokenId)
}

fn read_added(file: &Value) -> Result<Vec<AddedToken>, String> {
    let none = Vec::new();
    let mut added = Vec::new();
    for entry in file["added_tokens"].as_array().unwrap_or(&none) {
        let flag = |name: &str| entry[name].as_bool().unwrap_or(false);
        let text = entry["content"].as_str().filter(|text| !text.is_empty());
        let (Some(text), Some(id)) = (text, read_id(&entry["id"])) else {
            return Err(format!("an added token has no usable text or id: {entry}"));
        };
        added.push(AddedToken {
            text: text.to_owned(),
            id,
            contextual: flag("lstrip") || flag("rstrip") || flag("single_word"),
        });
    }
    Ok(added)
}

/// Whether tokens are spelled in the byte alphabet: a `ByteLevel` pre-tokenizer in a file as models
/// ship it, a flag of the model in the canonical form.
fn is_byte_level(file: &Value) -> bool {
    let pre = &file["pre_tokenizer"];
    let byte_level = |part: &Value| part["type"] == "ByteLevel";
    file["model"]["byte_level"] == true
        || byte_level(pre)
        || pre["pretokenizers"].as_array().is_some_and(|parts| parts.iter().any(byte_level))
}

/// The byte that a character of the byte alphabet stands for. Printable Latin-1 stands for itself;
/// the 68 other bytes, in order, are spelled U+0100 and up.
fn byte_of(c: char) -> Option<u8> {
    let code = c as u32;
    match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => Some(code as u8),
        0x100..=0x120 => Some((code - 0x100) as u8),
        0x121..=0x142 => Some((code - 0x121 + 0x7F) as u8),
        0x143 => Some(0xAD),
        _ => None,
    }
}

/// How the byte alphabet spells a byte.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn char_of(byte: u8) -> char {
    ('\u{21}'..='\u{143}').find(|c| byte_of(*c) == Some(byte)).unwrap_or('\u{FFFD}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_has_one_character_per_byte() {
        let spelled: std::collections::BTreeSet<char> = (0..=255).map(char_of).collect();
        assert_eq!(spelled.len(), 256);
        assert!(!spelled.contains(&'\u{FFFD}'));
        assert_eq!([char_of(b' '), char_of(b'\n'), char_of(b'A')], ['Ġ', 'Ċ', 'A']);
    }

    #[test]
    fn a_tokenizer_of_another_kind_is_refused() {
        let file = serde_json::json!({"model": {"type": "Unigram", "vocab": {}}});
        let reason = Vocabulary::read(&file).unwrap_err();
        assert!(reason.contains("byte-level"), "{reason}");
    }
}
