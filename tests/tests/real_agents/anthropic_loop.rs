//! A plain loop on Anthropic's SDK, run as a `command`: `examples/anthropic_loop.py`.

use rollgate_tests::{program, real};
use serde_json::{Value, json};

use crate::case::{Case, times};

/// Its cases; none without the SDK.
pub fn cases() -> Vec<Case> {
    real::anthropic_python().map(|python| tools(&python.to_string_lossy())).into_iter().collect()
}

fn bash(command: &str) -> Value {
    json!({"name": "bash", "arguments": {"command": command}})
}

fn tools(python: &str) -> Case {
    let example = program::workspace().join("examples/anthropic_loop.py");
    Case {
        bundled: false,
        script: json!({"replies": [
            {"reasoning": "Two things at once.", "content": "I look around.",
             "tool_calls": [bash("ls"), bash("exit 3")], "non_canonical": true},
            {"tool_calls": [bash("printf 42 > answer.txt")], "non_canonical": true},
            {"content": "Done.", "non_canonical": true},
        ]}),
        task: json!({
            "instruction": "Write the answer to 6 * 7 into answer.txt.",
            "agent": {"args": [python, example]},
            "evaluate": {"command": "test \"$(cat answer.txt)\" = 42", "timeout_s": 30},
        }),
        calls: times(3, "main", "default-main").collect(),
        ..Case::new("command", "anthropic-sdk")
    }
}
