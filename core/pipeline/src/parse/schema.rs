//! Types of values that a model wrote as plain text, by the JSON schema of the tool.
//!
//! The schema says which kinds of value a parameter may have: by `type`, `enum`, `const`, `$ref`,
//! `anyOf`, `oneOf`, `allOf`, `nullable`, or by the shape that `properties` and `items` imply. A
//! schema that says nothing allows every kind. The text is then read so:
//!
//! - a kind other than string is taken if the text is the JSON of such a value: with both string
//!   and integer allowed, `7` is the number and `07` the string;
//! - only where no string is allowed, `True`, `None` and `5.0` pass for true, null and the integer 5;
//! - no text at all is the empty string, or no value where no string is allowed;
//! - what fits nothing stays the raw text, as a string: the tool decides.
//!
//! The parameters of an unknown tool, and parameters that the schema does not list, are raw text.

use serde_json::Value;
use serde_json::value::RawValue;

use super::call;
use crate::limits::JSON_DEPTH;
use crate::turn::Tool;

/// Schemas that one look-up may visit: references may go round in circles.
const VISITS: u32 = 256;

/// Kinds of JSON values, as a set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kinds(u8);

impl Kinds {
    const NONE: Kinds = Kinds(0);
    const NULL: Kinds = Kinds(1);
    const BOOLEAN: Kinds = Kinds(2);
    const INTEGER: Kinds = Kinds(4);
    const NUMBER: Kinds = Kinds(8);
    const OBJECT: Kinds = Kinds(16);
    const ARRAY: Kinds = Kinds(32);
    const STRING: Kinds = Kinds(64);
    const ANY: Kinds = Kinds(127);

    fn has(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }

    fn or(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// What both allow. An integer is a number.
    fn and(self, other: Kinds) -> Kinds {
        let wide = |kinds: Kinds| match kinds.has(Kinds::NUMBER) {
            true => kinds.or(Kinds::INTEGER),
            false => kinds,
        };
        Kinds(wide(self).0 & wide(other).0)
    }

    fn named(name: &str) -> Kinds {
        match name {
            "null" => Kinds::NULL,
            "boolean" => Kinds::BOOLEAN,
            "integer" => Kinds::INTEGER,
            "number" => Kinds::NUMBER,
            "object" => Kinds::OBJECT,
            "array" => Kinds::ARRAY,
            "string" => Kinds::STRING,
            _ => Kinds::ANY,
        }
    }

    fn of_value(value: &Value) -> Kinds {
        match value {
            Value::Null => Kinds::NULL,
            Value::Bool(_) => Kinds::BOOLEAN,
            Value::Number(number) if number.is_f64() => Kinds::NUMBER,
            Value::Number(_) => Kinds::INTEGER,
            Value::String(_) => Kinds::STRING,
            Value::Array(_) => Kinds::ARRAY,
            Value::Object(_) => Kinds::OBJECT,
        }
    }
}

/// A value as JSON text.
#[derive(PartialEq, Debug)]
pub(super) enum Typed {
    /// It fits the schema.
    Fit(String),
    /// It does not: the raw text as a string.
    Unfit(String),
    /// There was no text, and no string may stand there.
    Absent,
}

/// What is known of a tool's parameters.
#[derive(Clone, Copy)]
pub(super) struct Parameters<'a> {
    root: Option<&'a Value>,
}

impl<'a> Parameters<'a> {
    /// Those of the tool with this name; nothing is known of an unknown tool.
    pub(super) fn of(tools: &'a [Tool], name: &str) -> Self {
        let tool = tools.iter().find(|tool| call::name_of(tool) == name);
        let function = tool.map(|tool| tool.get("function").unwrap_or(tool));
        let root = function.and_then(|it| it.get("parameters").or_else(|| it.get("input_schema")));
        Self { root }
    }

    /// Whether the schema lists this parameter.
    pub(super) fn lists(&self, key: &str) -> bool {
        self.root.is_some_and(|root| listed(root, root, key, &mut { VISITS }).is_some())
    }

    /// Whether a call with these arguments fits: all keys are listed and none is missing.
    pub(super) fn fit(&self, arguments: &str) -> bool {
        let Ok(Value::Object(given)) = serde_json::from_str(arguments) else { return false };
        let Some(root) = self.root else { return true };
        let required = root.get("required").and_then(Value::as_array);
        let mut required = required.into_iter().flatten().filter_map(Value::as_str);
        given.keys().all(|key| self.lists(key)) && required.all(|key| given.contains_key(key))
    }

    /// The text as a value of this parameter.
    pub(super) fn typed(&self, key: &str, text: &str) -> Typed {
        let kinds = self.kinds(key);
        let exact = text.trim();
        if exact.is_empty() && !kinds.has(Kinds::STRING) {
            return Typed::Absent;
        }
        if let Some(value) = strictly(exact, kinds) {
            return Typed::Fit(value);
        }
        if kinds.has(Kinds::STRING) {
            return Typed::Fit(quoted(text));
        }
        loosely(exact, kinds).map_or_else(|| Typed::Unfit(quoted(text)), Typed::Fit)
    }

    fn kinds(&self, key: &str) -> Kinds {
        let Some(root) = self.root else { return Kinds::STRING };
        match listed(root, root, key, &mut { VISITS }) {
            Some(schema) => kinds(root, schema, &mut { VISITS }),
            None => match root.get("additionalProperties") {
                Some(schema @ Value::Object(_)) => kinds(root, schema, &mut { VISITS }),
                _ => Kinds::STRING,
            },
        }
    }
}

/// The JSON string with this text.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The schema of a parameter, looked for in all parts of the object's schema.
fn listed<'a>(
    root: &'a Value,
    schema: &'a Value,
    key: &str,
    visits: &mut u32,
) -> Option<&'a Value> {
    *visits = visits.checked_sub(1)?;
    if let Some(found) = schema.get("properties").and_then(|all| all.get(key)) {
        return Some(found);
    }
    if let Some(found) = referred(root, schema).and_then(|to| listed(root, to, key, visits)) {
        return Some(found);
    }
    let parts = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|word| schema.get(word));
    let mut parts = parts.filter_map(Value::as_array).flatten();
    parts.find_map(|part| listed(root, part, key, visits))
}

fn referred<'a>(root: &'a Value, schema: &Value) -> Option<&'a Value> {
    root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
}

/// Which kinds a schema allows.
fn kinds(root: &Value, schema: &Value, visits: &mut u32) -> Kinds {
    let Some(left) = visits.checked_sub(1) else { return Kinds::ANY };
    *visits = left;
    let mut allowed = Kinds::ANY;
    let mut said = false;
    let mut narrow = |to: Kinds| {
        said = true;
        allowed = allowed.and(to);
    };
    match schema.get("type") {
        Some(Value::String(name)) => narrow(Kinds::named(name)),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str).map(Kinds::named);
            narrow(names.fold(Kinds::NONE, Kinds::or));
        }
        _ => {}
    }
    if let Some(to) = referred(root, schema) {
        narrow(kinds(root, to, visits));
    }
    if let Some(value) = schema.get("const") {
        narrow(Kinds::of_value(value));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        narrow(values.iter().map(Kinds::of_value).fold(Kinds::NONE, Kinds::or));
    }
    for word in ["anyOf", "oneOf"] {
        if let Some(parts) = schema.get(word).and_then(Value::as_array) {
            let parts = parts.iter().map(|part| kinds(root, part, visits));
            narrow(parts.fold(Kinds::NONE, Kinds::or));
        }
    }
    for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        narrow(kinds(root, part, visits));
    }
    if !said && (schema.get("properties").is_some() || schema.get("required").is_some()) {
        allowed = Kinds::OBJECT;
    } else if !said && (schema.get("items").is_some() || schema.get("prefixItems").is_some()) {
        allowed = Kinds::ARRAY;
    }
    match schema.get("nullable") {
        Some(Value::Bool(true)) => allowed.or(Kinds::NULL),
        // A schema that contradicts itself allows nothing: do not believe it.
        _ if allowed == Kinds::NONE => Kinds::ANY,
        _ => allowed,
    }
}

/// The text if it is the JSON of an allowed value that is no string.
fn strictly(text: &str, allowed: Kinds) -> Option<String> {
    let kind = match text.bytes().next()? {
        b'n' if text == "null" => Kinds::NULL,
        b't' | b'f' if matches!(text, "true" | "false") => Kinds::BOOLEAN,
        b'{' if is_json(text) => Kinds::OBJECT,
        b'[' if is_json(text) => Kinds::ARRAY,
        b'-' | b'0'..=b'9' if serde_json::from_str::<serde_json::Number>(text).is_ok() => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            match digits.bytes().all(|byte| byte.is_ascii_digit()) {
                true => Kinds::INTEGER.or(Kinds::NUMBER),
                false => Kinds::NUMBER,
            }
        }
        _ => return None,
    };
    allowed.has(kind).then(|| text.to_owned())
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok() && call::depth(text) + 1 < JSON_DEPTH
}

/// The JSON of what the text means in Python, or of a whole number with zeros behind the point.
fn loosely(text: &str, allowed: Kinds) -> Option<String> {
    if allowed.has(Kinds::BOOLEAN) {
        for word in ["true", "false"] {
            if text.eq_ignore_ascii_case(word) {
                return Some(word.to_owned());
            }
        }
    }
    if allowed.has(Kinds::NULL) && text == "None" {
        return Some("null".to_owned());
    }
    let (whole, fraction) = text.split_once('.')?;
    let zeros = !fraction.is_empty() && fraction.bytes().all(|byte| byte == b'0');
    if zeros { strictly(whole, Kinds(allowed.0 & Kinds::INTEGER.0)) } else { None }
}

#[cfg(test)]
mod tests;
