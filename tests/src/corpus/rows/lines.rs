//! More than one line of requests: retries, siblings, subagents, compactions, side calls.

use std::time::Duration;

use serde_json::{Value, json};

use super::Row;
use crate::corpus::agent::{Agent, Ask, Asked, blocks, message, result, tool};
use crate::corpus::links::Link;
use crate::corpus::script::{Script, bash, calls, content_of, text};

pub(super) const ROWS: &[Row] = &[
    Row::new("M34", "the same request twice, first connection cut before the answer", m34)
        .says(slow),
    Row::new("M35", "the same request twice, both connections open", m35).says(slow),
    Row::new("M36", "two identical subagents in parallel", m36).says(m36_script),
    Row::new("M37", "subagent in the background, result two turns later", m37)
        .says(m37_script)
        .linked(&[Link { kind: "spawned", from: "s1", to: "2", turn: true }]),
    Row::new("M38", "compaction in the last user message, then a new root", m38)
        .says(one_summary)
        .linked(&[
            Link { kind: "compacts", from: "6", to: "5", turn: false },
            Link { kind: "compacts", from: "6", to: "c1", turn: true },
        ]),
    Row::new("M39", "compaction as a call without tools", m39).says(one_summary).linked(&[
        Link { kind: "compacts", from: "6", to: "5", turn: false },
        Link { kind: "compacts", from: "6", to: "c1", turn: true },
    ]),
    Row::new("M40", "compaction of a transcript, two calls in parallel", m40)
        .says(two_summaries)
        .linked(&[
            Link { kind: "compacts", from: "6", to: "5", turn: false },
            Link { kind: "compacts", from: "6", to: "c1", turn: true },
            Link { kind: "compacts", from: "6", to: "c2", turn: true },
        ]),
    Row::new("M41", "title and topic calls in between", m41).says(m41_script),
    Row::new("M42", "a review turn on the main line", m42).says(m42_script),
    Row::new("M43", "heartbeat over the transcript with other tools", m43).says(m43_script),
];

/// The third answer takes its time.
fn slow(name: &str) -> Script {
    let mut reply = calls("Slowly now.", &[bash("sleep 1", 5)]);
    reply["delay_ms"] = json!(700);
    Script::usual(name).with("3", reply)
}

fn m34(a: &mut Agent) {
    a.go(1..=2);
    a.wire.cut_before(&a.body(), Duration::from_millis(250));
    a.go(3..=7);
}

/// Sends requests at the same time.
fn together(a: &Agent, asks: Vec<Ask>) -> Vec<Asked> {
    std::thread::scope(|scope| {
        let running: Vec<_> = asks.into_iter().map(|ask| scope.spawn(|| a.send(ask))).collect();
        running.into_iter().map(|thread| thread.join().expect("an answer")).collect()
    })
}

fn m35(a: &mut Agent) {
    a.go(1..=2);
    let both = together(a, vec![a.next(), a.next()]);
    let [first, second] = <[Asked; 2]>::try_from(both).expect("two answers");
    a.note(second);
    a.accept(first);
    a.results("4", "exit status 0");
    a.go(4..=7);
}

/// A call that starts a subagent whose task asks for its first step.
fn task(prompt: &str) -> Value {
    json!({"name": "task", "arguments": {"prompt": prompt}})
}

const TASK: &str = "Find out who calls sort_orders and report in one sentence.";

fn m36_script(name: &str) -> Script {
    let script = Script::usual(name);
    let prompt = format!("{TASK} {}", script.mark("s1"));
    let mut first = calls("I search.", &[bash("grep -rn sort_orders", 7)]);
    first["delay_ms"] = json!(250);
    let mut second = text("Found.", "Three callers in one module.");
    second["delay_ms"] = json!(250);
    script
        .with("3", calls("Two heads are better.", &[task(&prompt), task(&prompt)]))
        .before("4", "s1", first)
        .before("4", "s2", second)
}

/// The first request of a subagent.
fn subagent(a: &Agent, prompt: &str) -> Ask {
    let system = format!("You are a subagent. ({})", a.session);
    let messages = vec![message("system", &system), message("user", prompt)];
    Ask { scene: "subagent", parent: None, tools: vec![tool("bash", &["command"])], messages }
}

/// The request after an answer with a call.
fn after(a: &Agent, asked: &Asked, at: usize, next: &str) -> Ask {
    let mut messages = asked.messages.clone();
    messages.push(asked.answer.clone());
    let text = format!("src/invoice.py: 3 matches {}", a.script.mark(next));
    messages.push(result(&asked.answer["tool_calls"][0], &text));
    Ask { scene: asked.scene, parent: Some(at), tools: asked.tools.clone(), messages }
}

fn m36(a: &mut Agent) {
    a.go(1..=2);
    a.turn();
    let prompts: Vec<String> = a.nth("assistant", 3)["tool_calls"]
        .as_array()
        .expect("two calls")
        .iter()
        .map(|call| {
            serde_json::from_str::<Value>(call["function"]["arguments"].as_str().expect("a text"))
        })
        .map(|arguments| arguments.expect("JSON")["prompt"].as_str().expect("a prompt").to_owned())
        .collect();
    let first = together(a, prompts.iter().map(|prompt| subagent(a, prompt)).collect());
    let places: Vec<usize> = first.iter().map(|asked| a.note(asked.clone())).collect();
    let asks = first.iter().zip(&places).map(|(asked, at)| after(a, asked, *at, "s2")).collect();
    let second = together(a, asks);
    let report = content_of(&second[0].answer);
    second.into_iter().for_each(|asked| {
        a.note(asked);
    });
    a.results("4", &report);
    a.go(4..=7);
}

fn m37_script(name: &str) -> Script {
    let script = Script::usual(name);
    let prompt = format!("{TASK} {}", script.mark("s1"));
    script
        .with("2", calls("Somebody else can look that up.", &[task(&prompt)]))
        .before("3", "s1", calls("I search.", &[bash("grep -rn sort_orders", 7)]))
        .before("3", "s2", text("Found.", "Three callers in one module."))
}

fn m37(a: &mut Agent) {
    a.go(1..=1);
    a.turn();
    a.results("3", "The agent was started in the background.");
    let prompt = format!("{TASK} {}", a.script.mark("s1"));
    let first = a.send(subagent(a, &prompt));
    let at = a.note(first.clone());
    a.turn();
    a.results("4", "exit status 0");
    let (_, report) = a.aside(after(a, &first, at, "s2"));
    a.turn();
    a.results("5", "exit status 0");
    let report = content_of(&report);
    a.user(&format!(
        "<task-notification>The agent has ended. It says: {report}</task-notification>"
    ));
    a.go(5..=7);
}

const SUMMARY: &str = "The task is to sort orders ascending. Three callers live in one module. The change is \
    made in src/order.py; the suite has not been run since.";

/// The fifth answer ends with a text; a summary follows.
fn one_summary(name: &str) -> Script {
    Script::usual(name).with("5", text("A good place to stop.", "The change is made.")).before(
        "6",
        "c1",
        text("I put it together.", SUMMARY),
    )
}

/// Four steps, and a fifth that is a text.
fn until_full(a: &mut Agent) {
    a.go(1..=4);
    a.turn();
}

fn m38(a: &mut Agent) {
    until_full(a);
    let ask = format!("Write a detailed summary of this conversation. {}", a.script.mark("c1"));
    let mut compaction = a.next();
    compaction.scene = "compaction";
    compaction.messages.push(blocks("user", &["Run the suite.", &ask]));
    let (_, summary) = a.aside(compaction);
    let go_on = format!("Go on. {}", a.script.mark("6"));
    let text = format!("This session is continued from an earlier one. {}", content_of(&summary));
    a.messages.truncate(1);
    a.messages.push(blocks("user", &[&text, &go_on]));
    a.tip = None;
    a.go(6..=7);
}

fn m39(a: &mut Agent) {
    let rules = message("developer", "Commands run in a sandbox without network.");
    a.messages.insert(1, rules.clone());
    until_full(a);
    let ask = format!("Write a handoff summary for another model. {}", a.script.mark("c1"));
    let mut messages = a.messages.clone();
    messages.push(message("user", &ask));
    let compaction = Ask { scene: "compaction", parent: None, tools: Vec::new(), messages };
    let (_, summary) = a.aside(compaction);
    a.messages.truncate(1);
    a.messages.push(rules);
    let text = format!("Another model began this task. Its summary: {}", content_of(&summary));
    a.user(&format!("{text} {}", a.script.mark("6")));
    a.tip = None;
    a.go(6..=7);
}

fn two_summaries(name: &str) -> Script {
    one_summary(name).before(
        "6",
        "c2",
        text("The second half.", "A test fails because the order is reversed."),
    )
}

fn m40(a: &mut Agent) {
    until_full(a);
    let system = format!("You summarise conversations. ({})", a.session);
    let lines: Vec<String> = a.messages[1..].iter().map(Value::to_string).collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    let ask = |part: &[String], step: &str| {
        let text = format!(
            "<conversation>\n{}\n</conversation>\n{}",
            part.join("\n"),
            a.script.mark(step)
        );
        let messages = vec![message("system", &system), message("user", &text)];
        Ask { scene: "compaction", parent: None, tools: Vec::new(), messages }
    };
    let both = together(a, vec![ask(first, "c1"), ask(second, "c2")]);
    let summaries: Vec<String> = both.iter().map(|asked| content_of(&asked.answer)).collect();
    both.into_iter().for_each(|asked| {
        a.note(asked);
    });
    a.messages.truncate(1);
    let text = format!("Summary of what came before: {}\n\n{}", summaries[0], summaries[1]);
    a.user(&format!("{text} {}", a.script.mark("6")));
    a.tip = None;
    a.go(6..=7);
}

fn m41_script(name: &str) -> Script {
    Script::usual(name)
        .with("t1", json!({"content": "Order of orders"}))
        .with("t2", json!({"content": "{\"isNewTopic\": false}"}))
}

/// A small call on a root of its own.
fn small(a: &Agent, scene: &'static str, text: &str, step: &str) -> Ask {
    let system = format!("You name things. ({})", a.session);
    let text = format!("{text} {}", a.script.mark(step));
    let messages = vec![message("system", &system), message("user", &text)];
    Ask { scene, parent: None, tools: Vec::new(), messages }
}

fn m41(a: &mut Agent) {
    a.aside(small(a, "title", "Give this conversation a title.", "t1"));
    a.go(1..=3);
    a.aside(small(a, "topic", "Is this a new topic?", "t2"));
    a.go(4..=7);
}

fn m42_script(name: &str) -> Script {
    let review = text("I look back.", "Nothing is to be kept in memory.");
    Script::usual(name)
        .with("4", text("A pause.", "Half of it is done."))
        .with("r1", review.clone())
        .with("r2", review)
}

fn review(a: &mut Agent, step: &str) {
    let mut ask = a.next();
    ask.scene = "review";
    ask.messages.push(message("user", &format!("Review the run. {}", a.script.mark(step))));
    a.aside(ask);
}

fn m42(a: &mut Agent) {
    a.go(1..=3);
    a.turn();
    review(a, "r1");
    a.results("5", "Go on with the other half.");
    a.go(5..=7);
    review(a, "r2");
}

fn m43_script(name: &str) -> Script {
    Script::usual(name).with("h1", text("Nothing to do.", "HEARTBEAT_OK"))
}

fn m43(a: &mut Agent) {
    a.go(1..=4);
    let mut messages = a.messages.clone();
    messages[0] = message("system", &format!("You are asked now and then. ({})", a.session));
    messages
        .push(message("user", &format!("Read HEARTBEAT.md if it exists. {}", a.script.mark("h1"))));
    a.aside(Ask {
        scene: "heartbeat",
        parent: None,
        tools: vec![tool("message", &["text"])],
        messages,
    });
    a.go(5..=7);
}
