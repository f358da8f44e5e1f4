//! OpenClaw: a note that comes and goes, ids that it strips, arguments that it writes anew.

use rollgate_harness::{AgentOutcome, OpenClaw};
use rollgate_tests::faulty::Fault;
use rollgate_tests::launched::Plan;
use serde_json::{Value, json};

use crate::alone;
use crate::case::{Case, times};

const AGENT: &str = "openclaw";
/// It takes its time to start.
const TIMEOUT_S: u64 = 400;
/// Where its own gateway listens: no port that the system gives away by itself.
const PORT: u16 = 18_799;

/// The headings that it insists on, and words of its own.
const SUMMARY: &str = "## Decisions\nThe Greek lists are read one after the other, each by a call of \
                       its own.\n\n## Open TODOs\nThe rest of the twelve lists.\n\n\
                       ## Constraints/Rules\nNone were given.\n\n\
                       ## Pending user asks\nNone.\n\n## Exact identifiers\nNone.";

/// Its cases.
pub fn cases() -> Vec<Case> {
    vec![compaction()]
}

fn exec(command: &str) -> Value {
    json!({"name": "exec", "arguments": {"command": command}})
}

fn agent(args: &[&str]) -> Value {
    json!({"args": args, "timeout_s": TIMEOUT_S})
}

fn main_calls(count: usize) -> impl Iterator<Item = (&'static str, &'static str)> {
    times(count, "main", "openclaw-main")
}

/// Long results until the prompt does not fit any more: that is what makes it compact in the middle
/// of a turn. It takes a summary with its headings only, and goes on behind it.
fn compaction() -> Case {
    let list = |at: usize| {
        let text = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu";
        json!({"content": format!("List {at}."), "non_canonical": true,
               "tool_calls": [exec(&format!("yes '{at} {text}' | head -280"))]})
    };
    let summary = json!({"match": {"prompt_contains": "You are a context summarization assistant"},
                         "content": SUMMARY, "non_canonical": true});
    let end = json!({"match": {"prompt_contains": "was compacted into the following summary"},
                     "content": "All lists are read.", "non_canonical": true});
    let replies: Vec<Value> = [summary, end].into_iter().chain((1..=12).map(list)).collect();
    Case {
        script: json!({"replies": replies}),
        task: json!({
            "instruction": "Read twelve long lists.",
            "agent": agent(&[]),
            "evaluate": {"command": "true", "timeout_s": 30},
        }),
        calls: main_calls(7)
            .chain(times(2, "compaction", "entry-url"))
            .chain(main_calls(1))
            .collect(),
        samples: 4,
        links: vec![("compacts", "main", "compaction"), ("compacts", "main", "main")],
        ..Case::new(AGENT, "compaction")
    }
}

/// In Chat, whose requests end with its note: shown, and not part of the history.
#[test]
fn in_chat_a_cut_stream_and_a_busy_gate_are_tried_again() {
    let Some(program) = alone::program(&OpenClaw) else { return };
    let script = json!({"replies": [
        {"reasoning": "One after the other.", "tool_calls": [exec("echo one")],
         "non_canonical": true},
        {"tool_calls": [exec("echo two")], "non_canonical": true},
        {"content": "There are no files.", "non_canonical": true},
    ]});
    let faults = [Fault::None, Fault::Cut, Fault::None, Fault::Busy];
    let plan = Plan {
        faults: Some(&faults),
        args: &["api=openai-completions"],
        ..Plan::new(&program, script, 65_536)
    };
    let run = alone::run(&OpenClaw, &plan);
    assert_eq!(run.outcome, AgentOutcome::Done, "{:#?}", run.ended);
    // After the cut it does not ask again but goes on, with a word to itself at the end of each
    // request: another prompt, so another answer. What was cut stands alone.
    assert_eq!(run.scenes(), ["main"; 4]);
    let parents: Vec<_> = run.turns.iter().map(|turn| turn["parent"].as_u64()).collect();
    assert_eq!(parents, [None, Some(0), Some(0), Some(2)]);
    assert_eq!(run.samples.len(), 2);
    run.check_training();
}

/// With its own gateway: reasoning, two calls at once, a child, whose end it is told before its next
/// turn, and titles, the last of which may be lost when it ends. What is needed seldom goes by
/// `tool_call`.
#[test]
fn with_its_gateway_tools_thinking_and_a_subagent() {
    let Some(program) = alone::program(&OpenClaw) else { return };
    let read = json!({"name": "read", "arguments": {"path": "question.txt"}});
    let task = "Count all folders that are in here, hidden ones too, and report their number.";
    let spawn = json!({"name": "tool_call",
                       "arguments": {"id": "sessions_spawn", "args": {"task": task}}});
    let wait = json!({"name": "exec", "arguments": {
        "command": "until [ -e counted ]; do sleep 1; done; sleep 8", "yieldMs": 120_000}});
    let script = json!({"replies": [
        {"match": {"without": "<!-- openclaw:attempt"}, "content": "Arithmetic"},
        {"match": {"prompt_contains": "[Subagent Task]", "turn": 0}, "reasoning": "Mine.",
         "tool_calls": [exec("ls -d */; touch counted")], "non_canonical": true},
        {"match": {"prompt_contains": "[Subagent Task]"}, "content": "There are none.",
         "non_canonical": true},
        {"reasoning": "Look first.", "content": "I look around.",
         "tool_calls": [exec("printf '6 * 7' > question.txt && ls")], "non_canonical": true},
        {"reasoning": "Two at once.", "tool_calls": [exec("cat question.txt"), read],
         "non_canonical": true},
        {"tool_calls": [spawn], "non_canonical": true},
        {"tool_calls": [wait], "non_canonical": true},
        {"content": "The answer is 42.", "non_canonical": true},
    ]});
    let gateway = format!("gateway={PORT}");
    let run =
        alone::run(&OpenClaw, &Plan { args: &[&gateway], ..Plan::new(&program, script, 65_536) });
    assert_eq!(run.outcome, AgentOutcome::Done, "{:#?}", run.ended);
    let mut rules: Vec<_> = run.turns.iter().filter_map(|turn| turn["rule"].as_str()).collect();
    rules.sort_unstable();
    let mut expected = ["openclaw-main"; 5].to_vec();
    expected.extend(["openclaw-subagent"; 2]);
    assert_eq!(
        rules.iter().filter(|rule| **rule != "entry-url").copied().collect::<Vec<_>>(),
        expected
    );
    let mut scenes = run.scenes();
    scenes.retain(|scene| !["main", "subagent"].contains(&scene.as_str()));
    assert!(!scenes.is_empty() && scenes.iter().all(|scene| scene == "title"), "{scenes:?}");
    let segments: Vec<_> = run.samples.iter().map(|sample| sample.scene.as_str()).collect();
    let child = segments.iter().position(|scene| *scene == "subagent").expect("it is there");
    assert_eq!(segments.len(), 2, "{segments:?}");
    assert!(run.links()[child][0].starts_with("spawned "), "{:?}", run.links());
    run.check_training();
}
