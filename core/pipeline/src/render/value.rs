//! JSON as templates see it: Python's numbers, which have no largest integer.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Object, ObjectRepr};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::control::Guard;
use crate::limits;

/// An integer too large for the machine, as its digits.
#[derive(Debug)]
pub(super) struct Integer(String);

impl Object for Integer {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A parsed value; all its text passes the guard.
pub(super) fn from_json(value: &Json, guard: &Guard<'_>) -> Value {
    match value {
        Json::String(text) => guard.apply(text).as_ref().into(),
        Json::Array(items) => items.iter().map(|item| from_json(item, guard)).collect(),
        Json::Object(map) => {
            let key = |key: &String| Value::from(guard.apply(key).as_ref());
            map.iter().map(|(name, value)| (key(name), from_json(value, guard))).collect()
        }
        plain => Value::from_serialize(plain),
    }
}

/// The object that this text spells, numbers exact; `None` where it spells none.
pub(super) fn object(text: &str, guard: &Guard<'_>) -> Option<Value> {
    if !has_large_number(text)
        && let Ok(value) = serde_json::from_str::<Json>(text)
    {
        return value.is_object().then(|| from_json(&value, guard));
    }
    let raw = serde_json::from_str::<&RawValue>(text).ok()?;
    raw.get().starts_with('{').then(|| from_raw(raw.get(), 0, guard))?
}

/// Whether a number in it may not fit 64 bits: a run of nineteen digits, in text or not.
fn has_large_number(text: &str) -> bool {
    let mut run = 0_u32;
    text.bytes().any(|byte| {
        run = if byte.is_ascii_digit() { run + 1 } else { 0 };
        run >= 19
    })
}

fn from_raw(text: &str, depth: usize, guard: &Guard<'_>) -> Option<Value> {
    if depth > limits::JSON_DEPTH {
        return None;
    }
    Some(match text.bytes().next()? {
        b'{' => {
            let Entries(entries) = serde_json::from_str(text).ok()?;
            let entry = |(key, raw): (String, &RawValue)| {
                let key = Value::from(guard.apply(&key).as_ref());
                Some((key, from_raw(raw.get(), depth + 1, guard)?))
            };
            entries.into_iter().map(entry).collect::<Option<Vec<_>>>()?.into_iter().collect()
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            let item = |raw: &RawValue| from_raw(raw.get(), depth + 1, guard);
            items.into_iter().map(item).collect::<Option<Vec<Value>>>()?.into()
        }
        b'"' => guard.apply(&serde_json::from_str::<String>(text).ok()?).as_ref().into(),
        b'-' | b'0'..=b'9' => number(text)?,
        _ => Value::from_serialize(serde_json::from_str::<Json>(text).ok()?),
    })
}

fn number(text: &str) -> Option<Value> {
    if text.contains(['.', 'e', 'E']) {
        return text.parse::<f64>().ok().map(Value::from);
    }
    let small = text.parse::<i64>().map(Value::from);
    let wide = small.or_else(|_| text.parse::<i128>().map(Value::from));
    Some(wide.unwrap_or_else(|_| Value::from_object(Integer(text.to_owned()))))
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
    use super::super::template::Template;
    use super::*;

    fn shown(text: &str) -> Option<String> {
        let guard = Guard::new(None, 0);
        let value = object(text, &guard)?;
        let template = Template::compile("{{ v | tojson }} {{ v.a }}").unwrap();
        Some(template.render(&minijinja::context!(v => value)).unwrap())
    }

    #[test]
    fn integers_have_no_largest() {
        let all = r#"{"a": 123456789012345678901234567890123456789012345, "b": [18446744073709551616, -9223372036854775809], "c": "x", "d": 1.5, "e": null}"#;
        let expected = format!("{all} 123456789012345678901234567890123456789012345");
        assert_eq!(shown(all).as_deref(), Some(expected.as_str()));
    }

    #[test]
    fn small_numbers_print_as_before() {
        let text = r#"{"a": 1, "b": 1.0, "c": -7, "d": {"e": [true]}, "f": 18446744073709551615}"#;
        assert_eq!(shown(text), Some(format!("{text} 1")));
        assert_eq!(shown(r#"{"a": 1e400}"#).as_deref(), Some(r#"{"a": Infinity} inf"#));
    }

    #[test]
    fn what_is_no_object_is_none() {
        for text in ["", "[1]", "3", r#"{"a": "#, "{\"a\": 12345678901234567890123"] {
            assert_eq!(shown(text), None, "{text}");
        }
        let deep = format!(
            "{{\"a\": 1234567890123456789, \"b\": {}1{}}}",
            "[".repeat(500),
            "]".repeat(500)
        );
        assert_eq!(shown(&deep), None);
    }
}
