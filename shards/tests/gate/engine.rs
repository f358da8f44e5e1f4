//! An engine with a script, on plain threads.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
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
    /// Samples this text, then closes the connection without having said so.
    SayAndClose(&'static str),
    /// Closes the connection without a reply.
    Hang,
    /// Sends half a reply and closes the connection.
    Half,
}

/// A call that was seen.
#[derive(Clone)]
pub struct Call {
    pub connection: usize,
    pub routing_key: String,
    pub path: String,
    pub prompt: Vec<u64>,
}

/// The running engine.
pub struct Engine {
    pub addr: SocketAddr,
    pub calls: Arc<Mutex<Vec<Call>>>,
}

impl Engine {
    /// `script` maps the number of a call to what happens.
    pub fn start(
        model: Arc<Model>,
        script: impl Fn(usize) -> Act + Send + Sync + 'static,
    ) -> Engine {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (seen, script) = (calls.clone(), Arc::new(script));
        let count = Arc::new(AtomicUsize::new(0));
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let (seen, script, model) = (seen.clone(), script.clone(), model.clone());
                let count = count.clone();
                std::thread::spawn(move || {
                    let stream = stream.unwrap();
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    while let Some(call) = read_call(&mut reader, connection) {
                        seen.lock().unwrap().push(call);
                        let act = script(count.fetch_add(1, Ordering::SeqCst));
                        if !perform(&stream, &act, &model) {
                            return;
                        }
                    }
                });
            }
        });
        Engine { addr, calls }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

/// Whether the connection goes on.
fn perform(mut stream: &TcpStream, act: &Act, model: &Model) -> bool {
    let (text, goes_on) = match act {
        Act::Say(text) => (text, true),
        Act::SayAndClose(text) => (text, false),
        Act::Late(pause, text) => {
            wait(*pause);
            (text, true)
        }
        Act::Hang => return false,
        Act::Half => {
            let reply = reply(model, "half<|im_end|>");
            let _ = stream.write_all(&reply[..reply.len() / 2]);
            return false;
        }
    };
    // Whoever asked may be gone.
    stream.write_all(&reply(model, text)).is_ok() && goes_on
}

/// Waits on a channel that nobody sends to: a plain sleep, which is for tests only.
pub fn wait(pause: Duration) {
    let (_sender, receiver) = std::sync::mpsc::channel::<()>();
    let _ = receiver.recv_timeout(pause);
}

fn reply(model: &Model, text: &str) -> Vec<u8> {
    let mut ids = Vec::new();
    model.tokenizer.encode(text, ControlText::Match, &mut ids).unwrap();
    let content: Vec<_> =
        ids.iter().map(|id| json!({"token_id": id, "logprob": -0.5, "rank": 1})).collect();
    let body = json!({
        "request_id": "generate-tokens-x",
        "choices": [{"index": 0, "finish_reason": "stop", "stop_reason": null,
            "token_ids": ids, "logprobs": {"content": content},
            "weight_versions": [{"version": "w1", "start": 0, "end": ids.len()}]}],
        "usage": {"completion_tokens": ids.len()},
    })
    .to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body.as_bytes()].concat()
}

fn read_call(reader: &mut impl BufRead, connection: usize) -> Option<Call> {
    let (mut length, mut routing_key) = (0, String::new());
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "x-smg-routing-key" => routing_key = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body: Value = serde_json::from_slice(&body).unwrap();
    let prompt = body["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap());
    Some(Call { connection, routing_key, path, prompt: prompt.collect() })
}
