//! Tools of every kind as functions in the canonical form.

use serde_json::{Map, Value, json};

/// A member's text; empty where there is none.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Where name and description are: some agents nest them as Chat does.
pub(super) fn function_of(tool: &Value) -> &Value {
    tool.get("function").filter(|function| function.is_object()).unwrap_or(tool)
}

/// The flat name of a tool of this namespace.
pub(super) fn joined(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        None => name.to_owned(),
        Some(namespace) if namespace.ends_with('_') => format!("{namespace}{name}"),
        Some(namespace) => format!("{namespace}__{name}"),
    }
}

/// Puts a text before the tool's own description.
pub(super) fn put_before(about: &str, tool: &mut Value) {
    let own = text(function_of(tool), "description");
    let both = if own.is_empty() { about.to_owned() } else { format!("{about}\n\n{own}") };
    match tool.get_mut("function").filter(|function| function.is_object()) {
        Some(function) => function["description"] = both.into(),
        None => tool["description"] = both.into(),
    }
}

/// Name, description and parameters in the order in which they were sent.
pub(super) fn plain_function(flat: &str, tool: Value) -> Value {
    let Value::Object(mut tool) = tool else { return tool };
    let members = match tool.remove("function") {
        Some(Value::Object(function)) => function,
        _ => tool,
    };
    let mut function = Map::new();
    for (key, value) in members {
        match key.as_str() {
            "name" => _ = function.insert(key, flat.into()),
            "description" | "parameters" if !value.is_null() => _ = function.insert(key, value),
            _ => {}
        }
    }
    json!({"type": "function", "function": function})
}

/// A custom tool as a function of one text.
pub(super) fn custom_function(flat: &str, tool: &Value) -> Value {
    let mut about = text(tool, "description").to_owned();
    let format = &tool["format"];
    let input = match text(format, "type") {
        "grammar" => {
            if !about.is_empty() {
                about.push_str("\n\n");
            }
            let (syntax, definition) = (text(format, "syntax"), text(format, "definition"));
            about.push_str(&format!("The input must fit this {syntax} grammar:\n{definition}"));
            "The input, free text that fits the grammar"
        }
        _ => "The input, free text",
    };
    json!({"type": "function", "function": {
        "name": flat,
        "description": about,
        "parameters": {
            "type": "object",
            "properties": {"input": {"type": "string", "description": input}},
            "required": ["input"],
        },
    }})
}

/// An agent's search for tools; its name is filled in later.
pub(super) fn search_function(tool: Value) -> Map<String, Value> {
    let mut function = Map::from_iter([("name".to_owned(), Value::Null)]);
    for key in ["description", "parameters"] {
        match tool.get(key) {
            None | Some(Value::Null) => {}
            Some(value) => _ = function.insert(key.to_owned(), value.clone()),
        }
    }
    function
}

/// The agent's own shell; its name is filled in later.
pub(super) fn shell_function() -> Map<String, Value> {
    let parameters = json!({
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string"}},
            "working_directory": {"type": "string"},
            "timeout_ms": {"type": "integer"},
        },
        "required": ["command"],
    });
    Map::from_iter([
        ("name".to_owned(), Value::Null),
        ("description".to_owned(), "Runs a command and returns its output".into()),
        ("parameters".to_owned(), parameters),
    ])
}
