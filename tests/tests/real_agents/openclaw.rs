//! OpenClaw: a note that comes and goes, ids that it strips, arguments that it writes anew.

use serde_json::{Value, json};

use crate::case::{Case, times};

const AGENT: &str = "openclaw";
/// It takes its time to start.
const TIMEOUT_S: u64 = 400;

/// The headings that it insists on, and words of its own.
const SUMMARY: &str = "## Decisions\nThe Greek lists are read one after the other, each by a call of \
                       its own.\n\n## Open TODOs\nThe rest of the twelve lists.\n\n\
                       ## Constraints/Rules\nNone were given.\n\n\
                       ## Pending user asks\nRead twelve long lists.\n\n## Exact identifiers\nNone.";

/// Its cases.
pub fn cases() -> Vec<Case> {
    vec![tools("tools", "api=openai-responses", Vec::new()), chat(), compaction(), busy()]
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

/// Reasoning, two calls at once, and the end.
fn tools(name: &'static str, api: &str, rules: Vec<&'static str>) -> Case {
    let read = json!({"name": "read", "arguments": {"path": "question.txt"}});
    Case {
        script: json!({"replies": [
            {"reasoning": "Look first.", "content": "I look around.",
             "tool_calls": [exec("printf '6 * 7' > question.txt && ls")], "non_canonical": true},
            {"reasoning": "Two at once.", "tool_calls": [exec("cat question.txt"), read],
             "non_canonical": true},
            {"tool_calls": [exec("echo $((6 * 7)) > answer.txt && cat answer.txt")],
             "non_canonical": true},
            {"content": "The answer is in answer.txt.", "non_canonical": true},
        ]}),
        task: json!({
            "instruction": "Write the answer to 6 * 7 into answer.txt.",
            "agent": agent(&[api]),
            "evaluate": {"command": "test \"$(cat answer.txt)\" = 42", "timeout_s": 30},
        }),
        calls: main_calls(4).collect(),
        rules,
        ..Case::new(AGENT, name)
    }
}

/// The same in Chat, where the note ends each request: shown, and not part of the history.
fn chat() -> Case {
    tools("chat", "api=openai-completions", vec!["openclaw-internal-context"])
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
        calls: main_calls(6).chain([("compaction", "entry-url")]).chain(main_calls(1)).collect(),
        samples: 3,
        links: vec![("compacts", "main", "compaction"), ("compacts", "main", "main")],
        ..Case::new(AGENT, "compaction")
    }
}

/// An engine that is busy at first: it asks again.
fn busy() -> Case {
    Case {
        script: json!({"replies": [
            {"tool_calls": [exec("touch done.txt")], "non_canonical": true,
             "fault": {"status": 429, "body": "busy"}, "times": 1},
            {"content": "Done.", "non_canonical": true},
        ]}),
        task: json!({
            "instruction": "Make the file done.txt.",
            "agent": agent(&[]),
            "evaluate": {"command": "test -f done.txt", "timeout_s": 30},
        }),
        calls: main_calls(2).collect(),
        ..Case::new(AGENT, "busy")
    }
}
