//! JSON values that stand in running text, one after the other.
//!
//! Families without a closing marker end a call where its JSON ends, so the text behind a value
//! must be told from the value. A value is read once, from its first byte to its last.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::call::{self, Written};

/// What stands at the start of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start<'a> {
    /// A whole JSON value, and the text behind it.
    Value(&'a str, &'a [u8]),
    /// A value that goes on behind the end of the text.
    Unfinished,
    /// No JSON, or nothing but white space.
    Other,
}

/// Looks for a JSON value at the start of a text, white space before it left out.
pub fn start(text: &[u8]) -> Start<'_> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>();
    match values.next() {
        Some(Ok(value)) => {
            Start::Value(value.get(), text.get(values.byte_offset()..).unwrap_or_default())
        }
        Some(Err(error)) if error.is_eof() => Start::Unfinished,
        _ => Start::Other,
    }
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

/// Reads a valid JSON value as a call, or says in a remark why it is none. The arguments may be
/// called `arguments` or `parameters`, not both. Beside the call: the id that was written, if any.
pub fn call(json: &str) -> Result<(Written, Option<String>), &'static str> {
    if !json.starts_with('{') {
        return Err("call_bad_json");
    }
    let members: Members<'_> = serde_json::from_str(json).map_err(|_| "call_bad_json")?;
    let text = |value: &RawValue| serde_json::from_str::<String>(value.get()).ok();
    let name = members.name.and_then(text).filter(|name| !name.is_empty()).ok_or("call_no_name")?;
    let written = match (members.arguments, members.parameters) {
        (Some(written), None) | (None, Some(written)) => written.get(),
        (None, None) => return Err("call_no_arguments"),
        (Some(_), Some(_)) => return Err("call_bad_arguments"),
    };
    let (arguments, as_string) = call::arguments(written)?;
    Ok((Written { name, arguments, as_string }, members.id.and_then(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_where_its_json_ends() {
        let value = |text: &str, value: &str, rest: &str| {
            assert_eq!(start(text.as_bytes()), Start::Value(value, rest.as_bytes()));
        };
        value("{}", "{}", "");
        value(" \n{\"a\":\"}\\\"\"} b", "{\"a\":\"}\\\"\"}", " b");
        value("{\"x\":1}{\"y\":2}", "{\"x\":1}", "{\"y\":2}");
        value("[1, 2]\u{e9}", "[1, 2]", "\u{e9}");
        let other = |text: &[u8], expected| assert_eq!(start(text), expected);
        other(b"", Start::Other);
        other(b"hi", Start::Other);
        other(b"{a}", Start::Other);
        other(b"{\"a\":\"\xff\"}", Start::Other);
        other(b"{\"a\":", Start::Unfinished);
        other(b"{\"a", Start::Unfinished);
        other(&[b'['; 500_000], Start::Unfinished);
    }

    #[test]
    fn arguments_have_two_names() {
        let read = |json: &str| call(json).map(|(written, _)| written.arguments);
        assert_eq!(read(r#"{"name":"f","parameters":{"a": 1}}"#).unwrap(), r#"{"a": 1}"#);
        assert_eq!(read(r#"{"name":"f","arguments":"{}"}"#).unwrap(), "{}");
        assert_eq!(read(r#"{"name":"f"}"#), Err("call_no_arguments"));
        assert_eq!(
            read(r#"{"name":"f","parameters":{},"arguments":{}}"#),
            Err("call_bad_arguments")
        );
        assert_eq!(read(r#"{"parameters":{}}"#), Err("call_no_name"));
        assert_eq!(read("[]"), Err("call_bad_json"));
        let id = call(r#"{"name":"f","arguments":{},"id":"aB3"}"#).unwrap().1;
        assert_eq!(id.as_deref(), Some("aB3"));
    }
}
