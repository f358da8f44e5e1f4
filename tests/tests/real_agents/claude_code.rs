//! Claude Code: its whole life in one session, and what it does when things go wrong.

use rollgate_harness::{AgentOutcome, ClaudeCode};
use rollgate_tests::faulty::Fault;
use rollgate_tests::launched::{Plan, Run, run};
use rollgate_tests::real;
use serde_json::{Value, json};

const SUBTASK: &str =
    "Count all files below this directory, hidden ones too, and report their number.";
const SUMMARY: &str = "The user wants the files of the directory counted; a helper has counted \
                       them and found three of them. What is left: say so.";

/// A call of its shell.
fn bash(command: &str) -> Value {
    json!({"name": "Bash", "arguments": {"command": command, "description": "Do it"}})
}

/// What the model says when it is to sum up.
fn sums_up() -> Value {
    json!({"match": {"prompt_contains": "Respond with TEXT ONLY"},
        "content": format!("<analysis>All is said.</analysis>\n<summary>\n{SUMMARY}\n</summary>")})
}

/// Checks how it ended and what it called for, and that every turn is trained once.
fn check(run: &Run, scenes: &[&str], answer: &str) {
    assert_eq!(run.outcome, AgentOutcome::Done, "{:#?}", run.ended);
    assert!(run.ended.stdout.contains(answer), "{}", run.ended.stdout);
    assert_eq!(run.scenes(), scenes);
    run.check_training();
}

#[test]
fn tools_thinking_a_subagent_and_a_compaction() {
    let Some(program) = real::agent("claude-code", "2.1.332") else { return };
    let agent = json!({"name": "Agent", "arguments": {"description": "Count", "prompt": SUBTASK,
        "subagent_type": "general-purpose", "run_in_background": false}});
    let script = json!({"replies": [
        sums_up(),
        {"match": {"prompt_contains": SUMMARY, "turn": 1}, "reasoning": "Once more.",
            "tool_calls": [bash("echo after")]},
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
    let run = run(&ClaudeCode, &Plan::new(&program, script, 70_000));
    let scenes = [
        "main",
        "main",
        "main",
        "subagent",
        "subagent",
        "main",
        "main",
        "compaction",
        "main",
        "main",
    ];
    check(&run, &scenes, "There are three files.");
    let segments: Vec<_> = run.samples.iter().map(|sample| sample.scene.as_str()).collect();
    assert_eq!(segments, ["subagent", "main", "compaction", "main"]);
    let links = run.links();
    assert_eq!(links[0], ["spawned 1.2"], "the turn that called for it");
    assert_eq!(links[3], ["compacts 1.5", "compacts 2.7"], "the line summed up, and the summary");
}

#[test]
fn an_overflow_makes_it_compact() {
    let Some(program) = real::agent("claude-code", "2.1.332") else { return };
    let script = json!({"replies": [
        sums_up(),
        {"match": {"prompt_contains": SUMMARY}, "content": "There are three files."},
        {"tool_calls": [bash("seq 1 2000 | tr '\\n' ' '")]},
        {"tool_calls": [bash("seq 1 3000 | tr '\\n' ' '")]},
    ]});
    // It takes the window for larger than it is; its third call is refused.
    let plan = Plan { told_context: 131_072, ..Plan::new(&program, script, 48_000) };
    let run = run(&ClaudeCode, &plan);
    check(&run, &["main", "main", "compaction", "main"], "There are three files.");
}

#[test]
fn a_cut_stream_and_a_busy_gate_are_tried_again() {
    let Some(program) = real::agent("claude-code", "2.1.332") else { return };
    let script = json!({"replies": [
        {"tool_calls": [bash("echo one")]}, {"tool_calls": [bash("echo two")]},
        {"content": "There are three files."},
    ]});
    let faults = [Fault::None, Fault::Cut, Fault::None, Fault::Busy];
    let plan = Plan { faults: Some(&faults), ..Plan::new(&program, script, 131_072) };
    let run = run(&ClaudeCode, &plan);
    // The cut answer is given again: nothing is sampled twice.
    check(&run, &["main", "main", "main"], "There are three files.");
    assert_eq!(run.samples.len(), 1);
}
