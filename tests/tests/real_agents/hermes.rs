//! Hermes: scenes by entry URLs where it has slots, else by what it says.

use rollgate_harness::{AgentOutcome, Hermes};
use rollgate_tests::faulty::Fault;
use rollgate_tests::launched::Plan;
use serde_json::{Value, json};

use crate::alone;
use crate::case::{Case, times};

const AGENT: &str = "hermes";
const MAIN: (&str, &str) = ("main", "hermes-main");
const CHILD: (&str, &str) = ("subagent", "hermes-subagent");
/// What the scripted summary says: its own words, long enough to be known again.
const SUMMARY: &str = "## Goal\nTwelve lists of Greek letters are to be read, one after the other.\n\n\
                       ## Completed Actions\n1. READ some of the lists, each in a call of its own.\n\n\
                       ## Active State\nNo file was changed so far, and nothing runs.";

/// Its cases.
pub fn cases() -> Vec<Case> {
    vec![tools(), subagents(), compaction(), overflow()]
}

fn terminal(command: &str) -> Value {
    json!({"name": "terminal", "arguments": {"command": command}})
}

fn evaluate(command: &str) -> Value {
    json!({"command": command, "timeout_s": 30})
}

fn main_calls(count: usize) -> impl Iterator<Item = (&'static str, &'static str)> {
    times(count, MAIN.0, MAIN.1)
}

/// Reasoning, which it does not send back, two calls at once, and the end. The engine is busy at
/// first, and an answer of its breaks off: it is asked again.
fn tools() -> Case {
    let read = json!({"name": "read_file", "arguments": {"path": "question.txt"}});
    Case {
        script: json!({"replies": [
            {"reasoning": "Look first.", "content": "I look around.",
             "tool_calls": [terminal("printf '6 * 7' > question.txt && ls")], "non_canonical": true,
             "fault": {"status": 429, "body": "busy"}, "times": 3},
            {"reasoning": "Two at once.", "tool_calls": [terminal("cat question.txt"), read],
             "non_canonical": true},
            {"tool_calls": [terminal("echo $((6 * 7)) > answer.txt && cat answer.txt")],
             "non_canonical": true, "fault": {"close_after_bytes": 300}, "times": 3},
            {"content": "The answer is in answer.txt.", "non_canonical": true},
        ]}),
        task: json!({
            "instruction": "Write the answer to 6 * 7 into answer.txt.\n\nThen \"stop\".",
            "evaluate": evaluate("test \"$(cat answer.txt)\" = 42"),
        }),
        calls: main_calls(4).collect(),
        ..Case::new(AGENT, "tools")
    }
}

/// Two children at once; their calls overlap.
fn subagents() -> Case {
    let goals = ["Count the files, Alpha, in this directory.", "Count the folders, Beta, in here."];
    let tasks: Vec<Value> =
        goals.iter().map(|goal| json!({"goal": goal, "context": "A small folder."})).collect();
    let asked = |goal: &str, turn: u32| json!({"system_contains": ["You are a focused subagent", goal], "turn": turn});
    Case {
        script: json!({"replies": [
            {"match": asked("Alpha", 0), "reasoning": "Mine.", "tool_calls": [terminal("ls")],
             "non_canonical": true},
            {"match": asked("Alpha", 1), "content": "Alpha has one file.", "non_canonical": true},
            {"match": asked("Beta", 0), "tool_calls": [terminal("ls -d */")], "non_canonical": true},
            {"match": asked("Beta", 1), "content": "Beta has no folder.", "non_canonical": true},
            {"reasoning": "Two helpers.",
             "tool_calls": [{"name": "delegate_task", "arguments": {"tasks": tasks}}],
             "non_canonical": true},
            {"content": "One file and no folder.", "non_canonical": true},
        ]}),
        task: json!({"instruction": "Have files and folders counted.", "evaluate": evaluate("true")}),
        calls: main_calls(2).chain(times(4, CHILD.0, CHILD.1)).collect(),
        ordered: false,
        samples: 3,
        links: vec![("spawned", "subagent", "main"), ("spawned", "subagent", "main")],
        ..Case::new(AGENT, "subagents")
    }
}

/// Long results until usage reaches three quarters of the window; then the head, a summary and the
/// tail go on.
fn compaction() -> Case {
    let list = |at: usize| {
        let command =
            format!("yes '{at} alpha beta gamma delta epsilon zeta eta theta' | head -500");
        json!({"content": format!("List {at}."), "tool_calls": [terminal(&command)],
               "non_canonical": true})
    };
    let summary = json!({"match": {"prompt_contains": "You are a summarization agent"},
                         "content": SUMMARY, "non_canonical": true});
    let end = json!({"match": {"prompt_contains": "[CONTEXT COMPACTION"},
                     "content": "All lists are read.", "non_canonical": true});
    let replies: Vec<Value> = [summary, end].into_iter().chain((1..=9).map(list)).collect();
    Case {
        script: json!({"replies": replies}),
        max_context: 96_000,
        task: json!({"instruction": "Read the long lists.", "evaluate": evaluate("true")}),
        calls: main_calls(7).chain([("compaction", "entry-url")]).chain(main_calls(1)).collect(),
        samples: 3,
        links: vec![("compacts", "main", "compaction"), ("compacts", "main", "main")],
        ..Case::new(AGENT, "compaction")
    }
}

/// A prompt that does not fit, with nothing in it that could be left out: it gives up, exits with 0,
/// and is judged by its report.
fn overflow() -> Case {
    let long = |from: u32| terminal(&format!("seq {from} {}", from + 4_600));
    Case {
        script: json!({"replies": [
            {"tool_calls": [long(10_000), long(20_000)], "non_canonical": true},
            {"content": "Never said."},
        ]}),
        task: json!({"instruction": "Read too much.", "evaluate": evaluate("false")}),
        calls: main_calls(1).collect(),
        outcome: "agent_failed",
        reward: Some(0.0),
        ..Case::new(AGENT, "overflow")
    }
}

#[test]
fn a_cut_stream_and_a_busy_gate_are_tried_again() {
    let Some(program) = alone::program(&Hermes) else { return };
    let script = json!({"replies": [
        {"reasoning": "One after the other.", "tool_calls": [terminal("echo one")],
         "non_canonical": true},
        {"tool_calls": [terminal("echo two")], "non_canonical": true},
        {"content": "There are no files.", "non_canonical": true},
    ]});
    let faults = [Fault::None, Fault::Cut, Fault::None, Fault::Busy];
    let run =
        alone::run(&Hermes, &Plan { faults: Some(&faults), ..Plan::new(&program, script, 65_536) });
    assert_eq!(run.outcome, AgentOutcome::Done, "{:#?}", run.ended);
    // Where the gate saw that the cut answer did not arrive, it gives it again; where the whole of
    // it had left the gate before the cut, the same prompt is sampled anew, and both are trained.
    let scenes = run.scenes();
    assert!(
        matches!(scenes.len(), 3 | 4) && scenes.iter().all(|scene| scene == "main"),
        "{scenes:?}"
    );
    let parents: Vec<_> = run.turns.iter().map(|turn| turn["parent"].as_u64()).collect();
    let anew = scenes.len() == 4;
    let expected: &[_] = match anew {
        true => &[None, Some(0), Some(0), Some(2)],
        false => &[None, Some(0), Some(1)],
    };
    assert_eq!(parents, expected);
    assert_eq!(anew, run.turns[1]["flags"]["delivered"] == true, "{:#?}", run.turns[1]);
    assert_eq!(run.samples.len(), 1 + usize::from(anew));
    run.check_training();
}
