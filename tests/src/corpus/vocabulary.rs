//! Ids to text by the tokenizer's own file, and by nothing else.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

/// The bytes of every id.
#[derive(Debug)]
pub struct Vocabulary {
    bytes: Vec<Vec<u8>>,
    /// Ids of control texts.
    added: HashMap<String, u32>,
}

impl Vocabulary {
    /// Reads a byte-level `tokenizer.json`.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("the tokenizer can be read");
        let file: Value = serde_json::from_str(&text).expect("the tokenizer is JSON");
        let letters = letters();
        let id =
            |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok()).expect("an id");
        let plain = file["model"]["vocab"].as_object().expect("a vocabulary");
        let tokens = file["added_tokens"].as_array().expect("added tokens");
        let added: HashMap<String, u32> = tokens
            .iter()
            .map(|token| (token["content"].as_str().expect("a text").to_owned(), id(&token["id"])))
            .collect();
        let spelled = plain
            .iter()
            .map(|(token, value)| (id(value), token.chars().map(|c| letters[&c]).collect()));
        let controls = added.iter().map(|(text, id)| (*id, text.clone().into_bytes()));
        let mut bytes: Vec<Vec<u8>> = Vec::new();
        for (id, spelling) in spelled.chain(controls) {
            bytes.resize(bytes.len().max(id as usize + 1), Vec::new());
            bytes[id as usize] = spelling;
        }
        Self { bytes, added }
    }

    /// The text of ids, control tokens written out.
    pub fn text(&self, ids: &[u32]) -> String {
        let mut bytes = Vec::with_capacity(4 * ids.len());
        ids.iter().for_each(|id| bytes.extend_from_slice(&self.bytes[*id as usize]));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The id of a control token.
    pub fn control(&self, text: &str) -> u32 {
        self.added[text]
    }
}

/// The letters that stand for bytes in byte-level vocabularies.
fn letters() -> HashMap<char, u8> {
    let mut letters = HashMap::new();
    let mut extra = 256;
    for byte in 0..=255_u8 {
        let plain = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
        let code = if plain {
            u32::from(byte)
        } else {
            extra += 1;
            extra - 1
        };
        letters.insert(char::from_u32(code).expect("a letter"), byte);
    }
    letters
}
