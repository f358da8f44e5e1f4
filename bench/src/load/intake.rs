//! Reading HTTP cheaply: requests with a length for the engine, answers of any framing for the load.

use std::cell::RefCell;
use std::io;

use monoio::buf::IoBufMut as _;
use monoio::io::AsyncReadRent as _;
use monoio::net::TcpStream;

/// What a connection reads into while it waits.
const SMALL_BYTES: usize = 16 * 1024;
/// What a large request is read into at first.
const LARGE_BYTES: usize = 1024 * 1024;
/// Longest head.
const HEAD_BYTES: usize = 64 * 1024;

/// What is known of a message once its head is read.
pub(crate) struct Head {
    /// Bytes of the head.
    pub(crate) bytes: usize,
    /// Bytes of the body.
    pub(crate) length: usize,
    pub(crate) path: String,
    pub(crate) post: bool,
}

/// Bytes that came and were not taken yet.
#[derive(Default)]
pub(crate) struct Intake {
    buffer: Vec<u8>,
}

/// Reads more behind what is there; `false` at the end.
pub(crate) async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<bool> {
    if buffer.capacity() - buffer.len() < 2048 {
        buffer.reserve(buffer.len().max(SMALL_BYTES));
    }
    let held = std::mem::take(buffer);
    let filled = held.len();
    let (result, slice) = stream.read(held.slice_mut(filled..)).await;
    *buffer = slice.into_inner();
    Ok(result? > 0)
}

fn unsound(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

impl Intake {
    /// The next request, whole. `None` at the end of the connection.
    pub(crate) async fn request(
        &mut self,
        stream: &mut TcpStream,
        large: &RefCell<Vec<Vec<u8>>>,
    ) -> io::Result<Option<Head>> {
        let head = loop {
            if let Some(head) = request_head(&self.buffer)? {
                break head;
            }
            if self.buffer.len() > HEAD_BYTES {
                return Err(unsound("the head does not end"));
            }
            if !more(stream, &mut self.buffer).await? {
                return Ok(None);
            }
        };
        let whole = head.bytes + head.length;
        if whole > self.buffer.capacity() {
            let pooled = large.borrow_mut().pop();
            let mut roomy = pooled.unwrap_or_else(|| Vec::with_capacity(LARGE_BYTES));
            // More than it needs, so that the last read does not grow it.
            roomy.reserve(whole + SMALL_BYTES);
            roomy.extend_from_slice(&self.buffer);
            self.buffer = roomy;
        }
        while self.buffer.len() < whole {
            if !more(stream, &mut self.buffer).await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(Some(head))
    }

    /// The body of the request that was read last.
    pub(crate) fn body(&self, head: &Head) -> &[u8] {
        &self.buffer[head.bytes..head.bytes + head.length]
    }

    /// Forgets the request; a large buffer goes back.
    pub(crate) fn done(&mut self, head: &Head, large: &RefCell<Vec<Vec<u8>>>) {
        let rest = self.buffer.split_off(head.bytes + head.length);
        let mut used = std::mem::replace(&mut self.buffer, rest);
        used.clear();
        if used.capacity() >= LARGE_BYTES {
            large.borrow_mut().push(used);
        } else if self.buffer.is_empty() {
            self.buffer = used;
        }
    }
}

fn request_head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    if bytes.is_empty() {
        return Ok(None);
    }
    match request.parse(bytes).map_err(unsound)? {
        httparse::Status::Partial => Ok(None),
        httparse::Status::Complete(head) => {
            let length = framing(request.headers)?.unwrap_or(Framing::Length(0));
            let Framing::Length(length) = length else {
                return Err(unsound("the bench's engine takes requests with a length only"));
            };
            Ok(Some(Head {
                bytes: head,
                length,
                path: request.path.unwrap_or_default().to_owned(),
                post: request.method == Some("POST"),
            }))
        }
    }
}

/// How long a body is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Framing {
    Length(usize),
    Chunked,
}

fn framing(headers: &[httparse::Header<'_>]) -> io::Result<Option<Framing>> {
    let mut found = None;
    for header in headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).map_err(unsound)?;
            found = Some(Framing::Length(text.trim().parse().map_err(unsound)?));
        }
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Ok(Some(Framing::Chunked));
        }
    }
    Ok(found)
}

/// An answer.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) events: bool,
    /// Whether the connection can be used again.
    pub(crate) keeps: bool,
}

/// Reads answers of one connection; the buffers are kept.
#[derive(Default)]
pub(crate) struct Replies {
    buffer: Vec<u8>,
    /// The last answer's body.
    pub(crate) body: Vec<u8>,
}

impl Replies {
    /// Forgets what is left of a connection that is gone.
    pub(crate) fn clear(&mut self) {
        self.buffer.clear();
    }

    /// The next answer; its body is in `body`.
    pub(crate) async fn next(&mut self, stream: &mut TcpStream) -> io::Result<Reply> {
        self.body.clear();
        loop {
            if let Some((reply, framing, head)) = reply_head(&self.buffer)? {
                self.buffer.drain(..head);
                match framing {
                    Some(Framing::Length(length)) => self.length(stream, length).await?,
                    Some(Framing::Chunked) => self.chunks(stream).await?,
                    None => {
                        while more(stream, &mut self.buffer).await? {}
                        self.body.append(&mut self.buffer);
                        return Ok(Reply { keeps: false, ..reply });
                    }
                }
                return Ok(reply);
            }
            self.need(stream).await?;
        }
    }

    async fn need(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        match more(stream, &mut self.buffer).await? {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    async fn length(&mut self, stream: &mut TcpStream, length: usize) -> io::Result<()> {
        while self.buffer.len() < length {
            self.need(stream).await?;
        }
        self.body.extend_from_slice(&self.buffer[..length]);
        self.buffer.drain(..length);
        Ok(())
    }

    async fn chunks(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let mut at = 0;
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.buffer[at..]).map(|end| at + end + 1)
            else {
                self.need(stream).await?;
                continue;
            };
            let line = std::str::from_utf8(&self.buffer[at..end]).map_err(unsound)?;
            let size = line.trim().split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size, 16).map_err(unsound)?;
            while self.buffer.len() < end + size + 2 {
                self.need(stream).await?;
            }
            self.body.extend_from_slice(&self.buffer[end..end + size]);
            at = end + size + 2;
            if size == 0 {
                self.buffer.drain(..at);
                return Ok(());
            }
        }
    }
}

fn reply_head(bytes: &[u8]) -> io::Result<Option<(Reply, Option<Framing>, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    if bytes.is_empty() {
        return Ok(None);
    }
    match response.parse(bytes).map_err(unsound)? {
        httparse::Status::Partial => Ok(None),
        httparse::Status::Complete(head) => {
            let value = |name: &str| {
                let found = response.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name));
                found.map(|header| header.value).unwrap_or_default()
            };
            let reply = Reply {
                status: response.code.unwrap_or_default(),
                events: value("content-type").starts_with(b"text/event-stream"),
                keeps: !value("connection").eq_ignore_ascii_case(b"close"),
            };
            Ok(Some((reply, framing(response.headers)?, head)))
        }
    }
}
