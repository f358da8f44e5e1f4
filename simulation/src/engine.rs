//! A simulated engine: vLLM's tokens route, and everything that goes wrong with one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rollgate_pipeline::id::TokenId;
use rollgate_shards::sim::{
    Listener, Process, TcpStream, chance, note, now_ns, pick, sleep, spawn, spawn_in,
};
use serde_json::{Value, json};

use crate::ledger::{Generation, word};
use crate::plan::EngineFaults;
use crate::stage::{Stage, decode, encode};
use crate::wire::{Request, Wire};

/// One engine.
pub struct Engine {
    stage: Rc<Stage>,
    pub addr: SocketAddr,
    /// Counts its restarts.
    epoch: Cell<u64>,
    /// Since when, and until when, it refuses calls, being paused.
    paused_until_ns: Cell<u64>,
    aborted: RefCell<BTreeSet<String>>,
}

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Say,
    HangUp,
    Cut,
    Stall,
    Status(u16),
    BadJson,
    BadLengths,
    Truncated,
    Abort,
    Paused,
    Restart,
}

/// A call, as the engine understands it.
struct Call {
    id: String,
    session: String,
    prompt: Vec<TokenId>,
    most: usize,
}

impl Engine {
    /// Starts engine number `at`.
    pub fn start(stage: &Rc<Stage>, at: u8) -> Rc<Self> {
        let engine = Rc::new(Self {
            stage: stage.clone(),
            addr: SocketAddr::from(([10, 0, 1, at], 8_000)),
            epoch: Cell::new(1),
            paused_until_ns: Cell::new(0),
            aborted: RefCell::default(),
        });
        spawn_in(Process(100 + u32::from(at)), engine.clone().listen());
        engine
    }

    async fn listen(self: Rc<Self>) {
        loop {
            let listener = Listener::bind(self.addr);
            let epoch = self.epoch.get();
            while self.epoch.get() == epoch {
                let work = Box::pin(listener.accept());
                let Ok((stream, _)) = work.await else { break };
                spawn(self.clone().serve(Wire::new(stream), epoch));
            }
            drop(listener);
            self.stage.down.set(self.stage.down.get() + 1);
            self.stage.failures.set(self.stage.failures.get() + 1);
            sleep(Duration::from_millis(pick(5..800))).await;
            self.stage.down.set(self.stage.down.get() - 1);
        }
    }

    async fn serve(self: Rc<Self>, mut wire: Wire, epoch: u64) {
        // A peer that is gone ends the connection.
        while self.epoch.get() == epoch
            && let Ok(Some(request)) = wire.request().await
        {
            let served = if request.path == "/health" || request.path == "/v1/models" {
                wire.stream.send(&reply(200, "{}")).await.map(|()| false)
            } else if request.path.ends_with("/abort_requests") {
                self.abort(&mut wire, &request).await
            } else {
                self.call(&mut wire, &request).await
            };
            if !matches!(served, Ok(true)) {
                return;
            }
        }
    }

    async fn abort(&self, wire: &mut Wire, request: &Request) -> io::Result<bool> {
        let body: Value = serde_json::from_slice(&request.body)?;
        for id in body["request_ids"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let id = id.strip_prefix("generate-tokens-").unwrap_or(id);
            self.is_not_waited_for(id);
            self.aborted.borrow_mut().insert(id.to_owned());
        }
        wire.stream.send(&reply(200, "")).await?;
        Ok(true)
    }

    /// Nobody gives up on a call that an agent waits for.
    fn is_not_waited_for(&self, id: &str) {
        let ledger = self.stage.ledger.borrow();
        let Some(generation) = ledger.generations.values().find(|it| it.request_id == id) else {
            return;
        };
        let asks = self.stage.asks.borrow();
        let closing = self.stage.sessions.borrow().iter().any(|it| it.closing.get());
        let Some(number) = ask_of(&generation.prompt) else { return };
        let Some(ask) = asks.get(number).filter(|ask| ask.once && !ask.sibling) else { return };
        let long_ago = now_ns() - 500_000_000;
        if self.stage.plan.calm && !closing && ask.waits_since.is_some_and(|at| at < long_ago) {
            self.stage.broke(format!("ask {number} was given up with an agent waiting for it"));
        }
    }

    /// Whether the connection goes on.
    async fn call(&self, wire: &mut Wire, request: &Request) -> io::Result<bool> {
        let call = match Call::read(request) {
            Ok(call) => call,
            Err(wrong) => {
                self.stage
                    .broke(format!("an engine was asked what it does not understand: {wrong}"));
                return Ok(false);
            }
        };
        let act = self.choose();
        note("engine call", [wire.stream.number(), act.number()]);
        if act != Act::Say {
            self.trouble(&call.prompt);
        }
        match act {
            Act::HangUp => return Ok(false),
            Act::Restart => {
                self.epoch.set(self.epoch.get() + 1);
                self.stage.failures.set(self.stage.failures.get() + 1);
                // Wakes the accept.
                drop(TcpStream::connect(self.addr).await);
                return Ok(false);
            }
            Act::Status(status) => {
                let body = r#"{"error":{"message":"no luck today"}}"#;
                wire.stream.send(&reply(status, body)).await?;
                return Ok(true);
            }
            Act::Paused => {
                let body = r#"{"error":{"message":"Generation is paused. Please retry"}}"#;
                wire.stream.send(&reply(503, body)).await?;
                return Ok(true);
            }
            _ => {}
        }
        self.sample(wire, call, act).await
    }

    async fn sample(&self, wire: &mut Wire, call: Call, act: Act) -> io::Result<bool> {
        let (number, from) = self.generation(&call);
        let all = self.stage.ledger.borrow().generations[&number].ids.clone();
        let aborted = self.generate(&call.id).await;
        let mut ids = all[from..].to_vec();
        if aborted {
            self.trouble(&call.prompt);
        }
        let mut finish = "stop";
        if aborted || act == Act::Abort {
            finish = "abort";
            ids.truncate(pick(0..ids.len() as u64 + 1) as usize);
        } else if ids.len() > call.most {
            finish = "length";
            ids.truncate(call.most);
        }
        if finish == "abort" && !ids.is_empty() {
            let next = [&call.prompt[..], &ids[..]].concat();
            self.stage.ledger.borrow_mut().unfinished.insert(next, (number, from + ids.len()));
        }
        let version = format!("w{}", self.epoch.get());
        let mut body = body(&ids, finish, &version, call.prompt.len());
        match act {
            Act::BadJson => body.truncate(body.len() / 2),
            Act::BadLengths => {
                body = body.replacen(
                    r#""logprobs":{"content":[{"#,
                    r#""logprobs":{"content":[{"logprob":-0.5,"rank":1,"token_id":1},{"#,
                    1,
                );
            }
            _ => {}
        }
        let bytes = reply(200, &body);
        match act {
            Act::Truncated | Act::Cut => {
                let part = pick(0..bytes.len() as u64) as usize;
                wire.stream.send(&bytes[..part]).await?;
                if act == Act::Cut {
                    sleep(Duration::from_micros(pick(1..3_000))).await;
                }
                return Ok(false);
            }
            Act::Stall => {
                let part = pick(0..bytes.len() as u64) as usize;
                wire.stream.send(&bytes[..part]).await?;
                sleep(Duration::from_millis(pick(100..30_000))).await;
                wire.stream.send(&bytes[part..]).await?;
            }
            _ if chance(self.faults().slow) => {
                for piece in bytes.chunks(1 + pick(64..4_096) as usize) {
                    wire.stream.send(piece).await?;
                    sleep(Duration::from_micros(pick(10..2_000))).await;
                }
            }
            _ => wire.stream.send(&bytes).await?,
        }
        self.stage.ledger.borrow_mut().replies += 1;
        Ok(true)
    }

    /// Whoever asked for this may be answered with a fault.
    fn trouble(&self, prompt: &[TokenId]) {
        let mut asks = self.stage.asks.borrow_mut();
        if let Some(ask) = ask_of(prompt).and_then(|ask| asks.get_mut(ask)) {
            ask.trouble = true;
        }
    }

    /// Samples for a while; whether it was told to give up meanwhile.
    async fn generate(&self, id: &str) -> bool {
        let steps = match self.stage.healthy.get() {
            true => 100,
            false if chance(700) => pick(1..20),
            false => pick(20..600),
        };
        for _ in 0..steps {
            sleep(Duration::from_millis(10)).await;
            if self.aborted.borrow_mut().remove(id) {
                return true;
            }
        }
        false
    }

    /// The generation that this call begins or goes on with, and how much of it is there.
    fn generation(&self, call: &Call) -> (u64, usize) {
        let mut ledger = self.stage.ledger.borrow_mut();
        if let Some(rest) = ledger.unfinished.get(&call.prompt) {
            return *rest;
        }
        let number = ledger.number();
        let generation = Generation {
            session: call.session.clone(),
            prompt: call.prompt.clone(),
            request_id: call.id.clone(),
            ids: ids_of(&text(number)),
        };
        ledger.generations.insert(number, generation);
        (number, 0)
    }

    fn faults(&self) -> EngineFaults {
        match self.stage.healthy.get() {
            true => EngineFaults::default(),
            false => self.stage.plan.engine,
        }
    }

    fn choose(&self) -> Act {
        let now_ns = now_ns();
        if !self.stage.healthy.get() && now_ns < self.paused_until_ns.get() {
            return Act::Paused;
        }
        let faults = self.faults();
        let status = [429, 500, 502, 503][pick(0..4) as usize];
        for (often, act) in [
            (faults.hang_up, Act::HangUp),
            (faults.cut, Act::Cut),
            (faults.stall, Act::Stall),
            (faults.status, Act::Status(status)),
            (faults.bad_json, Act::BadJson),
            (faults.bad_lengths, Act::BadLengths),
            (faults.truncated, Act::Truncated),
            (faults.abort, Act::Abort),
            (faults.restart, Act::Restart),
        ] {
            if chance(often) {
                return act;
            }
        }
        if chance(faults.paused) {
            self.paused_until_ns.set(now_ns + pick(1..4_000) * 1_000_000);
            return Act::Paused;
        }
        Act::Say
    }
}

impl Act {
    fn number(self) -> u64 {
        match self {
            Act::Say => 0,
            Act::HangUp => 1,
            Act::Cut => 2,
            Act::Stall => 3,
            Act::Status(status) => status.into(),
            Act::BadJson => 5,
            Act::BadLengths => 6,
            Act::Truncated => 7,
            Act::Abort => 8,
            Act::Paused => 9,
            Act::Restart => 10,
        }
    }
}

impl Call {
    fn read(request: &Request) -> Result<Self, String> {
        let body: Value = serde_json::from_slice(&request.body).map_err(|e| e.to_string())?;
        let ids = body["token_ids"].as_array().ok_or("no token_ids")?;
        let id = |id: &Value| id.as_u64().and_then(|id| TokenId::try_from(id).ok());
        let prompt: Option<Vec<TokenId>> = ids.iter().map(id).collect();
        let head = request.head.to_ascii_lowercase();
        let key = head.lines().find_map(|line| line.strip_prefix("x-smg-routing-key: "));
        let most = body["sampling_params"]["max_tokens"].as_u64().ok_or("no max_tokens")?;
        Ok(Self {
            id: body["request_id"].as_str().ok_or("no request_id")?.to_owned(),
            session: key.ok_or("no routing key")?.trim().to_owned(),
            prompt: prompt.ok_or("a token that is none")?,
            most: most as usize,
        })
    }
}

/// What a prompt asks for: the number in the last of its marks.
fn ask_of(prompt: &[TokenId]) -> Option<usize> {
    let text = String::from_utf8_lossy(&decode(prompt)).into_owned();
    let (at, _) = text.rmatch_indices("ask").find(|(at, _)| {
        let digits = text.get(at + 3..at + 9);
        digits.is_some_and(|it| it.ends_with('.') && it[..5].bytes().all(|b| b.is_ascii_digit()))
    })?;
    text[at + 3..at + 8].parse().ok()
}

/// What is said: thoughts, words and calls, as chance has it.
fn text(number: u64) -> String {
    let thought = if chance(300) { "<think>\nlet me see\n</think>\n\n" } else { "" };
    let word = word(number);
    let long = "and so on ".repeat(if chance(100) { pick(1..600) as usize } else { 0 });
    let call = match chance(500) {
        true => {
            "\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>"
        }
        false => "",
    };
    format!("{thought}{word} is done {long}there{call}<|im_end|>")
}

/// Its ids: now and then not those that the tokenizer would choose.
fn ids_of(text: &str) -> Vec<TokenId> {
    let mut ids = encode(text);
    if chance(500) {
        // Every byte is a token of its own: "er" in two pieces.
        let merged = ids.iter().position(|id| (256..270).contains(id));
        if let Some(at) = merged {
            let bytes = crate::stage::decode(&ids[at..=at]);
            ids.splice(at..=at, bytes.into_iter().map(TokenId::from));
        }
    }
    ids
}

fn body(ids: &[TokenId], finish: &str, version: &str, prompt: usize) -> String {
    let content: Vec<_> =
        ids.iter().map(|id| json!({"token_id": id, "logprob": -0.5, "rank": 1})).collect();
    let spans = match ids.is_empty() {
        true => json!([]),
        false => json!([{"version": version, "start": 0, "end": ids.len()}]),
    };
    json!({
        "request_id": "generate-tokens-x",
        "choices": [{"index": 0, "finish_reason": finish, "stop_reason": null,
            "token_ids": ids, "logprobs": {"content": content}, "weight_versions": spans}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": ids.len()},
    })
    .to_string()
}

fn reply(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} So\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
