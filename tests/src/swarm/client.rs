//! A client that costs little: one connection, plain bytes, and an end whenever it likes.

use std::io::{BufRead as _, BufReader, Error, ErrorKind, Read as _, Result, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How the client takes its answer.
#[derive(Clone, Copy, Default, Debug)]
pub struct Taking {
    /// A pause after each piece of 4 KiB.
    pub pause: Duration,
    /// It leaves after so long, with or without an answer.
    pub patience: Option<Duration>,
}

/// A client with at most one connection.
#[derive(Debug)]
pub struct Client {
    addr: SocketAddr,
    reader: Option<BufReader<TcpStream>>,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: String,
    /// When its last byte was read.
    pub whole: Instant,
}

impl Client {
    /// A client of the server at `http://HOST:PORT`.
    pub fn new(url: &str) -> Self {
        let addr = url.trim_start_matches("http://").trim_end_matches('/');
        Self { addr: addr.parse().expect("an address in numbers"), reader: None }
    }

    /// One call. An error leaves no connection behind.
    pub fn call(
        &mut self,
        method: &str,
        path: &str,
        key: &str,
        body: &str,
        taking: Taking,
    ) -> Result<Answer> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => {
                let stream = TcpStream::connect_timeout(&self.addr, Duration::from_secs(10))?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        let limit = taking.patience.unwrap_or(Duration::from_secs(120));
        let mut exchange = Exchange { reader, until: Instant::now() + limit, pause: taking.pause };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        exchange.reader.get_mut().write_all(request.as_bytes())?;
        let (answer, keeps) = exchange.answer()?;
        if keeps {
            self.reader = Some(exchange.reader);
        }
        Ok(answer)
    }
}

struct Exchange {
    reader: BufReader<TcpStream>,
    until: Instant,
    pause: Duration,
}

impl Exchange {
    fn answer(&mut self) -> Result<(Answer, bool)> {
        let mut head = String::new();
        loop {
            let line = self.line()?;
            if line.trim_end().is_empty() {
                break;
            }
            head.push_str(&line.to_ascii_lowercase());
        }
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        let status = status.ok_or(ErrorKind::InvalidData)?;
        let length = head
            .split_once("content-length: ")
            .and_then(|(_, rest)| rest.lines().next()?.trim().parse().ok());
        let mut body = Vec::new();
        match length {
            Some(length) => self.take(length, &mut body)?,
            None if status == 204 => {}
            None => while self.chunk(&mut body)? {},
        }
        let whole = Instant::now();
        let body = String::from_utf8(body).map_err(|_| Error::from(ErrorKind::InvalidData))?;
        Ok((Answer { status, body, whole }, !head.contains("connection: close")))
    }

    fn chunk(&mut self, body: &mut Vec<u8>) -> Result<bool> {
        let line = self.line()?;
        let length = usize::from_str_radix(line.trim_end(), 16);
        let length = length.map_err(|_| Error::from(ErrorKind::InvalidData))?;
        self.take(length + 2, body)?;
        body.truncate(body.len() - 2);
        Ok(length > 0)
    }

    fn line(&mut self) -> Result<String> {
        self.hurry()?;
        let mut line = String::new();
        match self.reader.read_line(&mut line)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }

    fn take(&mut self, length: usize, body: &mut Vec<u8>) -> Result<()> {
        let end = body.len() + length;
        while body.len() < end {
            self.hurry()?;
            let begin = body.len();
            body.resize(end.min(begin + 4_096), 0);
            self.reader.read_exact(&mut body[begin..])?;
            if !self.pause.is_zero() {
                std::thread::sleep(self.pause);
            }
        }
        Ok(())
    }

    fn hurry(&mut self) -> Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.reader.get_ref().set_read_timeout(Some(left))
    }
}
