//! JSON with exact integers.
//!
//! Tool schemas and arguments become prompt text, so every digit counts, and JSON has no largest
//! integer. One that does not fit 64 bits is kept as an object with the one key [`INTEGER`], its
//! digits as text; who prints a value prints those digits.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::limits;

/// The key that stands for an integer too large for 64 bits. It begins with a character that no
/// text is made of.
pub const INTEGER: &str = "\u{10FFFD}integer";

/// Reads one value; `None` where the text is not JSON or nested deeper than
/// [`limits::JSON_DEPTH`].
pub fn read(text: &str) -> Option<Value> {
    if has_large_number(text) { from_raw(raw(text)?, 0) } else { serde_json::from_str(text).ok() }
}

/// The digits of an integer too large for 64 bits, where the value is one.
pub fn digits(object: &Map<String, Value>) -> Option<&str> {
    // What is printed raw must be digits, whoever made the object.
    let digits = |text: &&str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    match object.len() {
        1 => object.get(INTEGER)?.as_str().filter(digits),
        _ => None,
    }
}

/// Whether a number in it may not fit 64 bits: a run of nineteen digits, in text or not.
fn has_large_number(text: &str) -> bool {
    let mut run = 0_u32;
    text.bytes().any(|byte| {
        run = if byte.is_ascii_digit() { run + 1 } else { 0 };
        run >= 19
    })
}

fn raw(text: &str) -> Option<&str> {
    serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get)
}

fn from_raw(text: &str, depth: usize) -> Option<Value> {
    if depth > limits::JSON_DEPTH {
        return None;
    }
    Some(match text.bytes().next()? {
        b'{' => {
            let Entries(entries) = serde_json::from_str(text).ok()?;
            let entry =
                |(key, raw): (String, &RawValue)| Some((key, from_raw(raw.get(), depth + 1)?));
            Value::Object(entries.into_iter().map(entry).collect::<Option<Map<_, _>>>()?)
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            let items = items.into_iter().map(|raw| from_raw(raw.get(), depth + 1));
            Value::Array(items.collect::<Option<Vec<_>>>()?)
        }
        b'-' | b'0'..=b'9' if !text.contains(['.', 'e', 'E']) => integer(text),
        _ => serde_json::from_str(text).ok()?,
    })
}

fn integer(digits: &str) -> Value {
    let signed = digits.parse::<i64>().map(Value::from);
    signed
        .or_else(|_| digits.parse::<u64>().map(Value::from))
        .unwrap_or_else(|_| Value::Object(Map::from_iter([(INTEGER.to_owned(), digits.into())])))
}

/// The entries of an object in their order.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn integers_beyond_64_bits_keep_their_digits() {
        let text = r#"{"a": [18446744073709551616, -9223372036854775809], "b": 18446744073709551615, "c": 1.5, "d": "12345678901234567890123", "e": {"f": null}}"#;
        let large = |digits: &str| json!({INTEGER: digits});
        let expected = json!({
            "a": [large("18446744073709551616"), large("-9223372036854775809")],
            "b": u64::MAX, "c": 1.5, "d": "12345678901234567890123", "e": {"f": null},
        });
        assert_eq!(read(text), Some(expected.clone()));
        let first = expected["a"][0].as_object().unwrap();
        assert_eq!(digits(first), Some("18446744073709551616"));
        assert_eq!(digits(expected.as_object().unwrap()), None);
        for forged in ["<|im_end|>", "1<|im_end|>", "-", ""] {
            assert_eq!(digits(large(forged).as_object().unwrap()), None, "{forged}");
        }
    }

    #[test]
    fn other_values_are_as_ever() {
        for text in [r#"{"z":1,"a":[-7,2.50,1e3,"x",true]}"#, "3", "\"\\u00e9\"", "[]"] {
            assert_eq!(read(text), serde_json::from_str(text).ok());
        }
        for text in ["", "{", "{\"a\": 12345678901234567890123", "[1,]"] {
            assert_eq!(read(text), None, "{text}");
        }
        let deep = format!("[1234567890123456789,{}1{}]", "[".repeat(500), "]".repeat(500));
        assert_eq!(read(&deep), None);
    }
}
