//! An engine on threads of this process: vLLM's tokens route, with faults when asked for.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use rollgate_pipeline::id::TokenId;
use rollgate_pipeline::render::{ControlText, Model, ModelFiles};
use serde_json::{Value, json};

use super::{Chance, word};
use crate::program;

/// How the engine behaves.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// Longest time that a call takes.
    pub longest: Duration,
    /// Most words of filler in an answer.
    pub filler: u64,
    /// Faults, in thousandths of the calls.
    pub faults: u64,
}

/// What was sampled.
#[derive(Clone, Debug)]
pub struct Said {
    /// The session, as the gateway named it.
    pub session: String,
    /// All of its ids.
    pub ids: Vec<TokenId>,
    /// When the whole reply was with the kernel.
    pub written: Option<Instant>,
}

/// The running engine. Its threads end with the process.
#[derive(Debug)]
pub struct Engine {
    /// Its base URL.
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    model: Model,
    filler: Vec<TokenId>,
    manners: Manners,
    said: Mutex<Vec<Said>>,
    calls: AtomicU64,
    faults: AtomicU64,
    /// Told of every reply that was written to its end.
    watch: Mutex<Option<mpsc::Sender<u64>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts it on a free port.
    pub fn start(manners: Manners) -> Self {
        let model = demo_model();
        let mut filler = Vec::new();
        model.tokenizer.encode(" and so on", ControlText::Plain, &mut filler).expect("it encodes");
        let shared = Arc::new(Shared {
            model,
            filler,
            manners,
            said: Mutex::default(),
            calls: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            watch: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let serving = shared.clone();
        spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = serving.clone();
                spawn(move || drop(shared.serve(&stream)));
            }
        });
        Self { url, shared }
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Calls that something went wrong with on purpose.
    pub fn faults(&self) -> u64 {
        self.shared.faults.load(Ordering::Relaxed)
    }

    /// What was sampled so far; the place in the list is the number in the text.
    pub fn said(&self) -> Vec<Said> {
        self.shared.said.lock().expect("no thread died").clone()
    }

    /// Numbers of replies from now on, each when its last byte is with the kernel.
    pub fn watch(&self) -> mpsc::Receiver<u64> {
        let (sender, receiver) = mpsc::channel();
        *self.shared.watch.lock().expect("no thread died") = Some(sender);
        receiver
    }
}

/// A thread with a small stack: there are many.
pub fn spawn(work: impl FnOnce() + Send + 'static) -> std::thread::JoinHandle<()> {
    let small = std::thread::Builder::new().stack_size(256 << 10);
    small.spawn(work).expect("a thread can be made")
}

/// The demo model.
fn demo_model() -> Model {
    let dir = program::demo_model();
    let file = |name: &str| std::fs::read(dir.join(name)).expect("the demo model is there");
    let template = String::from_utf8(file("template.jinja")).expect("it is text");
    Model::load(ModelFiles {
        name: "demo".to_owned(),
        tokenizer: file("tokenizer.json"),
        tokenizer_config: file("tokenizer_config.json"),
        template: Some(template),
        config: Some(file("config.json")),
        ..ModelFiles::default()
    })
    .expect("the demo model loads")
}

impl Shared {
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        while let Some((path, session, body)) = read_request(&mut reader)? {
            if path.ends_with("/abort_requests") || body.is_null() {
                // Looks at its health have no body.
                write(stream, &reply("200 OK", ""))?;
                continue;
            }
            let call = self.calls.fetch_add(1, Ordering::Relaxed);
            let mut chance = Chance::new(call + 1);
            if !self.answer(stream, &mut chance, &session)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether the connection goes on.
    fn answer(
        &self,
        stream: &TcpStream,
        chance: &mut Chance,
        session: &str,
    ) -> std::io::Result<bool> {
        let longest = self.manners.longest.as_micros() as u64;
        std::thread::sleep(Duration::from_micros(chance.below(longest)));
        let fault = chance.happens(self.manners.faults).then(|| chance.below(6));
        self.faults.fetch_add(fault.is_some().into(), Ordering::Relaxed);
        match fault {
            Some(0) => return Ok(false),
            Some(1) => {
                let body = r#"{"error":{"message":"no luck today"}}"#;
                write(stream, &reply("500 No", body))?;
                return Ok(true);
            }
            Some(2) => {
                let body = r#"{"error":{"message":"Generation is paused. Please retry"}}"#;
                write(stream, &reply("503 No", body))?;
                return Ok(true);
            }
            _ => {}
        }
        let (number, ids) = self.sample(session, chance);
        let finish = if fault == Some(3) { "abort" } else { "stop" };
        let shown = if fault == Some(3) { &ids[..ids.len() / 2] } else { &ids[..] };
        let bytes = reply("200 OK", &body_of(shown, finish));
        match fault {
            Some(4) => {
                write(stream, &bytes[..bytes.len() / 2])?;
                return Ok(false);
            }
            Some(5) => {
                let (first, rest) = bytes.split_at(bytes.len() / 2);
                write(stream, first)?;
                std::thread::sleep(Duration::from_millis(chance.below(8_000)));
                write(stream, rest)?;
            }
            _ => write(stream, &bytes)?,
        }
        let now = Instant::now();
        self.said.lock().expect("no thread died")[number as usize].written = Some(now);
        if let Some(watch) = &*self.watch.lock().expect("no thread died") {
            // Nobody may watch any more.
            let _ = watch.send(number);
        }
        Ok(true)
    }

    fn sample(&self, session: &str, chance: &mut Chance) -> (u64, Vec<TokenId>) {
        let mut said = self.said.lock().expect("no thread died");
        let number = said.len() as u64;
        let mut ids = Vec::new();
        let encode = |text: &str, ids: &mut Vec<TokenId>| {
            self.model.tokenizer.encode(text, ControlText::Match, ids).expect("it encodes");
        };
        encode(&format!("{} is done", word(number)), &mut ids);
        for _ in 0..chance.below(self.manners.filler) {
            ids.extend(&self.filler);
        }
        encode("<|im_end|>", &mut ids);
        said.push(Said { session: session.to_owned(), ids: ids.clone(), written: None });
        (number, ids)
    }
}

fn write(mut stream: &TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes)
}

fn reply(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn body_of(ids: &[TokenId], finish: &str) -> String {
    let content: Vec<_> =
        ids.iter().map(|id| json!({"token_id": id, "logprob": -0.5, "rank": 1})).collect();
    json!({
        "request_id": "generate-tokens-x",
        "choices": [{"index": 0, "finish_reason": finish, "stop_reason": null,
            "token_ids": ids, "logprobs": {"content": content},
            "weight_versions": [{"version": "w1", "start": 0, "end": ids.len()}]}],
        "usage": {"completion_tokens": ids.len()},
    })
    .to_string()
}

/// Path, session and body.
fn read_request(
    reader: &mut BufReader<&TcpStream>,
) -> std::io::Result<Option<(String, String, Value)>> {
    let (mut length, mut session) = (0, String::new());
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap_or(0),
            "x-smg-routing-key" => session = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = if length == 0 { Value::Null } else { serde_json::from_slice(&body)? };
    Ok(Some((path, session, body)))
}
