//! Answers for `tests/real/force_tokens.py`, put together from text and ids.

use rollgate_tests::chat::send;
use serde_json::{Value, json};

pub const IM_START: u32 = 151_644;
pub const IM_END: u32 = 151_645;
pub const TOOL_CALL: u32 = 151_657;
pub const TOOL_CALL_END: u32 = 151_658;
pub const THINK: u32 = 151_667;
pub const THINK_END: u32 = 151_668;
pub const ASSISTANT: u32 = 77_091;
/// Sampled freely, see tests/real/force_tokens.py.
const FREE: i64 = -1;

/// What stands in an answer: text in the tokenizer's own split, or ids.
pub enum Piece<'a> {
    Text(&'a str),
    Id(u32),
    Free(usize),
}

use Piece::{Free, Id, Text};

/// One list of ids per answer.
pub fn forced(engine: &str, answers: &[Vec<Piece<'_>>]) -> Vec<Vec<i64>> {
    let answer = |pieces: &Vec<Piece<'_>>| pieces.iter().flat_map(|p| ids(engine, p)).collect();
    answers.iter().map(answer).collect()
}

fn ids(engine: &str, piece: &Piece<'_>) -> Vec<i64> {
    match piece {
        Id(id) => vec![i64::from(*id)],
        Free(count) => vec![FREE; *count],
        Text(text) => {
            let body = json!({"model": "tiny", "prompt": text, "add_special_tokens": false});
            tokenized(engine, &body).into_iter().map(i64::from).collect()
        }
    }
}

/// Ids by the engine's own tokenizer.
pub fn tokenized(engine: &str, body: &Value) -> Vec<u32> {
    let (status, text) = send("POST", &format!("{engine}/tokenize"), None, Some(&body.to_string()));
    assert_eq!(status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    numbers(&answer["tokens"])
}

/// A list of ids.
pub fn numbers(value: &Value) -> Vec<u32> {
    let numbers = value.as_array().unwrap_or_else(|| panic!("not a list of ids: {value}"));
    numbers.iter().map(|id| id.as_u64().unwrap() as u32).collect()
}
