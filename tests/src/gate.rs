//! `rollgate serve` as a process, and its control port.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::Process;
use crate::{chat, program};

/// The control token that every test uses.
pub const TOKEN: &str = "token-of-a-test";

/// How a gateway is started.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Base URL of the engine.
    pub engine: String,
    /// Directory of the model's text side.
    pub model: PathBuf,
    /// Shard threads.
    pub shards: u16,
    /// Port of the agents; 0 takes a free one.
    pub agents_port: u16,
    /// Keys of `[limits]`.
    pub limits: Vec<(&'static str, u64)>,
    /// Seconds between keepalives.
    pub keepalive_s: u64,
    /// Seconds after which idle sessions leave memory.
    pub idle_evict_s: u64,
}

impl Settings {
    /// One shard, the demo model, this engine.
    pub fn new(engine: &str) -> Self {
        Self {
            engine: engine.to_owned(),
            model: program::demo_model(),
            shards: 1,
            agents_port: 0,
            limits: Vec::new(),
            keepalive_s: 5,
            idle_evict_s: 600,
        }
    }

    /// The configuration file's text.
    pub fn to_toml(&self, directory: &Path) -> String {
        let mut text = format!(
            "[node]\nid = \"t1\"\nstate_dir = {state:?}\n\
             [agents]\nlisten = \"127.0.0.1:{port}\"\nkeepalive_s = {keepalive_s}\n\
             [control]\nlisten = \"127.0.0.1:0\"\ntoken = {TOKEN:?}\n\
             [shards]\ncount = {shards}\n\
             [sessions]\nidle_evict_s = {idle_evict_s}\n\
             [model]\ndir = {model:?}\n\
             [[engines]]\nurl = {engine:?}\nkind = \"vllm\"\n\
             [limits]\n",
            state = directory.join("state"),
            port = self.agents_port,
            shards = self.shards,
            keepalive_s = self.keepalive_s,
            idle_evict_s = self.idle_evict_s,
            model = self.model,
            engine = self.engine,
        );
        for (key, value) in &self.limits {
            writeln!(text, "{key} = {value}").expect("writing to a string");
        }
        text
    }
}

/// A session as the control port opened it.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// The agent's key.
    pub key: String,
    /// Base URL for OpenAI clients.
    pub openai: String,
    /// Base URL for Anthropic's clients.
    pub anthropic: String,
}

/// A running gateway.
#[derive(Debug)]
pub struct Gate {
    /// The process.
    pub process: Process,
    /// Base URL of the agents' port.
    pub agents: String,
    /// Base URL of the control port.
    pub control: String,
}

impl Gate {
    /// Starts a gateway whose state lies in `directory`.
    pub fn start(directory: &Path, settings: &Settings) -> Self {
        Self::start_with(program::command(directory), directory, settings)
    }

    /// The same with another program, or another environment for it.
    pub fn start_with(mut command: Command, directory: &Path, settings: &Settings) -> Self {
        let file = directory.join("node.toml");
        std::fs::write(&file, settings.to_toml(directory))
            .expect("the configuration can be written");
        command.args(["serve", "--json", "-c"]).arg(&file);
        let mut process = Process::start("serve", command, directory);
        let line = process.wait_for(Duration::from_secs(120), Process::first_line);
        let ready: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("the first line is not JSON ({error}): {line}"));
        let address = |key: &str| {
            let address = ready[key].as_str().unwrap_or_else(|| panic!("no {key:?} in {line}"));
            address.trim_end_matches('/').to_owned()
        };
        Self { agents: address("agents"), control: address("control"), process }
    }

    /// Port of the agents.
    pub fn agents_port(&self) -> u16 {
        let port = self.agents.rsplit(':').next().and_then(|port| port.parse().ok());
        port.unwrap_or_else(|| panic!("no port in {}", self.agents))
    }

    /// Opens a session.
    pub fn create(&self, options: &Value) -> Session {
        let answer = self.ok("POST", "/v1/sessions", Some(options));
        let text = |value: &Value| {
            value.as_str().unwrap_or_else(|| panic!("a field lacks in {answer}")).to_owned()
        };
        Session {
            id: text(&answer["session_id"]),
            key: text(&answer["key"]),
            openai: text(&answer["base_url"]["openai"]),
            anthropic: text(&answer["base_url"]["anthropic"]),
        }
    }

    /// Seals a session.
    pub fn close(&self, session: &Session) -> Value {
        self.ok("POST", &format!("/v1/sessions/{}/close", session.id), Some(&json!({})))
    }

    /// State of a session.
    pub fn describe(&self, session: &Session) -> Value {
        self.ok("GET", &format!("/v1/sessions/{}", session.id), None)
    }

    /// The samples of a session, as JSONL.
    pub fn samples(&self, session: &Session) -> String {
        let path = format!("/v1/sessions/{}/samples?format=jsonl", session.id);
        let (status, text) = self.call("GET", &path, None);
        assert_eq!(status, 200, "{path}: {text}");
        text
    }

    /// The metrics in text form.
    pub fn metrics(&self) -> String {
        let (status, text) = self.call("GET", "/metrics", None);
        assert_eq!(status, 200, "{text}");
        text
    }

    /// A call of the control port that must succeed, read as JSON.
    pub fn ok(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, text) = self.call(method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {text}");
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}: {text}"))
    }

    /// A call of the control port: status and body.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, String) {
        let body = body.map(Value::to_string);
        chat::send(method, &format!("{}{path}", self.control), Some(TOKEN), body.as_deref())
    }
}

/// Waits until this holds: an agent may have its answer before the gate has put its call away.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
