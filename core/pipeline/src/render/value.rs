//! JSON as templates see it: Python's numbers, which have no largest integer.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Object, ObjectRepr};
use serde_json::Value as Json;

use super::control::Guard;
use crate::exact;

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
            if let Some(digits) = exact::digits(map) {
                return Value::from_object(Integer(digits.to_owned()));
            }
            let key = |key: &String| Value::from(guard.apply(key).as_ref());
            map.iter().map(|(name, value)| (key(name), from_json(value, guard))).collect()
        }
        plain => Value::from_serialize(plain),
    }
}

/// The object that this text spells, numbers exact; `None` where it spells none.
pub(super) fn object(text: &str, guard: &Guard<'_>) -> Option<Value> {
    let value = exact::read(text)?;
    value.is_object().then(|| from_json(&value, guard))
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
        assert_eq!(shown("[1]"), None);
        assert_eq!(shown(r#"{"a": "#), None);
    }
}
