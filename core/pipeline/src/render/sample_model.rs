//! A tiny model for tests: a byte-level BPE tokenizer and a ChatML template with Qwen3's habits.
//!
//! Every byte is a token of its own (ids 0 to 255, the byte's value), a few merges follow, then the
//! added tokens. Ids are therefore easy to read in a failing test.

#![expect(
    clippy::panic,
    reason = "a sample model that does not load is a broken test, not a fault"
)]

use serde_json::{Map, Value, json};

use super::vocabulary::char_of;
use super::{Model, ModelFiles};
use crate::id::TokenId;

/// Merges beyond single bytes, as texts; ids 256 and up in this order.
const MERGED: [&str; 14] =
    ["\n\n", " t", "he", " the", "in", "er", "an", "re", "on", " a", "us", "user", "  ", "    "];

/// Added tokens, ids after the merges in this order. As with Qwen3 only the first three are called
/// special.
const ADDED: [&str; 9] = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
];

/// How to cut each merged text into the two tokens that merge.
const CUTS: [(&str, &str); 14] = [
    ("\n", "\n"),
    (" ", "t"),
    ("h", "e"),
    (" t", "he"),
    ("i", "n"),
    ("e", "r"),
    ("a", "n"),
    ("r", "e"),
    ("o", "n"),
    (" ", "a"),
    ("u", "s"),
    ("us", "er"),
    (" ", " "),
    ("  ", "  "),
];

/// Text ids of the vocabulary's size in `config.json`: more than the tokenizer has, as with Qwen3.
pub const VOCAB_SIZE: u32 = 320;
/// Context length of the sample model.
pub const MAX_CONTEXT: u32 = 32_768;

/// The sample model, ready to serve.
pub fn test_model() -> Model {
    match Model::load(test_files()) {
        Ok(model) => model,
        Err(error) => panic!("the sample model must load: {error}"),
    }
}

/// The files it is loaded from.
pub fn test_files() -> ModelFiles {
    let config = json!({"vocab_size": VOCAB_SIZE, "max_position_embeddings": MAX_CONTEXT});
    let tokenizer_config = json!({"eos_token": "<|im_end|>", "model_max_length": 131_072});
    ModelFiles {
        name: "sample".to_owned(),
        tokenizer: tokenizer_json(),
        tokenizer_config: tokenizer_config.to_string().into_bytes(),
        template: Some(TEMPLATE.to_owned()),
        config: Some(config.to_string().into_bytes()),
        generation_config: None,
        max_context: None,
        inject_engine: false,
    }
}

/// Files of a model with this template and these added tokens, the first of which is its BOS. All
/// else is as in the sample model.
pub fn files_of(template: Option<&str>, added: &[&str]) -> ModelFiles {
    let tokenizer_config = json!({"bos_token": added.first(), "model_max_length": MAX_CONTEXT});
    ModelFiles {
        name: "sample".to_owned(),
        tokenizer: tokenizer_with(added),
        tokenizer_config: tokenizer_config.to_string().into_bytes(),
        template: template.map(str::to_owned),
        ..ModelFiles::default()
    }
}

/// The sample template.
pub const TEMPLATE: &str = include_str!("sample_template.jinja");

/// Id of an added token of the sample model, such as `<|im_end|>`.
pub fn marker(text: &str) -> TokenId {
    match ADDED.iter().position(|added| *added == text) {
        Some(at) => (256 + MERGED.len() + at) as TokenId,
        None => panic!("the sample model has no added token {text:?}"),
    }
}

/// The sample model's `tokenizer.json`.
pub fn tokenizer_json() -> Vec<u8> {
    tokenizer_with(&ADDED)
}

/// A `tokenizer.json` as the sample model's, with these added tokens behind the merges.
fn tokenizer_with(added: &[&str]) -> Vec<u8> {
    let spell = |text: &str| text.bytes().map(char_of).collect::<String>();
    let mut vocab = Map::new();
    for byte in 0..=255_u8 {
        vocab.insert(char_of(byte).to_string(), Value::from(byte));
    }
    for (at, text) in MERGED.iter().enumerate() {
        vocab.insert(spell(text), Value::from(256 + at));
    }
    let merges: Vec<Value> = CUTS.iter().map(|(l, r)| json!([spell(l), spell(r)])).collect();
    let added: Vec<Value> = added
        .iter()
        .enumerate()
        .map(|(at, text)| {
            json!({
                "id": 256 + MERGED.len() + at, "content": text, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": at < 3,
            })
        })
        .collect();
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false,
    });
    let file = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": WORDS}, "behavior": "Isolated", "invert": false},
            byte_level,
        ]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false, "vocab": vocab, "merges": merges,
        },
    });
    file.to_string().into_bytes()
}

/// The word pattern of the Qwen family: the serving tokenizer knows it without a regex engine.
const WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
