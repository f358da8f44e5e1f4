//! mini-swe-agent: one tool, no streaming, no scenes but its loop.

use serde_json::{Value, json};

use crate::case::{Case, times};

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

/// Its cases.
pub fn cases() -> Vec<Case> {
    vec![tools()]
}

fn bash(command: &str) -> Value {
    json!({"name": "bash", "arguments": {"command": command}})
}

/// Reasoning, two calls at once, an answer that is no call, and the end.
fn tools() -> Case {
    Case {
        script: json!({"replies": [
            {"reasoning": "Look first.", "tool_calls": [bash("printf '6 * 7' > question.txt"), bash("ls")],
             "non_canonical": true},
            {"content": "Now the answer.",
             "tool_calls": [bash("echo $((6 * 7)) > answer.txt && cat answer.txt")],
             "non_canonical": true},
            {"tool_calls": [bash(SUBMIT)]},
        ]}),
        task: json!({
            "instruction": "Write the answer to 6 * 7 into answer.txt.",
            "evaluate": {"command": "test \"$(cat answer.txt)\" = 42", "timeout_s": 30},
        }),
        calls: times(3, "main", "mini-swe-agent-main").collect(),
        ..Case::new("mini-swe-agent", "tools")
    }
}
