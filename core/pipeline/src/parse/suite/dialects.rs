//! How the families write, as far as their machines are here.

use serde_json::Value;

use super::{Dialect, Values};
use crate::render::Family;

fn each(calls: &[(&str, Value)], between: &str, one: impl Fn(&str, &Value) -> String) -> String {
    let calls: Vec<String> = calls.iter().map(|(name, value)| one(name, value)).collect();
    calls.join(between)
}

/// The text of a value where values are plain text.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn pairs(value: &Value, one: impl Fn(&str, &str) -> String) -> String {
    let members = value.as_object().into_iter().flatten();
    members.map(|(key, value)| one(key, &plain(value))).collect()
}

fn llama31(calls: &[(&str, Value)]) -> String {
    let json =
        |name: &str, value: &Value| format!(r#"{{"name": "{name}", "parameters": {value}}}"#);
    format!("<|python_tag|>{}", each(calls, "; ", json))
}

fn llama31_bare(calls: &[(&str, Value)]) -> String {
    llama31(calls).replace("<|python_tag|>", "")
}

fn mistral_list(calls: &[(&str, Value)]) -> String {
    let json = |name: &str, value: &Value| format!(r#"{{"name": "{name}", "arguments": {value}}}"#);
    format!("[TOOL_CALLS][{}]", each(calls, ", ", json))
}

fn mistral(calls: &[(&str, Value)]) -> String {
    each(calls, "", |name, value| format!("[TOOL_CALLS]{name}[ARGS]{value}"))
}

fn harmony(calls: &[(&str, Value)]) -> String {
    let one = |name: &str, value: &Value| {
        format!(
            "<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{value}<|call|>"
        )
    };
    each(calls, "<|start|>assistant", one)
}

const LLAMA31: Dialect = Dialect {
    family: Family::Llama31,
    added: &[
        "<|python_tag|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
    ],
    close: "<|eot_id|>",
    prompt: "<|start_header_id|>assistant<|end_header_id|>\n\n",
    thinking_prompt: None,
    thought: None,
    past: None,
    answer: ["", ""],
    before: ["", ""],
    behind: ["", ""],
    values: Values::Json,
    calls: llama31,
    open: Some("<|python_tag|>"),
    cut: "<|python_tag|>{\"name\": \"f\", \"para",
};

const MISTRAL: Dialect = Dialect {
    family: Family::Mistral,
    added: &[
        "[TOOL_CALLS]",
        "[ARGS]",
        "[CALL_ID]",
        "[THINK]",
        "[/THINK]",
        "[INST]",
        "[/INST]",
        "[/SYSTEM_PROMPT]",
        "[/TOOL_RESULTS]",
        "</s>",
    ],
    close: "</s>",
    prompt: "[INST]go[/INST]",
    thinking_prompt: Some("[INST]go[/INST][THINK]"),
    thought: Some(["[THINK]", "[/THINK]"]),
    past: Some(["[INST]x[/INST][THINK]y[/THINK]z</s>", "[INST]x[/INST][THINK]y</s>"]),
    answer: ["", ""],
    before: ["", ""],
    behind: ["", ""],
    values: Values::Json,
    calls: mistral,
    open: Some("[TOOL_CALLS]"),
    cut: "[TOOL_CALLS]f[ARGS]{\"a\":",
};

const HARMONY: Dialect = Dialect {
    family: Family::Harmony,
    added: &[
        "<|start|>",
        "<|channel|>",
        "<|constrain|>",
        "<|message|>",
        "<|end|>",
        "<|call|>",
        "<|return|>",
        "<|endoftext|>",
        "<|reserved_200013|>",
    ],
    close: "<|return|>",
    prompt: "<|start|>user<|message|>go<|end|><|start|>assistant",
    thinking_prompt: Some(
        "<|start|>user<|message|>go<|end|><|start|>assistant<|channel|>analysis<|message|>",
    ),
    thought: Some(["<|channel|>analysis<|message|>", "<|end|><|start|>assistant"]),
    past: Some([
        "<|start|>assistant<|channel|>analysis<|message|>y<|end|>",
        "<|start|>assistant<|channel|>analysis<|message|>y",
    ]),
    answer: ["<|channel|>final<|message|>", "<|return|>"],
    before: ["<|channel|>commentary<|message|>", "<|end|><|start|>assistant"],
    behind: ["<|start|>assistant<|channel|>final<|message|>", "<|return|>"],
    values: Values::Json,
    calls: harmony,
    open: None,
    cut: "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":",
};

/// All of them, some in two forms.
pub(super) const ALL: &[Dialect] = &[
    LLAMA31,
    Dialect { calls: llama31_bare, open: None, cut: "{\"name\": \"f\", \"para", ..LLAMA31 },
    MISTRAL,
    Dialect { calls: mistral_list, cut: "[TOOL_CALLS][{\"name\":\"f\",\"argu", ..MISTRAL },
    HARMONY,
];

/// The dialect of a family.
pub(in crate::parse) fn of(family: Family) -> Dialect {
    *ALL.iter().find(|dialect| dialect.family == family).expect("a dialect of the family")
}
