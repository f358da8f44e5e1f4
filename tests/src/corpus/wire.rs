//! An agent's HTTP: answers in its dialect, and connections that are cut.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::dialect::Dialect;
use crate::chat;

/// Where and how an agent asks.
#[derive(Clone, Debug)]
pub struct Wire {
    /// Base URL of the agents' port.
    pub agents: String,
    /// The session's key.
    pub key: String,
    /// What it speaks.
    pub dialect: Dialect,
    /// As events, or as one JSON body.
    pub stream: bool,
    /// The agent has scene rules, which are no matter here: every call names its scene.
    pub tells_scene: bool,
}

impl Wire {
    fn path(&self, scene: &str) -> String {
        let told = scene != "main" || self.tells_scene;
        let scene = if told { format!("/scene/{scene}") } else { String::new() };
        format!("{scene}{}", self.dialect.path())
    }

    /// The assistant message that answers this body. Anything but 200 is an error.
    pub fn ask(&self, scene: &str, body: &str) -> Result<Value, String> {
        let url = format!("{}{}", self.agents, self.path(scene));
        let headers = self.dialect.headers(&self.key);
        let (status, text) = chat::send_with("POST", &url, &headers, Some(body));
        if status != 200 {
            return Err(format!("status {status}: {text:.600}"));
        }
        self.dialect.answer(&text, self.stream)
    }

    /// Sends the request and closes the connection before an answer can have come.
    pub fn cut_before(&self, body: &str, after: Duration) {
        let stream = self.sent(body);
        std::thread::sleep(after);
        drop(stream);
    }

    /// Reads the first bytes of the answer and closes the connection with the rest unread, so that
    /// the other side is told that not all was taken.
    pub fn cut_within(&self, body: &str) -> String {
        let mut stream = self.sent(body);
        let mut head = [0; 400];
        stream.read_exact(&mut head).expect("an answer begins");
        let mut waiting = [0];
        let unread = stream.peek(&mut waiting).expect("the answer goes on");
        assert_eq!(unread, 1, "the answer must be longer than what is read of it");
        drop(stream);
        String::from_utf8_lossy(&head).into_owned()
    }

    fn sent(&self, body: &str) -> TcpStream {
        let host = self.agents.strip_prefix("http://").expect("an http address");
        let mut stream = TcpStream::connect(host).expect("the gateway listens");
        let headers = self.dialect.headers(&self.key).into_iter();
        let headers: String = headers.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {host}\r\n{headers}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.path("main"),
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("it takes requests");
        stream
    }
}
