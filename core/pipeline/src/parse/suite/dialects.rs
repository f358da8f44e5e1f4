//! How the families write.

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

fn qwen3(calls: &[(&str, Value)]) -> String {
    each(calls, "\n", |name, value| {
        format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {value}}}\n</tool_call>")
    })
}

fn qwen3_coder(calls: &[(&str, Value)]) -> String {
    each(calls, "\n", |name, value| {
        let pair = |key: &str, text: &str| format!("<parameter={key}>\n{text}\n</parameter>\n");
        let pairs = pairs(value, pair);
        format!("<tool_call>\n<function={name}>\n{pairs}</function>\n</tool_call>")
    })
}

fn deepseek_v3(calls: &[(&str, Value)]) -> String {
    let calls = each(calls, "\n", |name, value| {
        format!(
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{value}\n```<｜tool▁call▁end｜>"
        )
    });
    format!("<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>")
}

fn deepseek_v31(calls: &[(&str, Value)]) -> String {
    let calls = each(calls, "", |name, value| {
        format!("<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{value}<｜tool▁call▁end｜>")
    });
    format!("<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>")
}

fn glm45(calls: &[(&str, Value)]) -> String {
    each(calls, "\n", |name, value| {
        let pair = |key: &str, text: &str| {
            format!("<arg_key>{key}</arg_key>\n<arg_value>{text}</arg_value>\n")
        };
        format!("<tool_call>{name}\n{}</tool_call>", pairs(value, pair))
    })
}

fn kimi(calls: &[(&str, Value)]) -> String {
    let call = |(at, (name, value)): (usize, &(&str, Value))| {
        format!(
            "<|tool_call_begin|>functions.{name}:{at}<|tool_call_argument_begin|>{value}\
             <|tool_call_end|>"
        )
    };
    let calls: String = calls.iter().enumerate().map(call).collect();
    format!("<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>")
}

fn minimax(calls: &[(&str, Value)]) -> String {
    let calls = each(calls, "", |name, value| {
        let pair =
            |key: &str, text: &str| format!("<parameter name=\"{key}\">{text}</parameter>\n");
        format!("<invoke name=\"{name}\">\n{}</invoke>\n", pairs(value, pair))
    });
    format!("<minimax:tool_call>\n{calls}</minimax:tool_call>")
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

/// Thoughts as most families write them.
const THINK: Option<[&str; 2]> = Some(["<think>\n", "\n</think>\n\n"]);

const QWEN3: Dialect = Dialect {
    family: Family::Qwen3,
    added: &[
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
    ],
    close: "<|im_end|>",
    prompt: "<|im_start|>assistant\n",
    thinking_prompt: Some("<|im_start|>assistant\n<think>\n"),
    thought: THINK,
    past: Some([
        "<|im_start|>assistant\n<think>\nx\n</think>\n\ny<|im_end|>\n",
        "<|im_start|>assistant\n<think>\nx<|im_end|>\n",
    ]),
    answer: ["", ""],
    before: ["", "\n"],
    behind: ["", ""],
    values: Values::Json,
    calls: qwen3,
    open: Some("<tool_call>"),
    cut: "<tool_call>\n{\"name\":\"f\",\"argu",
};

const DEEPSEEK: Dialect = Dialect {
    family: Family::DeepSeekV3,
    added: &[
        "<think>",
        "</think>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>",
        "<｜User｜>",
        "<｜Assistant｜>",
        "<｜end▁of▁sentence｜>",
    ],
    close: "<｜end▁of▁sentence｜>",
    prompt: "<｜User｜>go<｜Assistant｜>",
    thinking_prompt: Some("<｜User｜>go<｜Assistant｜><think>\n"),
    thought: THINK,
    past: Some([
        "<｜User｜>go<｜Assistant｜><think>x</think>y<｜end▁of▁sentence｜>",
        "<｜User｜>go<｜Assistant｜><think>x<｜end▁of▁sentence｜>",
    ]),
    calls: deepseek_v3,
    open: Some("<｜tool▁call▁begin｜>"),
    cut: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\":",
    ..QWEN3
};

const GLM45: Dialect = Dialect {
    family: Family::Glm45,
    added: &[
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
        "<|user|>",
        "<|assistant|>",
        "<|observation|>",
        "<|endoftext|>",
    ],
    close: "<|user|>",
    prompt: "<|user|>\ngo<|assistant|>",
    thinking_prompt: Some("<|user|>\ngo<|assistant|>\n<think>"),
    past: Some(["<|assistant|>\n<think>x</think>y<|user|>", "<|assistant|>\n<think>x<|user|>"]),
    values: Values::Text,
    calls: glm45,
    cut: "<tool_call>f\n<arg_key>a</arg_key>\n<arg_val",
    ..QWEN3
};

const KIMI: Dialect = Dialect {
    family: Family::KimiK2,
    added: &[
        "<think>",
        "</think>",
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|im_user|>",
        "<|im_assistant|>",
        "<|im_middle|>",
        "<|im_end|>",
    ],
    prompt: "<|im_assistant|>assistant<|im_middle|>",
    thinking_prompt: Some("<|im_assistant|>assistant<|im_middle|><think>"),
    past: Some([
        "<|im_assistant|>assistant<|im_middle|><think>x</think>y<|im_end|>",
        "<|im_assistant|>assistant<|im_middle|><think>x<|im_end|>",
    ]),
    calls: kimi,
    open: Some("<|tool_call_begin|>"),
    cut: "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\":",
    ..QWEN3
};

const MINIMAX: Dialect = Dialect {
    family: Family::MiniMaxM2,
    added: &["<think>", "</think>", "<minimax:tool_call>", "</minimax:tool_call>", "]~b]", "[e~["],
    close: "[e~[",
    prompt: "]~b]ai\n",
    thinking_prompt: Some("]~b]ai\n<think>\n"),
    past: Some(["]~b]ai\n<think>x</think>y[e~[\n", "]~b]ai\n<think>x[e~[\n"]),
    values: Values::Text,
    calls: minimax,
    open: Some("<minimax:tool_call>"),
    cut: "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">1",
    ..QWEN3
};

/// All of them, some in two forms.
pub(super) const ALL: &[Dialect] = &[
    LLAMA31,
    Dialect { calls: llama31_bare, open: None, cut: "{\"name\": \"f\", \"para", ..LLAMA31 },
    MISTRAL,
    Dialect { calls: mistral_list, cut: "[TOOL_CALLS][{\"name\":\"f\",\"argu", ..MISTRAL },
    HARMONY,
    QWEN3,
    Dialect {
        family: Family::Qwen3Coder,
        values: Values::Text,
        calls: qwen3_coder,
        cut: "<tool_call>\n<function=f>\n<parameter=a>\n1",
        ..QWEN3
    },
    DEEPSEEK,
    Dialect {
        family: Family::DeepSeekV31,
        calls: deepseek_v31,
        cut: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":",
        ..DEEPSEEK
    },
    GLM45,
    KIMI,
    MINIMAX,
];

/// The dialect of a family.
pub(in crate::parse) fn of(family: Family) -> Dialect {
    *ALL.iter().find(|dialect| dialect.family == family).expect("a dialect of the family")
}
