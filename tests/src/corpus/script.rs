//! What the model says in a row: one reply a step, chosen by a mark in the prompt.

use serde_json::{Map, Value, json};

/// Thoughts of the usual steps.
const THOUGHTS: [&str; 7] = [
    "The task is new to me, so I look around first and see which files there are.",
    "There are two candidates. I read the smaller one, since it is the likelier place.",
    "That is the function. Before I touch it I want to see who calls it.",
    "Three callers, all in one module. A test would tell whether the order matters.",
    "The test fails as described. Now I make the change and keep it small.",
    "Changed. I run the whole suite once more, to be sure about the rest.",
    "Everything passes. I can say what was done.",
];

/// Commands of the usual steps.
const COMMANDS: [&str; 6] = [
    "ls -la src tests",
    "sed -n '1,40p' src/order.py",
    "grep -rn \"sort_orders(\" src | head -20",
    "python -m pytest tests/test_order.py -q",
    "sed -i 's/reverse=True/reverse=False/' src/order.py && git diff --stat",
    "python -m pytest -q | tail -3",
];

/// The steps of a row. Where a prompt has several marks, the step that comes last here is given.
#[derive(Clone, Debug)]
pub struct Script {
    /// What marks begin with: the row, and the way where the script counts calls.
    pub name: String,
    steps: Vec<(String, Value)>,
}

impl Script {
    /// No steps yet.
    pub fn empty(name: &str) -> Self {
        Self { name: name.to_owned(), steps: Vec::new() }
    }

    /// Six steps with a thought and a call each, and a seventh that ends the task.
    pub fn usual(name: &str) -> Self {
        let mut script = Self::empty(name);
        for step in 1..=7 {
            script = script.with(&step.to_string(), usual(step));
        }
        script
    }

    /// Sets a step: in its place if it is there, else at the end.
    #[must_use]
    pub fn with(mut self, step: &str, reply: Value) -> Self {
        match self.steps.iter_mut().find(|(name, _)| name == step) {
            Some(place) => place.1 = reply,
            None => self.steps.push((step.to_owned(), reply)),
        }
        self
    }

    /// Sets a step just before another.
    #[must_use]
    pub fn before(mut self, other: &str, step: &str, reply: Value) -> Self {
        let at = self.steps.iter().position(|(name, _)| name == other);
        self.steps.insert(at.expect("the other step is there"), (step.to_owned(), reply));
        self
    }

    /// The text that asks for a step.
    pub fn mark(&self, step: &str) -> String {
        format!("[{}.{step}]", self.name)
    }

    /// The step that is given to a prompt with this text.
    pub fn chosen(&self, text: &str) -> Option<(&str, &Value)> {
        let found = self.steps.iter().rev().find(|(name, _)| text.contains(&self.mark(name)));
        found.map(|(name, reply)| (name.as_str(), reply))
    }

    /// The replies for the engine, the last step first.
    pub fn replies(&self) -> impl Iterator<Item = Value> {
        self.steps.iter().rev().map(|(step, reply)| {
            let mut reply = reply.clone();
            reply["match"] = json!({"prompt_contains": self.mark(step)});
            reply
        })
    }
}

fn usual(step: usize) -> Value {
    let mut reply = json!({"reasoning": THOUGHTS[step - 1]});
    if step == 7 {
        reply["content"] =
            json!("The order of `sort_orders` is ascending now, and all tests pass.");
        return reply;
    }
    if step % 2 == 1 {
        reply["content"] = json!(format!("Step {step} of the plan comes next."));
    }
    reply["tool_calls"] = json!([bash(COMMANDS[step - 1], 30 + step)]);
    canonical_or_not(reply, step)
}

/// A fifth of the answers is said in other tokens than the tokenizer would make of them.
pub fn canonical_or_not(mut reply: Value, step: usize) -> Value {
    if step % 5 == 3 {
        reply["non_canonical"] = json!(3);
    }
    reply
}

/// A call of the shell, keys in an order that sorting would change.
pub fn bash(command: &str, timeout: usize) -> Value {
    json!({"name": "bash", "arguments": {"timeout": timeout, "command": command}})
}

/// A reply with a thought and text, said in unusual tokens.
pub fn text(reasoning: &str, content: &str) -> Value {
    json!({"reasoning": reasoning, "content": content, "non_canonical": 3})
}

/// A reply with a thought and calls, said in unusual tokens.
pub fn calls(reasoning: &str, calls: &[Value]) -> Value {
    json!({"reasoning": reasoning, "tool_calls": calls, "non_canonical": 3})
}

/// The text that a reply is, without the close of the turn: the grammar of Qwen3.
pub fn said(reply: &Value) -> String {
    if let Some(raw) = reply["raw"].as_str() {
        return raw.to_owned();
    }
    let calls = reply["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
    let calls = calls.iter().map(|call| (call["name"].as_str(), &call["arguments"]));
    turn_text(reply["reasoning"].as_str(), reply["content"].as_str(), calls)
}

/// The text that the template writes for an assistant message.
pub fn written(message: &Value) -> String {
    let content = content_of(message);
    let reasoning = message["reasoning_content"].as_str().filter(|text| !text.is_empty());
    let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
    let parsed: Vec<(Option<&str>, Value)> = calls
        .iter()
        .map(|call| {
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            let parsed = serde_json::from_str::<Map<String, Value>>(arguments).map(Value::Object);
            (call["function"]["name"].as_str(), parsed.unwrap_or_else(|_| json!(arguments)))
        })
        .collect();
    turn_text(reasoning, Some(&content), parsed.iter().map(|(name, value)| (*name, value)))
}

/// Content as text, blocks joined.
pub fn content_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

fn turn_text<'a>(
    reasoning: Option<&str>,
    content: Option<&str>,
    calls: impl Iterator<Item = (Option<&'a str>, &'a Value)>,
) -> String {
    let mut out = String::new();
    if let Some(reasoning) = reasoning {
        out += &format!("<think>\n{reasoning}\n</think>\n\n");
    }
    let content = content.unwrap_or_default();
    out += content;
    for (at, (name, arguments)) in calls.enumerate() {
        if at > 0 || !content.is_empty() {
            out.push('\n');
        }
        out += "<tool_call>\n{\"name\": ";
        out += &json!(name).to_string();
        out += ", \"arguments\": ";
        spaced(arguments, &mut out);
        out += "}\n</tool_call>";
    }
    out
}

/// JSON with a blank after commas and colons.
fn spaced(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            out.push('{');
            for (at, (key, item)) in fields.iter().enumerate() {
                *out += if at > 0 { ", " } else { "" };
                *out += &json!(key).to_string();
                *out += ": ";
                spaced(item, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                *out += if at > 0 { ", " } else { "" };
                spaced(item, out);
            }
            out.push(']');
        }
        plain => *out += &plain.to_string(),
    }
}
