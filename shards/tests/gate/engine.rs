//! An engine with a script, on plain threads.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rollgate_pipeline::render::{ControlText, Model};
use serde_json::{Value, json};

/// What the engine does with a call.
#[derive(Clone)]
pub enum Act {
    /// Samples this text.
    Say(&'static str),
    /// Samples this text after a while.
    Late(Duration, &'static str),
    /// Samples this text once the test lets it; half of it, when the call is aborted before.
    Hold(&'static str),
    /// Samples this text and gives up.
    GiveUp(&'static str),
    /// Says that it is paused.
    Paused,
    /// Says nothing, takes no abort, and waits for the other side to hang up.
    Stuck,
    /// Samples this text, then closes the connection without having said so.
    SayAndClose(&'static str),
    /// Closes the connection without a reply.
    Hang,
    /// Sends half a reply and closes the connection.
    Half,
    /// Sends half a reply, and nothing more.
    Stall,
    /// Sends these bytes; the connection goes on.
    Bytes(Vec<u8>),
    /// Sends these bytes a while after the others.
    Slowly(Vec<u8>, Duration, Vec<u8>),
}

impl Act {
    /// A reply with this status line's end, these header lines and this body.
    pub fn status(status: &str, headers: &str, body: &str) -> Act {
        let length = body.len();
        let text = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}");
        Act::Bytes(text.into_bytes())
    }
}

/// A call that was seen.
#[derive(Clone)]
pub struct Call {
    pub connection: usize,
    pub routing_key: String,
    pub path: String,
    /// Request line and header lines, in lower case.
    pub head: String,
    pub prompt: Vec<u64>,
    pub request_id: String,
}

/// What a test may do to calls that are held, and what became of others.
#[derive(Default)]
struct Desk {
    state: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    released: bool,
    aborted: HashSet<String>,
    stuck: HashSet<String>,
    hang_ups: usize,
    /// Status of the health route, and what is listed as models.
    health: u16,
    models: String,
    /// Paths of questions that are no calls.
    told: Vec<String>,
    /// How long a connection may be idle.
    keep_alive: Option<Duration>,
}

/// The running engine.
pub struct Engine {
    pub addr: SocketAddr,
    pub calls: Arc<Mutex<Vec<Call>>>,
    desk: Arc<Desk>,
}

impl Engine {
    /// `script` maps the number of a call to what happens.
    pub fn start(
        model: Arc<Model>,
        script: impl Fn(usize) -> Act + Send + Sync + 'static,
    ) -> Engine {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), model, script)
    }

    /// The same, on this socket.
    pub fn on(
        listener: TcpListener,
        model: Arc<Model>,
        script: impl Fn(usize) -> Act + Send + Sync + 'static,
    ) -> Engine {
        let addr = listener.local_addr().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (seen, script) = (calls.clone(), Arc::new(script));
        let count = Arc::new(AtomicUsize::new(0));
        let desk = Arc::new(Desk::default());
        desk.state.lock().unwrap().health = 200;
        let shared = desk.clone();
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let (seen, script, model) = (seen.clone(), script.clone(), model.clone());
                let (count, desk) = (count.clone(), shared.clone());
                std::thread::spawn(move || {
                    let stream = stream.unwrap();
                    let limit = desk.state.lock().unwrap().keep_alive;
                    stream.set_read_timeout(limit).unwrap();
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    while let Some((path, routing_key, head, body)) = read_request(&mut reader) {
                        if head.starts_with("get ") {
                            desk.told(&stream, &path);
                            continue;
                        }
                        if path.ends_with("/abort_requests") {
                            desk.abort(&stream, &body);
                            continue;
                        }
                        let call = Call::of(connection, path, routing_key, head, &body);
                        let id = call.request_id.clone();
                        seen.lock().unwrap().push(call);
                        let act = script(count.fetch_add(1, Ordering::SeqCst));
                        if !perform(&stream, &act, &model, &desk, &id) {
                            return;
                        }
                    }
                });
            }
        });
        Engine { addr, calls, desk }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Lets go of calls that are held, now and later.
    pub fn release(&self) {
        self.desk.state.lock().unwrap().released = true;
        self.desk.changed.notify_all();
    }

    /// Calls that were aborted.
    pub fn aborted(&self) -> usize {
        self.desk.state.lock().unwrap().aborted.len()
    }

    /// What the health route answers from now on.
    pub fn health(&self, status: u16) {
        self.desk.state.lock().unwrap().health = status;
    }

    /// How often this was asked for.
    pub fn told(&self, path: &str) -> usize {
        let state = self.desk.state.lock().unwrap();
        state.told.iter().filter(|told| *told == path).count()
    }

    /// Connections that are idle for this long are closed, from now on.
    pub fn keep_alive(&self, limit: Duration) {
        self.desk.state.lock().unwrap().keep_alive = Some(limit);
    }

    /// What is listed as models from now on.
    pub fn models(&self, models: &Value) {
        self.desk.state.lock().unwrap().models = models.to_string();
    }

    /// Calls that got stuck and were hung up on.
    pub fn hang_ups(&self) -> usize {
        self.desk.state.lock().unwrap().hang_ups
    }
}

impl Desk {
    /// Health and models.
    fn told(&self, mut stream: &TcpStream, path: &str) {
        let mut state = self.state.lock().unwrap();
        state.told.push(path.to_owned());
        let (status, body) = match path.ends_with("/health") {
            true => (state.health, ""),
            false if state.models.is_empty() => (404, ""),
            false => (200, state.models.as_str()),
        };
        let head = format!("HTTP/1.1 {status} So\r\ncontent-length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
    }

    fn abort(&self, mut stream: &TcpStream, body: &Value) {
        let mut state = self.state.lock().unwrap();
        let mut answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        for id in body["request_ids"].as_array().unwrap() {
            let id = id.as_str().unwrap().strip_prefix("generate-tokens-").unwrap().to_owned();
            if state.stuck.contains(&id) {
                answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
            } else {
                state.aborted.insert(id);
            }
        }
        self.changed.notify_all();
        let _ = stream.write_all(answer.as_bytes());
    }

    /// Waits for the test or for an abort; whether it was an abort.
    fn held(&self, id: &str) -> bool {
        let state = self.state.lock().unwrap();
        let waits = |state: &mut Held| !state.released && !state.aborted.contains(id);
        let state = self.changed.wait_while(state, waits).unwrap();
        !state.released
    }

    fn stuck(&self, mut stream: &TcpStream, id: &str) {
        self.state.lock().unwrap().stuck.insert(id.to_owned());
        while matches!(stream.read(&mut [0; 64]), Ok(1..)) {}
        self.state.lock().unwrap().hang_ups += 1;
    }
}

impl Call {
    fn of(
        connection: usize,
        path: String,
        routing_key: String,
        head: String,
        body: &Value,
    ) -> Call {
        let prompt = body["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap());
        let request_id = body["request_id"].as_str().unwrap().to_owned();
        Call { connection, routing_key, path, head, prompt: prompt.collect(), request_id }
    }
}

/// Whether the connection goes on.
fn perform(mut stream: &TcpStream, act: &Act, model: &Model, desk: &Desk, id: &str) -> bool {
    let (text, goes_on) = match act {
        Act::Say(text) => (text, true),
        Act::SayAndClose(text) => (text, false),
        Act::Late(pause, text) => {
            wait(*pause);
            (text, true)
        }
        Act::Hold(text) if desk.held(id) => {
            let reply = reply(model, &text[..text.len() / 2], "abort");
            return stream.write_all(&reply).is_ok();
        }
        Act::Hold(text) => (text, true),
        Act::GiveUp(text) => return stream.write_all(&reply(model, text, "abort")).is_ok(),
        Act::Paused => {
            let body = r#"{"error":{"message":"Generation is paused. Please retry"}}"#;
            let head = "HTTP/1.1 503 Service Unavailable";
            let reply = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            return stream.write_all(reply.as_bytes()).is_ok();
        }
        Act::Stuck => {
            desk.stuck(stream, id);
            return false;
        }
        Act::Hang => return false,
        Act::Bytes(bytes) => return stream.write_all(bytes).is_ok(),
        Act::Slowly(first, pause, rest) => {
            let _ = stream.write_all(first);
            wait(*pause);
            return stream.write_all(rest).is_ok();
        }
        Act::Stall => {
            let reply = reply(model, "half<|im_end|>", "stop");
            let _ = stream.write_all(&reply[..reply.len() / 2]);
            while matches!(stream.read(&mut [0; 64]), Ok(1..)) {}
            return false;
        }
        Act::Half => {
            let reply = reply(model, "half<|im_end|>", "stop");
            let _ = stream.write_all(&reply[..reply.len() / 2]);
            return false;
        }
    };
    // Whoever asked may be gone.
    stream.write_all(&reply(model, text, "stop")).is_ok() && goes_on
}

/// Waits on a channel that nobody sends to: a plain sleep, which is for tests only.
pub fn wait(pause: Duration) {
    let (_sender, receiver) = std::sync::mpsc::channel::<()>();
    let _ = receiver.recv_timeout(pause);
}

fn reply(model: &Model, text: &str, finish: &str) -> Vec<u8> {
    let mut ids = Vec::new();
    model.tokenizer.encode(text, ControlText::Match, &mut ids).unwrap();
    let content: Vec<_> =
        ids.iter().map(|id| json!({"token_id": id, "logprob": -0.5, "rank": 1})).collect();
    let body = json!({
        "request_id": "generate-tokens-x",
        "choices": [{"index": 0, "finish_reason": finish, "stop_reason": null,
            "token_ids": ids, "logprobs": {"content": content},
            "weight_versions": [{"version": "w1", "start": 0, "end": ids.len()}]}],
        "usage": {"completion_tokens": ids.len()},
    })
    .to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body.as_bytes()].concat()
}

/// Path, routing key, head in lower case, and body.
fn read_request(reader: &mut impl BufRead) -> Option<(String, String, String, Value)> {
    let (mut length, mut routing_key) = (0, String::new());
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut head = line.to_ascii_lowercase();
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        head.push_str(&line.to_ascii_lowercase());
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "x-smg-routing-key" => routing_key = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    Some((path, routing_key, head, body))
}
