//! An agent: one connection, requests as bytes, replies read to their end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rollgate_pipeline::id::SessionKey;
use serde_json::{Value, json};
use socket2::SockRef;

/// A connection of an agent.
pub struct Agent {
    pub stream: TcpStream,
    reader: BufReader<TcpStream>,
}

/// How an agent leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    Fin,
    Reset,
}

/// A reply.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// Header lines in lower case.
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn closes(&self) -> bool {
        self.head.contains("connection: close")
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// What the answer says, from either framing.
    pub fn text(&self) -> String {
        if !self.head.contains("text/event-stream") {
            return self.content();
        }
        assert!(self.body.ends_with("data: [DONE]\n\n"), "{self:?}");
        let events = self.body.lines().filter_map(|line| line.strip_prefix("data: {"));
        let event = |rest| serde_json::from_str::<Value>(&format!("{{{rest}")).unwrap();
        events
            .map(event)
            .filter_map(|event| {
                let text = &event["choices"][0]["delta"]["content"];
                text.as_str().map(str::to_owned)
            })
            .collect()
    }

    pub fn content(&self) -> String {
        self.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    }
}

/// The bytes of a chat request.
pub fn chat(key: &SessionKey, messages: &Value, stream: bool) -> Vec<u8> {
    let body = json!({"model": "any", "messages": messages, "stream": stream}).to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {}\r\n\
         content-length: {}\r\n\r\n",
        key.expose(),
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// One message of the user.
pub fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

impl Agent {
    pub fn connect(addr: SocketAddr) -> Agent {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Agent { stream, reader }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn ask(&mut self, key: &SessionKey, messages: &Value) -> Reply {
        self.send(&chat(key, messages, false));
        self.reply()
    }

    pub fn reply(&mut self) -> Reply {
        let mut head = String::new();
        let mut line = String::new();
        while self.reader.read_line(&mut line).unwrap() > 0 && line != "\r\n" {
            head.push_str(&line.to_ascii_lowercase());
            line.clear();
        }
        let status = head.get(9..12).unwrap_or_else(|| panic!("no reply")).parse().unwrap();
        let mut body = Vec::new();
        if let Some((_, rest)) = head.split_once("content-length: ") {
            body.resize(rest.lines().next().unwrap().parse().unwrap(), 0);
            self.reader.read_exact(&mut body).unwrap();
        } else if head.contains("transfer-encoding: chunked") {
            while self.chunk(&mut body) {}
        }
        Reply { status, head, body: String::from_utf8(body).unwrap() }
    }

    /// Whether the other side has closed, without a byte before that.
    pub fn at_end(&mut self) -> bool {
        matches!(self.reader.read(&mut [0]), Ok(0))
    }

    /// All that comes until the other side closes.
    pub fn rest(&mut self) -> String {
        let mut text = String::new();
        self.reader.read_to_string(&mut text).unwrap();
        text
    }

    /// Says that nothing more will be sent, and goes on reading.
    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Leaves: in order, or with a reset.
    pub fn leave(self, leave: Leave) {
        if leave == Leave::Reset {
            SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
    }

    fn chunk(&mut self, body: &mut Vec<u8>) -> bool {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let length = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let mut data = vec![0; length + 2];
        self.reader.read_exact(&mut data).unwrap();
        body.extend_from_slice(&data[..length]);
        length > 0
    }
}
