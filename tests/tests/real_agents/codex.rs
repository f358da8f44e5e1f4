//! Codex: its whole life in one session, and what it does when things go wrong.

use rollgate_harness::{AgentOutcome, Codex};
use rollgate_tests::faulty::Fault;
use rollgate_tests::launched::{Plan, run};
use rollgate_tests::real;
use serde_json::{Value, json};

const SUBTASK: &str =
    "Count all files below this directory, hidden ones too, and report their number.";
const SUMMARY: &str = "The user wants the files of the directory counted; a helper has counted \
                       them and found three of them. What is left: say so.";

/// A call of its shell.
fn exec(command: &str) -> Value {
    json!({"name": "exec_command", "arguments": {"cmd": command}})
}

#[test]
fn tools_thinking_a_subagent_and_a_compaction() {
    let Some(program) = real::agent("codex", "0.171.0") else { return };
    let spawn = json!({"name": "multi_agent_v1__spawn_agent", "arguments": {"message": SUBTASK}});
    let script = json!({"replies": [
        {"match": {"prompt_contains": "CONTEXT CHECKPOINT COMPACTION"}, "content": SUMMARY},
        {"match": {"prompt_contains": SUMMARY, "turn": 0}, "reasoning": "Once more.",
            "tool_calls": [exec("echo after")]},
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
    let run = run(&Codex, &Plan::new(&program, script, 32_768));
    assert_eq!(run.outcome, AgentOutcome::Done, "{:#?}", run.ended);
    assert!(run.ended.stdout.contains("There are three files."), "{}", run.ended.stdout);
    // The helper runs beside the main loop: only the order within each is fixed.
    let mut scenes = run.scenes();
    scenes.sort();
    let expected = [&["compaction"; 1][..], &["main"; 7], &["subagent"; 2]].concat();
    assert_eq!(scenes, expected, "{:?}", run.scenes());
    run.check_training();
    let segments: Vec<_> = run.samples.iter().map(|sample| sample.scene.as_str()).collect();
    assert_eq!(segments, ["subagent", "main", "compaction", "main"]);
    let links = run.links();
    assert_eq!(links[0], ["spawned 1.2"], "the turn that called for it");
    let kinds: Vec<_> = links[3].iter().map(|link| link.split('.').next().unwrap()).collect();
    assert_eq!(kinds, ["compacts 1", "compacts 2"], "the line summed up, and the summary");
}

#[test]
fn an_overflow_ends_it_and_is_told() {
    let Some(program) = real::agent("codex", "0.171.0") else { return };
    let script = json!({"replies": [{"tool_calls": [exec("seq 1 6000 | tr '\\n' ' '")]}]});
    let plan = Plan { told_context: 131_072, ..Plan::new(&program, script, 20_000) };
    let run = run(&Codex, &plan);
    let AgentOutcome::Failed(why) = &run.outcome else { panic!("{:#?}", run.ended) };
    assert!(why.contains("context window"), "{why}");
    assert_eq!(run.scenes(), ["main"]);
    run.check_training();
}

#[test]
fn a_cut_stream_and_a_busy_gate_are_tried_again() {
    let Some(program) = real::agent("codex", "0.171.0") else { return };
    let script = json!({"replies": [
        {"tool_calls": [exec("echo one")]}, {"tool_calls": [exec("echo two")]},
        {"content": "There are three files."},
    ]});
    let faults = [Fault::None, Fault::Cut, Fault::None, Fault::Busy];
    let plan = Plan { faults: Some(&faults), ..Plan::new(&program, script, 65_536) };
    let run = run(&Codex, &plan);
    assert_eq!(run.outcome, AgentOutcome::Done, "{:#?}", run.ended);
    assert!(run.ended.stdout.contains("There are three files."), "{}", run.ended.stdout);
    // The cut answer is given again: nothing is sampled twice.
    assert_eq!(run.scenes(), ["main", "main", "main"]);
    assert_eq!(run.samples.len(), 1);
    run.check_training();
}
