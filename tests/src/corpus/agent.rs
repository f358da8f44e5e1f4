//! The agent of a row: keeps its history as it likes and asks with it.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::Way;
use super::dialect::Habits;
use super::script::{Script, content_of, said};
use super::wire::Wire;

/// A request and its answer, as the oracle needs them.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Which step of the script was given.
    pub step: String,
    /// What for.
    pub scene: &'static str,
    /// The earlier request whose answer this one continues, as the row means it.
    pub parent: Option<usize>,
    /// Tools on offer.
    pub tools: Vec<Value>,
    /// The conversation as sent.
    pub messages: Vec<Value>,
    /// The answer as delivered; null where it was not.
    pub answer: Value,
    /// The text that was sampled, without the close of the turn.
    pub said: String,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What for.
    pub scene: &'static str,
    /// The earlier request whose answer this one continues, as the row means it.
    pub parent: Option<usize>,
    /// Tools on offer.
    pub tools: Vec<Value>,
    /// The conversation.
    pub messages: Vec<Value>,
}

/// Stands for half of a surrogate pair, which Rust's strings cannot hold.
pub const LONE_SURROGATE: char = '\u{e0d8}';

/// An agent in one session.
#[derive(Debug)]
pub struct Agent {
    /// How it is played.
    pub way: Way,
    /// What the model says.
    pub script: Script,
    /// How it asks.
    pub wire: Wire,
    /// What it does besides.
    pub habits: Habits,
    /// Its own words for the session, in every system message.
    pub session: String,
    /// The history, instructions first.
    pub messages: Vec<Value>,
    /// Tools on offer.
    pub tools: Vec<Value>,
    /// The request whose answer the next one continues, as the row means it.
    pub tip: Option<usize>,
    /// All requests so far.
    pub log: Vec<Asked>,
}

impl Agent {
    /// An agent that has not asked yet.
    pub fn new(way: Way, script: Script, wire: Wire, session: String) -> Self {
        let system = format!("You work in a shell on a small repository. ({session})");
        let task = format!("The orders come out in the wrong order. Fix it. {}", script.mark("1"));
        let messages = vec![message("system", &system), message("user", &task)];
        let tools = vec![tool("bash", &["command", "timeout"]), tool("task", &["prompt"])];
        let (habits, log) = (Habits::default(), Vec::new());
        Self { way, script, wire, habits, session, messages, tools, tip: None, log }
    }

    /// What the next request of the main line is.
    pub fn next(&self) -> Ask {
        let (tools, messages) = (self.tools.clone(), self.messages.clone());
        Ask { scene: "main", parent: self.tip, tools, messages }
    }

    /// Sends a request; nothing is kept.
    pub fn send(&self, ask: Ask) -> Asked {
        let answer = self.wire.ask(ask.scene, &self.body_of(&ask));
        let mut asked = self.unanswered(ask);
        let (step, scene) = (&asked.step, asked.scene);
        asked.answer = answer.unwrap_or_else(|why| panic!("step {step} ({scene}): {why}"));
        asked
    }

    /// The request as one whose answer does not arrive.
    pub fn unanswered(&self, ask: Ask) -> Asked {
        let text: String =
            ask.messages.iter().map(|message| message_text(message) + "\n").collect();
        let (step, reply) = self.script.chosen(&text).expect("a mark asks for a step");
        let Ask { scene, parent, tools, messages } = ask;
        let (step, said) = (step.to_owned(), said(reply));
        Asked { step, scene, parent, tools, messages, answer: Value::Null, said }
    }

    /// The body of the next request of the main line.
    pub fn body(&self) -> String {
        self.body_of(&self.next())
    }

    fn body_of(&self, ask: &Ask) -> String {
        let body = self.wire.dialect.body(ask, self.wire.stream, self.habits);
        body.to_string().replace(LONE_SURROGATE, "\\ud83d")
    }

    /// Notes a request; its place.
    pub fn note(&mut self, asked: Asked) -> usize {
        self.log.push(asked);
        self.log.len() - 1
    }

    /// Asks on a side line and notes it: its place and the answer.
    pub fn aside(&mut self, ask: Ask) -> (usize, Value) {
        let asked = self.send(ask);
        let answer = asked.answer.clone();
        (self.note(asked), answer)
    }

    /// One turn of the main line: asks and appends the answer.
    pub fn turn(&mut self) {
        let asked = self.send(self.next());
        self.accept(asked);
    }

    /// Notes a request of the main line and appends its answer.
    pub fn accept(&mut self, asked: Asked) {
        self.messages.push(asked.answer.clone());
        self.tip = Some(self.note(asked));
    }

    /// Answers the calls of the last message; without a call a person speaks instead.
    pub fn results(&mut self, next: &str, text: &str) {
        let text = format!("{text} {}", self.script.mark(next));
        let last = self.messages.last().expect("there is an answer");
        let calls = last["tool_calls"].as_array().cloned().unwrap_or_default();
        for call in &calls {
            self.messages.push(result(call, &text));
        }
        if calls.is_empty() {
            self.user(&text);
        }
    }

    /// Appends what a person says.
    pub fn user(&mut self, text: &str) {
        self.messages.push(message("user", text));
    }

    /// Plays these steps: a turn each, and the usual result, which asks for the next step.
    pub fn go(&mut self, steps: RangeInclusive<usize>) {
        for step in steps {
            self.turn();
            if step < 7 {
                let text = format!("exit status 0\n{step} lines of output\nline one\nline two");
                self.results(&(step + 1).to_string(), &text);
            }
        }
    }

    /// The n-th message of this role, from 1.
    pub fn nth(&mut self, role: &str, n: usize) -> &mut Value {
        let mut found = self.messages.iter_mut().filter(|message| message["role"] == role);
        found.nth(n - 1).unwrap_or_else(|| panic!("there are not {n} messages of {role}"))
    }

    /// Where the n-th message of this role is, from 1.
    pub fn place(&self, role: &str, n: usize) -> usize {
        let all = self.messages.iter().enumerate();
        let mut found = all.filter(|(_, message)| message["role"] == role);
        found.nth(n - 1).unwrap_or_else(|| panic!("there are not {n} messages of {role}")).0
    }
}

/// All that the template writes of a message's own text.
fn message_text(message: &Value) -> String {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let arguments = calls.filter_map(|call| call["function"]["arguments"].as_str());
    arguments.fold(content_of(message), |text, arguments| text + arguments)
}

/// A message.
pub fn message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

/// A message of several text blocks.
pub fn blocks(role: &str, texts: &[&str]) -> Value {
    let parts: Vec<Value> =
        texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
    json!({"role": role, "content": parts})
}

/// The result of a call.
pub fn result(call: &Value, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": call["id"], "content": text})
}

/// A tool with text parameters.
pub fn tool(name: &str, parameters: &[&str]) -> Value {
    let properties: Value = parameters
        .iter()
        .map(|key| (key.to_string(), json!({"type": "string"})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    json!({"type": "function", "function": {
        "name": name, "description": format!("Does what {name} does."),
        "parameters": {"type": "object", "properties": properties},
    }})
}
