//! opencode: titles at a URL of their own, a subagent, and summaries apart from the conversation.

use serde_json::{Value, json};

use crate::case::{Case, times};

const SUMMARY: &str = "## Goal\nRead the long listing in pieces until its last line was seen; that \
                       is done, and nothing of it needs to be read again.";
const COUNT: &str = "Count the files in the work folder and report their exact number.";

/// Its cases.
pub fn cases() -> Vec<Case> {
    vec![tools(), retries(), compaction(), overflow()]
}

fn bash(command: &str) -> Value {
    json!({"name": "bash", "arguments": {"command": command, "description": "run it"}})
}

fn write() -> Value {
    bash("echo 42 > answer.txt && echo written")
}

fn title() -> Value {
    json!({"match": {"system_contains": "You are a title generator"}, "content": "Six by seven"})
}

fn summary() -> Value {
    json!({"match": {"system_contains": "context summarization"}, "content": SUMMARY})
}

fn task() -> Value {
    json!({
        "instruction": "Write the answer to 6 * 7 into answer.txt.",
        "agent": {"timeout_s": 500},
        "evaluate": {"command": "test \"$(cat answer.txt)\" = 42", "timeout_s": 30},
    })
}

/// The title's call runs beside the first of the loop.
fn case(name: &'static str) -> Case {
    Case { task: task(), ordered: false, ..Case::new("opencode", name) }
}

/// Reasoning that is sent back, two calls at once, a subagent, and the end.
fn tools() -> Case {
    let spawn = json!({"name": "task", "arguments": {
        "description": "count", "prompt": COUNT, "subagent_type": "general",
    }});
    Case {
        script: json!({"replies": [
            title(),
            {"match": {"prompt_contains": COUNT, "without": "6 * 7", "turn": 0},
             "reasoning": "Count.", "tool_calls": [bash("ls | wc -l")], "non_canonical": true},
            {"match": {"prompt_contains": COUNT, "without": "6 * 7", "turn": 1},
             "content": "There is one file."},
            {"reasoning": "Look first.", "tool_calls": [bash("echo hi > question.txt")],
             "non_canonical": true},
            {"reasoning": "Both at once.", "content": "Two calls.",
             "tool_calls": [bash("ls"), {"name": "read", "arguments": {"filePath": "question.txt"}}],
             "non_canonical": true},
            {"tool_calls": [spawn]},
            {"tool_calls": [write()]},
            {"reasoning": "Enough.", "content": "Done."},
        ]}),
        calls: times(1, "title", "entry-url")
            .chain(times(5, "main", "opencode-main"))
            .chain(times(2, "subagent", "opencode-subagent"))
            .collect(),
        samples: 2,
        links: vec![("spawned", "subagent", "main")],
        ..case("tools")
    }
}

/// An engine that is busy for a while, and a stream that breaks once the agent has its head.
fn retries() -> Case {
    Case {
        script: json!({"replies": [
            title(),
            {"tool_calls": [bash("ls")], "fault": {"status": 429}, "times": 6},
            {"tool_calls": [write()], "delay_ms": 3_500, "fault": {"close_after_bytes": 40},
             "times": 3},
            {"content": "Done."},
        ]}),
        calls: times(1, "title", "entry-url").chain(times(3, "main", "opencode-main")).collect(),
        ..case("retries")
    }
}

/// Usage leads to a summary in the middle of the run. What is kept of the history is too long still:
/// the first turn behind the summary leads to another.
fn compaction() -> Case {
    Case {
        script: json!({
            "replies": [
                title(),
                summary(),
                {"match": {"prompt_contains": "What did we do so far", "last_contains": "written"},
                 "content": "Done."},
                {"match": {"prompt_contains": "What did we do so far"}, "tool_calls": [write()]},
            ],
            "otherwise": {"reasoning": "More.", "tool_calls": [bash("seq 1 1000")],
                          "non_canonical": true},
        }),
        max_context: 32_000,
        calls: times(1, "title", "entry-url")
            .chain(times(8, "main", "opencode-main"))
            .chain(times(2, "compaction", "opencode-compaction"))
            .collect(),
        samples: 5,
        links: vec![
            ("compacts", "main", "compaction"),
            ("compacts", "main", "compaction"),
            ("compacts", "main", "main"),
            ("compacts", "main", "main"),
        ],
        ..case("compaction")
    }
}

/// A result that does not fit: the call is refused, summed up, and the run goes on.
fn overflow() -> Case {
    Case {
        script: json!({
            "replies": [
                title(),
                summary(),
                {"match": {"prompt_contains": "What did we do so far", "last_contains": "written"},
                 "content": "Done."},
                {"match": {"prompt_contains": "What did we do so far"}, "tool_calls": [write()]},
            ],
            "otherwise": {"tool_calls": [bash("seq 1 9000 | paste -sd' ' | fold -w 1000")],
                          "non_canonical": true},
        }),
        max_context: 32_000,
        calls: times(1, "title", "entry-url")
            .chain(times(1, "main", "opencode-main"))
            .chain(times(1, "compaction", "opencode-compaction"))
            .chain(times(2, "main", "opencode-main"))
            .collect(),
        samples: 3,
        links: vec![("compacts", "main", "compaction"), ("compacts", "main", "main")],
        ..case("overflow")
    }
}
