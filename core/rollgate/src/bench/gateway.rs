//! The gateway under test as a child process, and its control port.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::machine;
use crate::exit::Stop;

/// The token of the control port; it listens on loopback only, for as long as the bench.
const TOKEN: &str = "rollgate-bench";
/// How long a call of the control port may take.
const CALL: Duration = Duration::from_secs(60);

/// What a gateway is started with.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Where its files go.
    pub directory: &'a Path,
    /// Directory of the model.
    pub model: &'a Path,
    /// Name of the model.
    pub name: &'a str,
    /// Longest prompt plus answer.
    pub max_context: u32,
    /// The engine.
    pub engine: SocketAddr,
    /// Shards.
    pub shards: u16,
    /// `auto`, `uring` or `epoll`.
    pub driver: &'a str,
    /// Its cores.
    pub cores: &'a [usize],
    /// The core of this thread.
    pub own_core: usize,
}

/// A running gateway; dropping it ends it.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    log: PathBuf,
    /// The agents' port.
    pub agents: SocketAddr,
    control: String,
    /// What it runs on, in its own word.
    pub driver: String,
    client: ureq::Agent,
}

/// A session that was opened.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// The agent's key.
    pub key: String,
}

impl Gateway {
    /// Starts this program as a gateway.
    pub fn start(wanted: &Wanted<'_>) -> anyhow::Result<Self> {
        let file = wanted.directory.join("node.toml");
        let state = wanted.directory.join("state");
        let text = format!(
            "[node]\nid = \"bench\"\nstate_dir = {state:?}\n\
             [agents]\nlisten = \"127.0.0.1:0\"\n\
             [control]\nlisten = \"127.0.0.1:0\"\ntoken = {TOKEN:?}\n\
             [shards]\ncount = {}\ndriver = {:?}\n\
             [model]\ndir = {:?}\nname = {:?}\nmax_context = {}\n\
             [log]\nlevel = \"warn\"\n\
             [[engines]]\nurl = \"http://{}\"\nkind = \"vllm\"\nmax_in_flight = 65536\n",
            wanted.shards,
            wanted.driver,
            wanted.model,
            wanted.name,
            wanted.max_context,
            wanted.engine,
        );
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let log = wanted.directory.join("gateway.log");
        let program = std::env::current_exe().context("this program's own file is not known")?;
        machine::pin(wanted.cores)?;
        let child = Command::new(program)
            .args(["serve", "-c"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn();
        machine::pin(&[wanted.own_core])?;
        let mut child = child.context("the gateway cannot be started")?;
        let said = announced(&mut child);
        match said {
            Some((agents, control, driver)) => {
                Ok(Self { child, log, agents, control, driver, client: crate::probe::client(CALL) })
            }
            None => {
                end(&mut child);
                let why = std::fs::read_to_string(&log).unwrap_or_default();
                Err(Stop::environment(format!("the gateway did not start:\n{}", why.trim())).into())
            }
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The end of what it logged.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Opens a session.
    pub fn open(&self) -> anyhow::Result<Session> {
        let opened = self.call("POST", "/v1/sessions", Some(&json!({})))?;
        let opened: Value = serde_json::from_str(&opened)?;
        let text =
            |key: &str| opened[key].as_str().map(str::to_owned).context("no session was opened");
        Ok(Session { id: text("session_id")?, key: text("key")? })
    }

    /// Seals a session and returns its samples, one JSON object a line.
    pub fn samples(&self, session: &Session) -> anyhow::Result<String> {
        self.call("POST", &format!("/v1/sessions/{}/close", session.id), None)?;
        self.call("GET", &format!("/v1/sessions/{}/samples?format=jsonl", session.id), None)
    }

    /// Forgets a session.
    pub fn forget(&self, session: &Session) -> anyhow::Result<()> {
        self.call("DELETE", &format!("/v1/sessions/{}", session.id), None).map(drop)
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<String> {
        let url = format!("{}{path}", self.control);
        let bearer = format!("Bearer {TOKEN}");
        let sent = match method {
            "GET" => self.client.get(&url).header("authorization", bearer).call(),
            "DELETE" => self.client.delete(&url).header("authorization", bearer).call(),
            _ => {
                let text = body.map(Value::to_string).unwrap_or_default();
                self.client.post(&url).header("authorization", bearer).send(text)
            }
        };
        let mut reply = sent.with_context(|| format!("{method} {path} of the control port"))?;
        let (status, text) =
            (reply.status(), reply.body_mut().with_config().limit(1 << 30).read_to_string()?);
        anyhow::ensure!(
            status.is_success(),
            "{method} {path} of the control port: {status}: {text}"
        );
        Ok(text)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    // Fails where it has ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// Ports and driver, from the lines that it prints when it is ready.
fn announced(child: &mut Child) -> Option<(SocketAddr, String, String)> {
    let lines = BufReader::new(child.stdout.take()?).lines();
    let (mut agents, mut control) = (None, None);
    for line in lines.map_while(Result::ok) {
        let (name, rest) = line.split_once(' ')?;
        let rest = rest.trim();
        match name {
            "agents" => agents = rest.trim_start_matches("http://").parse().ok(),
            "control" => control = Some(rest.to_owned()),
            "model" => {
                let driver = rest.rsplit_once(" on ")?.1.to_owned();
                return Some((agents?, control?, driver));
            }
            _ => {}
        }
    }
    None
}
