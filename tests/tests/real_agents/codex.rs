//! Codex: its whole life in one session, and what it does when things go wrong.

use rollgate_harness::{AgentOutcome, Codex};
use rollgate_tests::faulty::Fault;
use rollgate_tests::launched::Plan;
use serde_json::{Value, json};

use crate::alone;
use crate::case::{Case, times};

const SUBTASK: &str =
    "Count all files below this directory, hidden ones too, and report their number.";
const SUMMARY: &str = "The user wants the files of the directory counted; a helper has counted \
                       them and found three of them. What is left: say so.";

/// Its cases.
pub fn cases() -> Vec<Case> {
    vec![life(), retries()]
}

/// A call of its shell.
fn exec(command: &str) -> Value {
    json!({"name": "exec_command", "arguments": {"cmd": command}})
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
    let spawn = json!({"name": "multi_agent_v1__spawn_agent", "arguments": {"message": SUBTASK}});
    let script = json!({"replies": [
        {"match": {"prompt_contains": "CONTEXT CHECKPOINT COMPACTION"}, "content": SUMMARY},
        {"match": {"prompt_contains": SUMMARY, "turn": 0}, "reasoning": "Once more.",
            "tool_calls": [exec("echo 3 > answer.txt")]},
        {"match": {"prompt_contains": SUMMARY}, "content": "There are three files.", "non_canonical": 2},
        {"match": {"prompt_contains": SUBTASK, "turn": 0}, "reasoning": "Count.",
            "tool_calls": [exec("ls -a | wc -l")], "non_canonical": 2},
        {"match": {"prompt_contains": SUBTASK, "turn": 1}, "content": "Three, none of them hidden."},
        {"reasoning": "I look first.", "content": "I look around.",
            "tool_calls": [exec("echo one > a.txt; ls")], "non_canonical": 2},
        {"tool_calls": [exec("echo p1"), exec("echo p2")]},
        {"reasoning": "A helper shall count.", "tool_calls": [spawn]},
        // The helper is done by then, and the window full.
        {"tool_calls": [exec("sleep 8; seq 1 2800 | tr '\\n' ' '")]},
        {"tool_calls": [exec("echo enough")]},
    ]});
    Case {
        script,
        max_context: 32_768,
        task: task(),
        calls: times(7, "main", "codex-main")
            .chain(times(2, "subagent", "codex-subagent"))
            .chain(times(1, "compaction", "codex-compaction"))
            .collect(),
        // The helper runs beside the main loop: only the order within each is fixed.
        ordered: false,
        samples: 4,
        links: vec![
            ("compacts", "main", "compaction"),
            ("compacts", "main", "main"),
            ("spawned", "subagent", "main"),
        ],
        check: |seen, _| {
            let calls: Vec<&str> = seen.calls().into_iter().map(|(scene, _)| scene).collect();
            let at = |scene: &str, calls: &[&str]| calls.iter().rposition(|known| *known == scene);
            let summary = at("compaction", &calls).unwrap_or_default();
            let last = at("main", &calls[..summary]).unwrap_or_default();
            // The line summed up, the summary, and the turn that called for the helper.
            seen.leads_to(&[("compacts", last), ("compacts", summary), ("spawned", 2)])
        },
        ..Case::new("codex", "life")
    }
}

/// An engine that is busy for a while, and a stream that breaks once the agent has its head.
fn retries() -> Case {
    Case {
        script: json!({"replies": [
            {"tool_calls": [exec("ls")], "fault": {"status": 429}, "times": 6},
            {"tool_calls": [exec("echo 3 > answer.txt")], "delay_ms": 3_500,
             "fault": {"close_after_bytes": 40}, "times": 3},
            {"content": "There are three files."},
        ]}),
        task: task(),
        calls: times(3, "main", "codex-main").collect(),
        ..Case::new("codex", "retries")
    }
}

#[test]
fn an_overflow_ends_it_and_is_told() {
    let Some(program) = alone::program(&Codex) else { return };
    let script = json!({"replies": [{"tool_calls": [exec("seq 1 6000 | tr '\\n' ' '")]}]});
    let plan = Plan { told_context: 131_072, ..Plan::new(&program, script, 20_000) };
    let run = alone::run(&Codex, &plan);
    let AgentOutcome::Failed(why) = &run.outcome else { panic!("{:#?}", run.ended) };
    assert!(why.contains("context window"), "{why}");
    assert_eq!(run.scenes(), ["main"]);
    run.check_training();
}

#[test]
fn a_cut_stream_and_a_busy_gate_are_tried_again() {
    let Some(program) = alone::program(&Codex) else { return };
    let script = json!({"replies": [
        {"tool_calls": [exec("echo one")]},
        // Cut while the engine is at it.
        {"tool_calls": [exec("echo two")], "delay_ms": 6_000},
        {"content": "There are three files."},
    ]});
    let faults = [Fault::None, Fault::Cut, Fault::None, Fault::Busy];
    let plan = Plan { faults: Some(&faults), ..Plan::new(&program, script, 65_536) };
    let run = alone::run(&Codex, &plan);
    assert_eq!(run.outcome, AgentOutcome::Done, "{:#?}", run.ended);
    assert!(run.ended.stdout.contains("There are three files."), "{}", run.ended.stdout);
    // Nothing is sampled twice: it is given what the cut call had.
    assert_eq!(run.scenes(), ["main", "main", "main"], "{:#?}", run.turns);
    assert_eq!((run.calls, run.samples.len()), (5, 1));
    run.check_training();
}
