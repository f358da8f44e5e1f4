//! An agent that reads no more of HTTP than it must, for tests that ask very often.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use crate::gate::{Gate, Session};

/// One connection.
#[derive(Debug)]
pub struct Hasty {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    key: String,
}

impl Hasty {
    /// Connects to the agents' port as this session.
    pub fn connect(gate: &Gate, session: &Session) -> Self {
        let address = gate.agents.trim_start_matches("http://");
        let stream = TcpStream::connect(address).expect("the agents' port is open");
        let reader = BufReader::new(stream.try_clone().expect("a socket can be shared"));
        Self { stream, reader, key: session.key.clone() }
    }

    /// Goes on as another session.
    pub fn become_session(&mut self, session: &Session) {
        self.key = session.key.clone();
    }

    /// Posts a chat request; status and body of the answer.
    pub fn post(&mut self, body: &[u8]) -> (u16, String) {
        self.send(body);
        self.reply()
    }

    /// Sends a chat request. Whoever refuses it early may not take all of it.
    pub fn send(&mut self, body: &[u8]) {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nx-api-key: {}\r\n\
             content-length: {}\r\n\r\n",
            self.key,
            body.len()
        );
        let _ = self.stream.write_all(head.as_bytes());
        let _ = self.stream.write_all(body);
    }

    /// Reads one answer with a length.
    pub fn reply(&mut self) -> (u16, String) {
        let (mut status, mut length, mut line) = (0, 0, String::new());
        loop {
            line.clear();
            let read = self.reader.read_line(&mut line).expect("an answer comes");
            assert!(read > 0, "the connection ended in a head");
            let lower = line.trim_end().to_ascii_lowercase();
            if lower.is_empty() {
                break;
            }
            if let Some(rest) = lower.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().expect("a status");
            } else if let Some(value) = lower.strip_prefix("content-length: ") {
                length = value.parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).expect("the whole body comes");
        (status, String::from_utf8(body).expect("text"))
    }
}
