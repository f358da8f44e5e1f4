//! Calls written in JSON, and ids of calls. A Hermes call is the JSON between two call markers.
//!
//! A call counts whole or not at all: one object, a name, and an object of arguments. Empty and
//! delimiter-like values need no rule here, for JSON says where a value ends. Which tools were on
//! offer or forced does not matter either: a call is what the model wrote.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::limits::JSON_DEPTH;
use crate::turn::{Tool, ToolCall};

/// A call as the model wrote it.
#[derive(Debug, PartialEq)]
pub struct Written {
    /// Name of the function; not empty.
    pub name: String,
    /// The text of a JSON object: the very bytes of the model.
    pub arguments: String,
    /// Whether the object was written as a JSON string that holds it.
    pub as_string: bool,
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// Reads a call, or says in a remark why it is none. Values are kept as written, whatever a tool's
/// schema says: the tool decides what it takes. Members other than the two are ignored.
pub fn read(json: &[u8]) -> Result<Written, &'static str> {
    let text = std::str::from_utf8(json).map_err(|_| "call_bad_json")?.trim();
    if !text.starts_with('{') {
        // A list would pass as the members in order.
        return Err("call_bad_json");
    }
    let members: Members<'_> = serde_json::from_str(text).map_err(|_| "call_bad_json")?;
    let name = members
        .name
        .and_then(|name| serde_json::from_str::<String>(name.get()).ok())
        .filter(|name| !name.is_empty())
        .ok_or("call_no_name")?;
    let written = members.arguments.ok_or("call_no_arguments")?.get();
    let (arguments, as_string) = arguments(written)?;
    Ok(Written { name, arguments, as_string })
}

/// Reads a JSON text that stands in the place of arguments: an object as written, or the object
/// that a JSON string holds. The flag says which.
pub fn arguments(json: &str) -> Result<(String, bool), &'static str> {
    if depth(json) >= JSON_DEPTH {
        // Nobody who reads it with a bound could take it.
        return Err("call_too_deep");
    }
    if json.starts_with('{') {
        return Ok((json.to_owned(), false));
    }
    let inner = serde_json::from_str::<String>(json).map_err(|_| "call_bad_arguments")?;
    let inner = inner.trim();
    let is_json = serde_json::from_str::<&RawValue>(inner).is_ok();
    if inner.starts_with('{') && is_json && depth(inner) < JSON_DEPTH {
        return Ok((inner.to_owned(), true));
    }
    Err("call_bad_arguments")
}

/// The text of a JSON object that arguments are, without white space around it.
pub fn object(text: &[u8]) -> Result<String, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "call_bad_json")?.trim();
    if serde_json::from_str::<&RawValue>(text).is_err() {
        return Err("call_bad_json");
    }
    match text.starts_with('{') {
        false => Err("call_bad_arguments"),
        true if depth(text) >= JSON_DEPTH => Err("call_too_deep"),
        true => Ok(text.to_owned()),
    }
}

/// The deepest nesting of a valid JSON text.
pub fn depth(json: &str) -> usize {
    let (mut open, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' | b']' if !quoted => open = open.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Whether text after a call opener is an attempt at a call rather than prose about the marker.
pub fn attempted(json: &[u8]) -> bool {
    json.trim_ascii_start().first().is_none_or(|&first| first == b'{')
}

/// Name of a tool; empty if it has none.
pub fn name_of(tool: &Tool) -> &str {
    let function = tool.get("function").unwrap_or(tool);
    function.get("name").and_then(|name| name.as_str()).unwrap_or_default()
}

/// Whether one of the tools has this name.
pub fn offered(tools: &[Tool], name: &str) -> bool {
    !name.is_empty() && tools.iter().any(|tool| name_of(tool) == name)
}

/// The call under its id.
pub fn identified(written: Written, call_seed: &str, index: usize) -> ToolCall {
    let Written { name, arguments, .. } = written;
    ToolCall { id: id(index, call_seed), name, arguments }
}

/// The id of a call: `call_` and 24 hex digits that depend on the seed and the call's place.
pub fn id(index: usize, call_seed: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(index as u64).to_le_bytes());
    hasher.update(call_seed.as_bytes());
    let digest = hasher.finalize().to_hex();
    format!("call_{}", &digest[..24])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_as_written() {
        let check = |json: &str, name: &str, arguments: &str, as_string| {
            let (name, arguments) = (name.to_owned(), arguments.to_owned());
            assert_eq!(read(json.as_bytes()), Ok(Written { name, arguments, as_string }));
        };
        check(r#"{"name":"f","arguments":{}}"#, "f", "{}", false);
        check(
            "\n {\"arguments\": {\"b\":1.50,\"a\": \"x\\u0041\"} , \"name\": \"\\u0066\"}\n",
            "f",
            r#"{"b":1.50,"a": "x\u0041"}"#,
            false,
        );
        check(r#"{"name":"f","arguments":"{\"a\":1}"}"#, "f", r#"{"a":1}"#, true);
        check(
            r#"{"id":1,"name":"f","arguments":{"a":"</tool_call>"}}"#,
            "f",
            r#"{"a":"</tool_call>"}"#,
            false,
        );
    }

    /// The JSON family types values itself, so no schema is looked at.
    #[test]
    fn f03_f04_f05_values_stay_as_written() {
        let arguments = r#"{"zip":"02134","n":"next Tuesday","loc":{"city":"Paris"},"x":[1,2]}"#;
        let json = format!(r#"{{"name":"f","arguments":{arguments}}}"#);
        assert_eq!(read(json.as_bytes()).unwrap().arguments, arguments);
    }

    #[test]
    fn what_is_no_call_is_said() {
        let check = |json: &[u8], remark| assert_eq!(read(json), Err(remark));
        check(b"", "call_bad_json");
        check(b"[\"f\",{}]", "call_bad_json");
        check(b"{\"name\":\"f\",\"arguments\":{}", "call_bad_json");
        check(b"{\"name\":\"f\",\"arguments\":{}}}", "call_bad_json");
        check(b"{\"x\":1}{\"name\":\"f\",\"arguments\":{}}", "call_bad_json");
        check(b"{\"name\":\"f\",\"arguments\":{\"a\":\"\xff\"}}", "call_bad_json");
        check(b"{\"name\":\"f\",\"arguments\":{},\"name\":\"g\"}", "call_bad_json");
        check(b"{\"x\":1}", "call_no_name");
        check(b"{\"name\":\"\",\"arguments\":{}}", "call_no_name");
        check(b"{\"name\":7,\"arguments\":{}}", "call_no_name");
        check(b"{\"name\":\"f\"}", "call_no_arguments");
        check(b"{\"name\":\"f\",\"arguments\":null}", "call_no_arguments");
        check(b"{\"name\":\"f\",\"arguments\":[1]}", "call_bad_arguments");
        check(b"{\"name\":\"f\",\"arguments\":\"ls\"}", "call_bad_arguments");
        check(b"{\"name\":\"f\",\"arguments\":\"{1}\"}", "call_bad_arguments");
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| {
            let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
            read(format!(r#"{{"name":"f","arguments":{{"[[\"[":{open}{close}}}}}"#).as_bytes())
        };
        assert!(nested(JSON_DEPTH - 1).is_ok());
        assert_eq!(nested(JSON_DEPTH), Err("call_too_deep"));
        assert_eq!(nested(500_000), Err("call_too_deep"));
    }
}
