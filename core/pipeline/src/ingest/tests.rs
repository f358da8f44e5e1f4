//! What comes of a body in parts is what comes of the whole.

use std::collections::HashMap;
use std::rc::Rc;

use bytes::BytesMut;

use super::*;
use crate::http::{BodyState, read_head};
use crate::turn::Reply;

mod random;
mod talks;
mod work;

/// Replies that a session keeps.
#[derive(Default)]
struct Replies(HashMap<String, Rc<Reply>>);

impl Past for Replies {
    fn reply(&self, id: &str) -> Option<Rc<Reply>> {
        self.0.get(id).cloned()
    }
}

/// A session that reads bodies.
struct Reader {
    dialect: Dialect,
    seen: Seen,
    shelf: Shelf,
    hash: Hash,
    past: Replies,
    /// Most bytes of the latest body that were held at once.
    held_bytes: usize,
}

impl Reader {
    fn new(dialect: Dialect) -> Self {
        let (seen, shelf, past) = (Seen::default(), Shelf::default(), Replies::default());
        Self { dialect, seen, shelf, hash: Hash::new(7), past, held_bytes: 0 }
    }

    /// Another session of the same shard reads with what they share.
    fn other(&mut self) -> Self {
        let shelf = std::mem::take(&mut self.shelf);
        Self { shelf, ..Self::new(self.dialect) }
    }

    /// Reads a body that comes in pieces of these lengths, in turns.
    fn read_cut(&mut self, body: &[u8], cuts: &[usize], chunked: bool) -> Request {
        let framing = match chunked {
            true => "transfer-encoding: chunked".to_owned(),
            false => format!("content-length: {}", body.len()),
        };
        let head = format!("POST / HTTP/1.1\r\nhost: g\r\n{framing}\r\n\r\n");
        let head = read_head(&mut BytesMut::from(head.as_str())).unwrap().unwrap();
        let mut sent = Vec::new();
        let mut rest = body;
        let mut cuts_again = cuts.iter().cycle();
        while !rest.is_empty() {
            let size = (*cuts_again.next().unwrap()).clamp(1, rest.len());
            let (piece, after) = rest.split_at(size);
            let head = if chunked { format!("{size:x}\r\n") } else { String::new() };
            let tail = if chunked { "\r\n" } else { "" };
            sent.push([head.as_bytes(), piece, tail.as_bytes()].concat());
            rest = after;
        }
        if chunked {
            sent.push(b"0\r\n\r\n".to_vec());
        }
        let mut intake = Intake::of(&head, 1 << 30).unwrap();
        intake.compare(self.hash, || self.seen.candidates(self.dialect));
        let mut buf = BytesMut::new();
        let mut state = intake.read(&mut buf).unwrap();
        self.held_bytes = 0;
        for piece in sent {
            assert_eq!(state, BodyState::More);
            buf.extend_from_slice(&piece);
            state = intake.read(&mut buf).unwrap();
            self.held_bytes = self.held_bytes.max(intake.held_bytes() + buf.len());
        }
        assert_eq!((state, buf.len()), (BodyState::Done, 0));
        let arrived = intake.into_arrived(self.hash);
        self.seen.read(self.dialect, arrived, &mut self.shelf, &self.past)
    }

    fn read(&mut self, body: &str) -> Request {
        self.read_cut(body.as_bytes(), &[16 << 10], false)
    }

    /// What comes of the whole.
    fn whole(&self, body: &[u8]) -> Result<Asked, Fault> {
        self.dialect.read(body, &self.past)
    }
}
