//! Claude Code: its whole life in one session, and what it does when things go wrong.

use rollgate_harness::{AgentOutcome, ClaudeCode};
use rollgate_tests::faulty::Fault;
use rollgate_tests::launched::{Plan, Run};
use serde_json::{Value, json};

use crate::alone;
use crate::case::{Case, times};

const SUBTASK: &str =
    "Count all files below this directory, hidden ones too, and report their number.";
const SUMMARY: &str = "The user wants the files of the directory counted; a helper has counted \
                       them and found three of them. What is left: say so.";

/// Its cases.
pub fn cases() -> Vec<Case> {
    vec![life(), helpers(), retries()]
}

/// A call of its shell.
fn bash(command: &str) -> Value {
    json!({"name": "Bash", "arguments": {"command": command, "description": "Do it"}})
}

/// What the model says when it is to sum up.
fn sums_up() -> Value {
    json!({"match": {"prompt_contains": "Respond with TEXT ONLY"},
        "content": format!("<analysis>All is said.</analysis>\n<summary>\n{SUMMARY}\n</summary>")})
}

fn task() -> Value {
    json!({
        "instruction": "Count the files here.",
        "agent": {"timeout_s": 500},
        "evaluate": {"command": "test \"$(cat answer.txt)\" = 3", "timeout_s": 30},
    })
}

/// Thinking, two calls at once, a subagent, and a summary of it all, in one session.
fn life() -> Case {
    let agent = json!({"name": "Agent", "arguments": {"description": "Count", "prompt": SUBTASK,
        "subagent_type": "general-purpose", "run_in_background": false}});
    let script = json!({"replies": [
        sums_up(),
        {"match": {"prompt_contains": SUMMARY, "turn": 1}, "reasoning": "Once more.",
            "tool_calls": [bash("echo 3 > answer.txt")]},
        {"match": {"prompt_contains": SUMMARY}, "content": "There are three files.", "non_canonical": 2},
        {"match": {"prompt_contains": SUBTASK, "turn": 0}, "reasoning": "Count.",
            "tool_calls": [bash("ls -a | wc -l")], "non_canonical": 2},
        {"match": {"prompt_contains": SUBTASK, "turn": 1}, "content": "Three, none of them hidden."},
        {"reasoning": "I look first.", "content": "I look around.",
            "tool_calls": [bash("echo one > a.txt; ls")], "non_canonical": 2},
        {"tool_calls": [bash("echo p1"), bash("echo p2")]},
        {"reasoning": "A helper shall count.", "tool_calls": [agent]},
        // Together they fill the window.
        {"tool_calls": [bash("seq 1 2000 | tr '\\n' ' '")]},
        {"tool_calls": [bash("seq 1 900 | tr '\\n' ' '")]},
    ]});
    Case {
        script,
        max_context: 70_000,
        task: task(),
        calls: times(3, "main", "claude-code-main")
            .chain(times(2, "subagent", "claude-code-subagent"))
            .chain(times(2, "main", "claude-code-main"))
            .chain(times(1, "compaction", "claude-code-compaction"))
            .chain(times(2, "main", "claude-code-main"))
            .collect(),
        samples: 4,
        links: vec![
            ("compacts", "main", "compaction"),
            ("compacts", "main", "main"),
            ("spawned", "subagent", "main"),
        ],
        // The turn that called for the helper, the line summed up, and the summary.
        check: |seen, _| seen.leads_to(&[("compacts", 5), ("compacts", 7), ("spawned", 2)]),
        ..Case::new("claude-code", "life")
    }
}

/// Two helpers called for at once; their calls overlap.
fn helpers() -> Case {
    let alpha = "Count the files, Alpha, below this directory.";
    let beta = "Count the folders, Beta, below this directory.";
    let agent = |prompt: &str| {
        json!({"name": "Agent", "arguments": {"description": "Count", "prompt": prompt,
            "subagent_type": "general-purpose", "run_in_background": false}})
    };
    let asked = |prompt: &str, turn: u32| json!({"prompt_contains": prompt, "without": "Count the files here.", "turn": turn});
    Case {
        script: json!({"replies": [
            {"match": asked(alpha, 0), "reasoning": "Mine.", "tool_calls": [bash("ls | wc -l")],
             "non_canonical": true},
            {"match": asked(alpha, 1), "content": "There are three files.", "non_canonical": true},
            {"match": asked(beta, 0), "tool_calls": [bash("ls -d .*")], "non_canonical": true},
            {"match": asked(beta, 1), "content": "There is no folder.", "non_canonical": true},
            {"reasoning": "Two helpers.", "tool_calls": [agent(alpha), agent(beta)],
             "non_canonical": true},
            {"tool_calls": [bash("echo 3 > answer.txt")], "non_canonical": true},
            {"content": "There are three files."},
        ]}),
        task: task(),
        calls: times(3, "main", "claude-code-main")
            .chain(times(4, "subagent", "claude-code-subagent"))
            .collect(),
        ordered: false,
        samples: 3,
        links: vec![("spawned", "subagent", "main"), ("spawned", "subagent", "main")],
        check: |seen, _| seen.leads_to(&[("spawned", 0), ("spawned", 0)]),
        ..Case::new("claude-code", "helpers")
    }
}

/// An engine that is busy for a while, and a stream that breaks once the agent has its head.
fn retries() -> Case {
    Case {
        script: json!({"replies": [
            {"tool_calls": [bash("ls")], "fault": {"status": 429}, "times": 6},
            {"tool_calls": [bash("echo 3 > answer.txt")], "delay_ms": 3_500,
             "fault": {"close_after_bytes": 40}, "times": 3},
            {"content": "There are three files."},
        ]}),
        task: task(),
        calls: times(3, "main", "claude-code-main").collect(),
        ..Case::new("claude-code", "retries")
    }
}

/// Checks how it ended and what it called for, and that every turn is trained once.
fn check(run: &Run, scenes: &[&str], answer: &str) {
    assert_eq!(run.outcome, AgentOutcome::Done, "{:#?}", run.ended);
    assert!(run.ended.stdout.contains(answer), "{}", run.ended.stdout);
    assert_eq!(run.scenes(), scenes, "{:#?}", run.turns);
    run.check_training();
}

#[test]
fn an_overflow_makes_it_compact() {
    let Some(program) = alone::program(&ClaudeCode) else { return };
    let script = json!({"replies": [
        sums_up(),
        {"match": {"prompt_contains": SUMMARY}, "content": "There are three files."},
        {"tool_calls": [bash("seq 1 2000 | tr '\\n' ' '")]},
        {"tool_calls": [bash("seq 1 3000 | tr '\\n' ' '")]},
    ]});
    // It takes the window for larger than it is; its third call is refused.
    let plan = Plan { told_context: 131_072, ..Plan::new(&program, script, 48_000) };
    let run = alone::run(&ClaudeCode, &plan);
    check(&run, &["main", "main", "compaction", "main"], "There are three files.");
}

#[test]
fn a_cut_stream_and_a_busy_gate_are_tried_again() {
    let Some(program) = alone::program(&ClaudeCode) else { return };
    let script = json!({"replies": [
        {"tool_calls": [bash("echo one")]},
        // Cut while the engine is at it.
        {"tool_calls": [bash("echo two")], "delay_ms": 6_000},
        {"content": "There are three files."},
    ]});
    let faults = [Fault::None, Fault::Cut, Fault::None, Fault::Busy];
    let plan = Plan { faults: Some(&faults), ..Plan::new(&program, script, 131_072) };
    let run = alone::run(&ClaudeCode, &plan);
    // Nothing is sampled twice: it is given what the cut call had.
    check(&run, &["main", "main", "main"], "There are three files.");
    assert_eq!((run.calls, run.samples.len()), (5, 1));
}
