//! pi: four tools, one loop, and summaries of it.

use serde_json::{Value, json};

use crate::case::{Case, times};

const SUMMARY: &str = "## Goal\nRead the long listing in pieces until its last line was seen; that \
                       is done, and nothing of it needs to be read again.";

/// Its cases.
pub fn cases() -> Vec<Case> {
    vec![tools(), retries(), compaction(), overflow()]
}

fn bash(command: &str) -> Value {
    json!({"name": "bash", "arguments": {"command": command}})
}

fn task() -> Value {
    json!({
        "instruction": "Write the answer to 6 * 7 into answer.txt.",
        "agent": {"timeout_s": 500},
        "evaluate": {"command": "test \"$(cat answer.txt)\" = 42", "timeout_s": 30},
    })
}

fn write() -> Value {
    json!({"name": "write", "arguments": {"path": "answer.txt", "content": "42\n"}})
}

/// Reasoning that is sent back, two calls at once, and the end.
fn tools() -> Case {
    Case {
        script: json!({"replies": [
            {"reasoning": "Look first.", "tool_calls": [bash("printf '6 * 7' > question.txt")],
             "non_canonical": true},
            {"reasoning": "Both at once.", "content": "Two calls.",
             "tool_calls": [bash("ls"), {"name": "read", "arguments": {"path": "question.txt"}}],
             "non_canonical": true},
            {"tool_calls": [write()]},
            {"reasoning": "Enough.", "content": "Done."},
        ]}),
        task: task(),
        calls: times(4, "main", "pi-main").collect(),
        ..Case::new("pi", "tools")
    }
}

/// An engine that is busy for a while, and a stream that breaks once the agent has its head.
fn retries() -> Case {
    Case {
        script: json!({"replies": [
            {"tool_calls": [bash("ls")], "fault": {"status": 429}, "times": 6},
            {"tool_calls": [write()], "delay_ms": 3_500, "fault": {"close_after_bytes": 40},
             "times": 3},
            {"content": "Done."},
        ]}),
        task: task(),
        calls: times(3, "main", "pi-main").collect(),
        ..Case::new("pi", "retries")
    }
}

/// Usage leads to a summary in the middle of the run.
fn compaction() -> Case {
    Case {
        script: json!({
            "replies": [
                {"match": {"system_contains": "context summarization"}, "content": SUMMARY},
                {"match": {"prompt_contains": "was compacted into", "last_contains": "Successfully"},
                 "content": "Done."},
                {"match": {"prompt_contains": "was compacted into"}, "tool_calls": [write()]},
            ],
            "otherwise": {"reasoning": "More.", "tool_calls": [bash("seq 1 1000")],
                          "non_canonical": true},
        }),
        max_context: 24_000,
        task: task(),
        calls: times(5, "main", "pi-main")
            .chain(times(1, "compaction", "pi-compaction"))
            .chain(times(2, "main", "pi-main"))
            .collect(),
        samples: 3,
        links: vec![("compacts", "main", "compaction"), ("compacts", "main", "main")],
        ..Case::new("pi", "compaction")
    }
}

/// What is kept of the history does not fit, sum up the rest as it may: the run is over, though pi
/// exits with 0.
fn overflow() -> Case {
    Case {
        script: json!({"replies": [
            {"match": {"system_contains": "context summarization"}, "content": SUMMARY},
            {"tool_calls": [bash("seq 1 4000")]},
        ]}),
        max_context: 9_000,
        task: task(),
        calls: vec![("main", "pi-main"), ("compaction", "pi-compaction")],
        samples: 2,
        outcome: "agent_failed",
        reward: Some(0.0),
        ..Case::new("pi", "overflow")
    }
}
