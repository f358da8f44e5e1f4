//! A way between an agent and the gate on which things go wrong.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// No more of a cut answer arrives: its head and the begin of a stream.
const CUT_BYTES: usize = 400;

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It goes through.
    None,
    /// The gate gets it; of the answer arrives what the gate sends first, then the connection breaks.
    /// Only where the engine takes longer than the gate's first sign of life (3 s) does the gate
    /// know for certain: an answer that it could write at once looks delivered to it.
    Cut,
    /// The gate never gets it: 429, try again in a second.
    Busy,
}

/// A running way; it ends with the test's process.
#[derive(Debug)]
pub struct Faulty {
    /// Its base URL.
    pub url: String,
    calls: Arc<AtomicUsize>,
}

impl Faulty {
    /// Starts a way to the gate at this URL, `http://HOST:PORT`. Calls beyond the list go through.
    pub fn start(gate: &str, faults: &[Fault]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let gate = gate.trim_start_matches("http://").to_owned();
        let (faults, calls): (Arc<[Fault]>, _) = (faults.into(), Arc::new(AtomicUsize::new(0)));
        let counted = calls.clone();
        std::thread::spawn(move || {
            for agent in listener.incoming().flatten() {
                let (gate, faults, calls) = (gate.clone(), faults.clone(), calls.clone());
                std::thread::spawn(move || serve(&agent, &gate, &faults, &calls));
            }
        });
        Self { url: format!("http://{address}"), calls: counted }
    }

    /// Calls so far (`POST`), those that went wrong included.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// One call, one connection. A broken one is the agent's to notice.
fn serve(agent: &TcpStream, gate: &str, faults: &[Fault], calls: &AtomicUsize) -> Option<()> {
    let request = read_request(&mut BufReader::new(agent))?;
    let counts = request.starts_with(b"POST");
    let fault = match counts {
        true => faults.get(calls.fetch_add(1, Ordering::SeqCst)).copied(),
        false => None,
    };
    let mut agent = agent;
    if fault == Some(Fault::Busy) {
        let body = r#"{"error":{"type":"rate_limit_error","message":"busy"}}"#;
        let head = "HTTP/1.1 429 Busy\r\nretry-after: 1\r\ncontent-type: application/json\r\nconnection: close";
        return write!(agent, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).ok();
    }
    let mut upstream = TcpStream::connect(gate).ok()?;
    upstream.write_all(&request).ok()?;
    if fault != Some(Fault::Cut) {
        std::io::copy(&mut upstream, &mut agent).ok()?;
        return agent.shutdown(Shutdown::Both).ok();
    }
    let mut begin = [0; CUT_BYTES];
    let length = upstream.read(&mut begin).ok()?;
    agent.write_all(&begin[..length]).ok()?;
    upstream.shutdown(Shutdown::Both).ok()?;
    agent.shutdown(Shutdown::Both).ok()
}

/// The next request, with a word that its connection is not kept.
fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<Vec<u8>> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            if line.trim_end().is_empty() {
                break;
            }
            head.push_str(&line);
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
        assert!(!name.eq_ignore_ascii_case("transfer-encoding"), "requests in chunks are not read");
        if !name.eq_ignore_ascii_case("connection") {
            head.push_str(&line);
        }
    }
    head.push_str("connection: close\r\n\r\n");
    let mut request = head.into_bytes();
    let from = request.len();
    request.resize(from + length, 0);
    reader.read_exact(&mut request[from..]).ok()?;
    Some(request)
}
