//! qwen-code: its loop, a subagent, and summaries in the conversation, or apart from it where that is
//! too long.

use serde_json::{Value, json};

use crate::case::{Case, times};

const SUMMARY: &str = "<state_snapshot>The long listing was read in pieces until its last line was \
                       seen; nothing of it needs to be read again.</state_snapshot>";
const COUNT: &str = "Count the files in the work folder and report their exact number.";

/// Its cases.
pub fn cases() -> Vec<Case> {
    vec![tools(), retries(), compaction(), overflow()]
}

fn shell(command: &str) -> Value {
    json!({"name": "run_shell_command", "arguments": {"command": command, "is_background": false}})
}

fn write() -> Value {
    shell("echo 42 > answer.txt && echo written")
}

fn task() -> Value {
    json!({
        "instruction": "Write the answer to 6 * 7 into answer.txt.",
        "agent": {"timeout_s": 500},
        "evaluate": {"command": "test \"$(cat answer.txt)\" = 42", "timeout_s": 30},
    })
}

/// Reasoning that is sent back, two calls at once, a subagent, and the end.
fn tools() -> Case {
    let subagent = "general-purpose subagent working";
    let agent = json!({"name": "agent", "arguments": {
        "description": "count", "prompt": COUNT, "subagent_type": "general-purpose",
        "run_in_background": false,
    }});
    Case {
        script: json!({"replies": [
            {"match": {"prompt_contains": subagent, "turn": 0}, "reasoning": "Count.",
             "tool_calls": [shell("ls | wc -l")], "non_canonical": true},
            {"match": {"prompt_contains": subagent, "turn": 1}, "content": "There is one file."},
            {"reasoning": "Look first.", "tool_calls": [shell("printf '6 * 7' > question.txt")],
             "non_canonical": true},
            {"reasoning": "Both at once.", "content": "Two calls.",
             "tool_calls": [shell("ls"), {"name": "glob", "arguments": {"pattern": "*.txt"}}],
             "non_canonical": true},
            {"tool_calls": [agent]},
            {"tool_calls": [write()]},
            {"reasoning": "Enough.", "content": "Done."},
        ]}),
        task: task(),
        calls: times(3, "main", "qwen-code-main")
            .chain(times(2, "subagent", "qwen-code-subagent"))
            .chain(times(2, "main", "qwen-code-main"))
            .collect(),
        samples: 2,
        links: vec![("spawned", "subagent", "main")],
        ..Case::new("qwen-code", "tools")
    }
}

/// An engine that is busy for a while, and a stream that breaks once the agent has its head.
fn retries() -> Case {
    Case {
        script: json!({"replies": [
            {"tool_calls": [shell("ls")], "fault": {"status": 429}, "times": 6},
            {"tool_calls": [write()], "delay_ms": 3_500, "fault": {"close_after_bytes": 40},
             "times": 3},
            {"content": "Done."},
        ]}),
        task: task(),
        calls: times(3, "main", "qwen-code-main").collect(),
        ..Case::new("qwen-code", "retries")
    }
}

/// Usage leads to a summary in the middle of the run; the loop goes on for several turns after it.
fn compaction() -> Case {
    Case {
        script: json!({
            "replies": [
                {"match": {"last_contains": "the component that summarizes"}, "content": SUMMARY},
                {"match": {"prompt_contains": "Resume the prior task", "last_contains": "written"},
                 "content": "Done."},
                {"match": {"prompt_contains": "Resume the prior task", "last_contains": "again"},
                 "tool_calls": [write()]},
                {"match": {"prompt_contains": "Resume the prior task"},
                 "tool_calls": [shell("echo again")]},
            ],
            "otherwise": {"reasoning": "More.", "tool_calls": [shell("seq 1 1500")],
                          "non_canonical": true},
        }),
        task: task(),
        calls: times(2, "main", "qwen-code-main")
            .chain(times(1, "compaction", "qwen-code-compaction-in-place"))
            .chain(times(3, "main", "qwen-code-main"))
            .collect(),
        rules: vec!["qwen-code-reminders"],
        samples: 2,
        links: vec![("compacts", "main", "compaction"), ("compacts", "main", "main")],
        ..Case::new("qwen-code", "compaction")
    }
}

/// A result that leaves no room for a summary in the conversation: it is summed up apart, and once more
/// while the result is kept.
fn overflow() -> Case {
    Case {
        script: json!({
            "replies": [
                {"match": {"system_contains": "the component that summarizes"}, "content": SUMMARY},
                {"match": {"prompt_contains": "Resume the prior task", "last_contains": "written"},
                 "content": "Done."},
                {"match": {"prompt_contains": "Resume the prior task"}, "tool_calls": [write()]},
            ],
            "otherwise": {"tool_calls": [shell("seq 1 5000")], "non_canonical": true},
        }),
        max_context: 54_000,
        task: task(),
        calls: vec![
            ("main", "qwen-code-main"),
            ("compaction", "qwen-code-compaction"),
            ("main", "qwen-code-main"),
            ("compaction", "qwen-code-compaction"),
            ("main", "qwen-code-main"),
        ],
        samples: 5,
        links: vec![
            ("compacts", "main", "compaction"),
            ("compacts", "main", "compaction"),
            ("compacts", "main", "main"),
            ("compacts", "main", "main"),
        ],
        ..Case::new("qwen-code", "overflow")
    }
}
