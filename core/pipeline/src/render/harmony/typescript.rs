//! Tools as gpt-oss reads them: a TypeScript namespace with a type per function.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::exact;
use crate::render::control::Guard;
use crate::turn::Tool;

/// The `functions` namespace of these tools. All of their text passes the guard.
pub(super) fn namespace(tools: &[Tool], guard: &Guard<'_>) -> String {
    let mut out = "## functions\n\nnamespace functions {\n\n".to_owned();
    for tool in tools {
        let function = &tool["function"];
        comment(&mut out, "", function["description"].as_str().unwrap_or(""), guard);
        let name = guard.apply(function["name"].as_str().unwrap_or(""));
        let takes = match &function["parameters"] {
            parameters @ Value::Object(_) if has_properties(parameters) => {
                format!("_: {}", type_of(parameters, "", guard))
            }
            _ => String::new(),
        };
        out.extend(["type ", &name, " = (", &takes, ") => any;\n\n"]);
    }
    out.push_str("} // namespace functions");
    out
}

fn has_properties(schema: &Value) -> bool {
    schema["properties"].as_object().is_some_and(|properties| !properties.is_empty())
}

fn comment(out: &mut String, indent: &str, text: &str, guard: &Guard<'_>) {
    for line in text.lines() {
        out.extend([indent, "// ", &guard.apply(line), "\n"]);
    }
}

/// The type that a schema stands for.
fn type_of(schema: &Value, indent: &str, guard: &Guard<'_>) -> String {
    if let Some(variants) = variants(schema) {
        let types: Vec<String> =
            variants.iter().map(|variant| nullable(variant, indent, guard)).collect();
        return types.join(" | ");
    }
    match &schema["type"] {
        Value::Array(types) => {
            let names: Vec<&str> = types.iter().filter_map(Value::as_str).map(plain_name).collect();
            if names.is_empty() { "any".to_owned() } else { names.join(" | ") }
        }
        Value::String(kind) => match kind.as_str() {
            "object" => object(schema, indent, guard),
            "string" => choices(schema, guard).unwrap_or_else(|| "string".to_owned()),
            "array" if schema["items"].is_object() => {
                format!("{}[]", type_of(&schema["items"], indent, guard))
            }
            kind => plain_name(kind).to_owned(),
        },
        _ => choices(schema, guard).unwrap_or_else(|| "any".to_owned()),
    }
}

fn variants(schema: &Value) -> Option<&Vec<Value>> {
    ["oneOf", "anyOf"].iter().find_map(|key| schema[*key].as_array()).filter(|all| !all.is_empty())
}

fn plain_name(kind: &str) -> &'static str {
    match kind {
        "string" => "string",
        "number" | "integer" => "number",
        "boolean" => "boolean",
        "null" => "null",
        "object" => "object",
        "array" => "Array<any>",
        _ => "any",
    }
}

fn nullable(schema: &Value, indent: &str, guard: &Guard<'_>) -> String {
    let written = type_of(schema, indent, guard);
    match schema["nullable"] == true && !written.contains("null") {
        true => format!("{written} | null"),
        false => written,
    }
}

/// The texts that an enumeration allows, as a union.
fn choices(schema: &Value, guard: &Guard<'_>) -> Option<String> {
    let texts = schema["enum"].as_array()?.iter().filter_map(Value::as_str);
    let quoted: Vec<String> = texts.map(|text| format!("\"{}\"", guard.apply(text))).collect();
    (!quoted.is_empty()).then(|| quoted.join(" | "))
}

fn object(schema: &Value, indent: &str, guard: &Guard<'_>) -> String {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mut out = "{\n".to_owned();
    for (name, property) in properties {
        comment(&mut out, indent, property["description"].as_str().unwrap_or(""), guard);
        let mark = if required.contains(&name.as_str()) { ": " } else { "?: " };
        let inner = format!("{indent}    ");
        let written = nullable(property, &inner, guard);
        out.extend([indent, &guard.apply(name), mark, &written, ","]);
        if let Some(default) = default(property, guard) {
            out.extend([" // default: ", &default]);
        }
        out.push('\n');
    }
    out.extend([indent, "}"]);
    out
}

/// The value that stands where none is given; a choice is written without quotes.
fn default<'a>(schema: &'a Value, guard: &Guard<'_>) -> Option<Cow<'a, str>> {
    match schema.get("default")? {
        Value::String(text) if schema["enum"].is_array() => Some(guard.apply(text)),
        Value::String(text) => Some(format!("\"{}\"", guard.apply(text)).into()),
        Value::Object(map) if exact::digits(map).is_some() => exact::digits(map).map(Cow::Borrowed),
        other => Some(guard.apply(&other.to_string()).into_owned().into()),
    }
}
