//! Replies of engines.
//!
//! Whatever is wrong here is the engine's fault, or that of a proxy in front of it.

use bytes::{Buf, Bytes, BytesMut};

use super::BodyState;
use super::chunked::{ChunkError, Chunked, move_up_to};
use super::framing::{self, Framing, Version};
use crate::fault::{Fault, FaultKind};
use crate::limits::{HEAD_BYTES, HEADERS};

/// Most bytes of a body that room is made for before they are here.
const ROOM_BYTES: u64 = 1 << 20;
/// Room that whoever reads wants besides: less is taken for none.
const SPARE_BYTES: usize = 16 << 10;

/// How a reply's body is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyFraming {
    /// This many bytes.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
    /// Until the connection is closed.
    UntilClose,
}

/// Head of a reply.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplyHead {
    /// Status code.
    pub status: u16,
    /// How the body is delimited.
    pub framing: ReplyFraming,
    /// Whether the connection may be used again.
    pub keep_alive: bool,
    /// `Retry-After` in seconds; a date is not understood, for lack of a clock.
    pub retry_after_s: Option<u32>,
}

/// Takes one reply head off the front of `buf`; 1xx heads are skipped.
pub fn read_reply_head(buf: &mut BytesMut) -> Result<Option<ReplyHead>, Fault> {
    loop {
        let window = &buf[..buf.len().min(HEAD_BYTES)];
        let mut fields = [httparse::EMPTY_HEADER; HEADERS];
        let mut response = httparse::Response::new(&mut fields);
        let length = match response.parse(window) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if buf.len() >= HEAD_BYTES => {
                return Err(bad(format!("its head is larger than {HEAD_BYTES} bytes")));
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(bad(format!("its head has more than {HEADERS} fields")));
            }
            Err(error) => return Err(bad(format!("it is not sound HTTP/1.1: {error}"))),
        };
        if !framing::lines_end_in_crlf(&window[..length]) {
            return Err(bad("a line of its head ends without a carriage return"));
        }
        let head = digest(&response)?;
        buf.advance(length);
        if head.status >= 200 {
            return Ok(Some(head));
        }
    }
}

fn digest(response: &httparse::Response<'_, '_>) -> Result<ReplyHead, Fault> {
    let version = Version::of(response.version);
    let fields = &*response.headers;
    let status = response.code.unwrap_or_default();
    let value = |name: &str| {
        let field = fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.and_then(|field| std::str::from_utf8(field.value).ok())
    };
    if status == 101 || status < 100 {
        return Err(bad(format!("its status is {status}")));
    }
    // We never offer to take a compressed body.
    if value("content-encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(bad("its body is compressed, which was not asked for"));
    }
    let framing = match framing::framing(version, fields).map_err(bad)? {
        _ if matches!(status, 100..=199 | 204 | 304) => ReplyFraming::Length(0),
        Framing::Length(bytes) => ReplyFraming::Length(bytes),
        Framing::Chunked => ReplyFraming::Chunked,
        Framing::None => ReplyFraming::UntilClose,
    };
    Ok(ReplyHead {
        status,
        framing,
        keep_alive: framing != ReplyFraming::UntilClose && framing::keep_alive(version, fields),
        retry_after_s: value("retry-after").and_then(|seconds| seconds.parse().ok()),
    })
}

/// Reads one whole reply, head and body.
pub struct ReplyReader {
    limit_bytes: u64,
    started: bool,
    head: Option<ReplyHead>,
    rest: Rest,
    body: BytesMut,
}

enum Rest {
    /// The head, to begin with.
    Head,
    Length {
        left: u64,
    },
    Chunked(Chunked),
    UntilClose,
    Done,
}

impl ReplyReader {
    /// A reader of a reply with a body of at most this many bytes.
    pub fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, started: false, head: None, rest: Rest::Head, body: BytesMut::new() }
    }

    /// Takes what belongs to the reply off the front of `buf`; `eof` says that no more will come.
    pub fn read(&mut self, buf: &mut BytesMut, eof: bool) -> Result<BodyState, Fault> {
        self.started |= !buf.is_empty();
        if matches!(self.rest, Rest::Head)
            && let Some(head) = read_reply_head(buf)?
        {
            self.rest = self.body_of(&head)?;
            self.head = Some(head);
            make_room(&self.rest, buf);
        }
        if self.read_body(buf, eof)? {
            self.rest = Rest::Done;
            return Ok(BodyState::Done);
        }
        if eof { Err(self.cut(buf.len())) } else { Ok(BodyState::More) }
    }

    fn body_of(&self, head: &ReplyHead) -> Result<Rest, Fault> {
        Ok(match head.framing {
            ReplyFraming::Length(bytes) if bytes > self.limit_bytes => return Err(self.too_large()),
            ReplyFraming::Length(left) => Rest::Length { left },
            ReplyFraming::Chunked => Rest::Chunked(Chunked::new(self.limit_bytes)),
            ReplyFraming::UntilClose => Rest::UntilClose,
        })
    }

    fn read_body(&mut self, buf: &mut BytesMut, eof: bool) -> Result<bool, Fault> {
        match &mut self.rest {
            Rest::Head => Ok(false),
            Rest::Done => Ok(true),
            Rest::Length { left } => {
                *left -= move_up_to(*left, buf, &mut self.body);
                Ok(*left == 0)
            }
            Rest::Chunked(chunked) => match chunked.read(buf, &mut self.body) {
                Ok(done) => Ok(done),
                Err(ChunkError::TooLarge) => Err(self.too_large()),
                Err(ChunkError::Bad(why)) => Err(bad(why)),
            },
            Rest::UntilClose => {
                if buf.len() as u64 > self.limit_bytes - self.body.len() as u64 {
                    return Err(self.too_large());
                }
                move_up_to(u64::MAX, buf, &mut self.body);
                Ok(eof)
            }
        }
    }

    /// Whether any byte of a reply was seen.
    pub fn started(&self) -> bool {
        self.started
    }

    /// Head and body of a reply that is `Done`.
    pub fn into_parts(self) -> Option<(ReplyHead, Bytes)> {
        let Rest::Done = self.rest else { return None };
        Some((self.head?, self.body.freeze()))
    }

    fn cut(&self, head_bytes: usize) -> Fault {
        let got = self.body.len();
        bad(match (&self.head, &self.rest) {
            (None, _) if !self.started => "the connection was closed before its first byte".into(),
            (None, _) => format!("the connection was closed after {head_bytes} bytes of its head"),
            (Some(_), Rest::Length { left }) => {
                let whole = got as u64 + left;
                format!("the connection was closed after {got} of {whole} bytes of its body")
            }
            _ => format!("the connection was closed after {got} bytes of an unfinished body"),
        })
    }

    fn too_large(&self) -> Fault {
        bad(format!("its body is larger than `limits.engine_reply_bytes`, {}", self.limit_bytes))
    }
}

/// Makes room for the rest of the body in one piece behind what is there, so that nothing is moved
/// when that comes: what is read into `buf` later lies right behind what was taken off it.
fn make_room(rest: &Rest, buf: &mut BytesMut) {
    if let Rest::Length { left } = rest {
        let missing = left.saturating_sub(buf.len() as u64).min(ROOM_BYTES);
        if missing > 0 {
            buf.reserve(missing as usize + SPARE_BYTES);
        }
    }
}

fn bad(why: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::EngineBadReply, format!("the engine's reply is unusable: {why}"))
}
