//! HTTP by hand, on simulated connections.

use std::io;

use rollgate_shards::sim::TcpStream;

/// A connection and what was read from it.
pub struct Wire {
    /// Another request was sent right behind the first.
    pub ahead: bool,
    /// When the request was sent to its end, in nanoseconds; `None` while it is not.
    pub sent_ns: Option<u64>,
    pub stream: TcpStream,
    unread: Vec<u8>,
}

/// A request, as an engine reads it.
pub struct Request {
    pub path: String,
    pub head: String,
    pub body: Vec<u8>,
}

/// A reply, as an agent reads it.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// In lower case.
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    /// Whether the connection goes on.
    pub fn keeps(&self) -> bool {
        !self.head.contains("connection: close")
    }

    pub fn streams(&self) -> bool {
        self.head.contains("text/event-stream")
    }
}

impl Wire {
    pub fn new(stream: TcpStream) -> Self {
        Self { ahead: false, sent_ns: None, stream, unread: Vec::new() }
    }

    /// The next request; `None` at an end between two.
    pub async fn request(&mut self) -> io::Result<Option<Request>> {
        let Some(head) = self.head().await? else { return Ok(None) };
        let body = self.exactly(length(&head).unwrap_or(0)).await?;
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        Ok(Some(Request { path, head, body }))
    }

    /// The next reply, which must come whole.
    pub async fn reply(&mut self) -> io::Result<Reply> {
        let head = self.head().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
        let head = head.to_ascii_lowercase();
        let body = match length(&head) {
            Some(length) => self.exactly(length).await?,
            None if head.contains("transfer-encoding: chunked") => self.chunks().await?,
            None => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(Reply { status, head, body })
    }

    async fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let length = usize::from_str_radix(line.trim_end(), 16);
            let length = length.map_err(|_| io::ErrorKind::InvalidData)?;
            let mut chunk = self.exactly(length + 2).await?;
            chunk.truncate(length);
            if length == 0 {
                return Ok(body);
            }
            body.extend(chunk);
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = self.unread.windows(2).position(|end| end == b"\r\n") {
                let line = self.unread.drain(..at + 2).collect();
                return String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into());
            }
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    async fn head(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(at) = self.unread.windows(4).position(|end| end == b"\r\n\r\n") {
                let head: Vec<u8> = self.unread.drain(..at + 4).collect();
                let head = String::from_utf8(head).map_err(|_| io::ErrorKind::InvalidData)?;
                // A word to go on is no reply.
                if head.starts_with("HTTP/1.1 100") {
                    continue;
                }
                return Ok(Some(head));
            }
            if !self.more().await? {
                return match self.unread.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    async fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < length {
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.unread.drain(..length).collect())
    }

    async fn more(&mut self) -> io::Result<bool> {
        let bytes = self.stream.take(64 << 10).await?;
        self.unread.extend(&bytes);
        Ok(!bytes.is_empty())
    }
}

fn length(head: &str) -> Option<usize> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next()?.1.trim().parse().ok()
}
