//! What a message is by itself: digested once where it is read again within a short time.
//!
//! A message is read when its request is matched, and again when the record of that request is
//! threaded in; an answer when it is threaded in, and again when the agent sends it back. Only the
//! last few are kept: what lies further back is part of a path ([`super::recent`]) or of a step.

use std::ops::Range;

use super::Digest;
use super::element::{Run, exact_digest, strict_digest, text_digest};
use crate::limits::RECENT_MESSAGES;
use crate::rules::{RuleSet, Spot};
use crate::turn::Message;

/// A message, digested.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// By what counts: of an assistant's message, as if it stood alone.
    pub(super) digest: Digest,
    /// The same without rules.
    pub(super) plain: Digest,
    /// Of the message as it is.
    pub(super) strict: Digest,
    /// Rules that changed something.
    pub(super) touched: Vec<u16>,
    /// Spans of the text that are overlays.
    pub(super) overlays: Vec<Range<usize>>,
    /// Whether nothing is left of it.
    pub(super) blank: bool,
}

#[derive(Debug)]
struct Kept {
    message: Message,
    /// Where it stood, if that makes a difference: of texts, not of answers.
    stood: Option<(Spot, Option<usize>)>,
    piece: Piece,
}

/// The last messages that were digested.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    kept: Vec<Kept>,
    next: usize,
    /// How many messages were digested.
    hashed: usize,
}

impl Pieces {
    /// A message that no model wrote; `place` is that of a result's call.
    pub(super) fn text(
        &mut self,
        rules: &RuleSet,
        message: &Message,
        spot: Spot,
        place: Option<usize>,
    ) -> Piece {
        let make = || {
            let reading = rules.read(message, spot);
            let blank = reading.text.trim().is_empty() && message.media_dropped == 0;
            let digest = text_digest(message, &reading.text, place);
            let plain = match reading.touched.is_empty() {
                true => digest,
                false => text_digest(message, &message.content, place),
            };
            let strict = exact_digest(message, plain);
            let (touched, overlays) = (reading.touched, reading.spans);
            Piece { digest, plain, strict, touched, overlays, blank }
        };
        self.get(message, Some((spot, place)), make)
    }

    /// An assistant's message.
    pub(super) fn answer(&mut self, message: &Message) -> Piece {
        let make = || {
            let mut alone = Run::default();
            alone.push(message);
            let digest = alone.digest();
            Piece::plain(digest, exact_digest(message, digest))
        };
        self.get(message, None, make)
    }

    /// A message of a faithful session.
    pub(super) fn exact(&mut self, message: &Message) -> Piece {
        let make = || {
            let strict = strict_digest(message);
            Piece::plain(strict, strict)
        };
        self.get(message, None, make)
    }

    /// How many messages were digested so far.
    #[cfg(test)]
    pub(super) fn hashed(&self) -> usize {
        self.hashed
    }

    fn get(
        &mut self,
        message: &Message,
        stood: Option<(Spot, Option<usize>)>,
        make: impl FnOnce() -> Piece,
    ) -> Piece {
        let held = |kept: &&Kept| {
            kept.stood == stood && (kept.message.is_copy_of(message) || kept.message == *message)
        };
        if let Some(kept) = self.kept.iter().find(held) {
            return kept.piece.clone();
        }
        self.hashed += 1;
        let piece = make();
        let kept = Kept { message: message.clone(), stood, piece: piece.clone() };
        if self.kept.len() < RECENT_MESSAGES {
            self.kept.push(kept);
        } else {
            self.kept[self.next] = kept;
            self.next = (self.next + 1) % RECENT_MESSAGES;
        }
        piece
    }
}

impl Piece {
    fn plain(digest: Digest, strict: Digest) -> Self {
        let (touched, overlays) = (Vec::new(), Vec::new());
        Self { digest, plain: digest, strict, touched, overlays, blank: false }
    }
}
