//! A recording proxy in front of an engine: what was asked and what was answered, untouched.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::chat;

/// One call that went through.
#[derive(Clone, Debug)]
pub struct Call {
    /// Path with query.
    pub path: String,
    /// Request body; null when there is none.
    pub request: Value,
    /// Status of the answer.
    pub status: u16,
    /// Answer body; null when it is not JSON.
    pub answer: Value,
}

/// A running proxy; it ends with the test's process.
#[derive(Debug)]
pub struct Proxy {
    /// Its base URL.
    pub url: String,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Proxy {
    /// Starts a proxy in front of an engine.
    pub fn start(engine: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (engine, kept) = (engine.to_owned(), Arc::clone(&calls));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (engine, kept) = (engine.clone(), Arc::clone(&kept));
                std::thread::spawn(move || serve(&stream, &engine, &kept));
            }
        });
        Self { url: format!("http://{address}"), calls }
    }

    /// The calls so far whose path ends so.
    pub fn calls(&self, path_end: &str) -> Vec<Call> {
        let calls = self.calls.lock().expect("no thread panicked with it");
        calls.iter().filter(|call| call.path.ends_with(path_end)).cloned().collect()
    }
}

/// Serves a connection until it ends; a broken connection is the caller's to notice.
fn serve(stream: &TcpStream, engine: &str, calls: &Mutex<Vec<Call>>) {
    let mut reader = BufReader::new(stream);
    while let Some((method, path, body)) = read_request(&mut reader) {
        let body = (!body.is_empty()).then_some(body);
        let (status, text) = chat::send(&method, &format!("{engine}{path}"), None, body.as_deref());
        let json = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
        let request = json(body.as_deref().unwrap_or_default());
        let call = Call { path, request, status, answer: json(&text) };
        calls.lock().expect("no thread panicked with it").push(call);
        let head = format!(
            "HTTP/1.1 {status} Proxied\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            text.len()
        );
        let mut stream = stream;
        if stream.write_all(&[head.as_bytes(), text.as_bytes()].concat()).is_err() {
            return;
        }
    }
}

/// Method, path and body of the next request; `None` at the end of the connection.
fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<(String, String, String)> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let mut words = first.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = line.split_once(':') else { break };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().ok()?;
        }
        // A request in chunks would be taken for one without a body.
        assert!(!name.eq_ignore_ascii_case("transfer-encoding"), "the proxy reads no chunks");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((method, path, String::from_utf8(body).ok()?))
}
