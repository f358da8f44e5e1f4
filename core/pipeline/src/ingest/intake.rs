//! A request's body on its way in: what is known of it is not kept.

use bytes::{Bytes, BytesMut};

use super::hash::Hash;
use super::watch::{Base, Candidate, Watch};
use crate::fault::Fault;
use crate::http::{BodyReader, BodyState, Framing, RequestHead};

/// Takes in one body.
pub(crate) struct Intake {
    body: BodyReader,
    total: Option<usize>,
    /// What the body is compared with, once it begins.
    watch: Option<(Watch, Hash)>,
}

/// A body that is complete.
pub(crate) struct Arrived {
    /// What of it is not known.
    pub(super) rest: Bytes,
    /// What is known of its beginning.
    pub(super) base: Option<Base>,
    pub(super) hash: Hash,
}

impl Intake {
    /// For the body behind this head. A length over the limit is refused before a byte is read. Of a
    /// compressed one it is not known where it ends once it is expanded.
    pub(crate) fn of(head: &RequestHead, limit_bytes: u64) -> Result<Self, Fault> {
        let body = BodyReader::of(head, limit_bytes)?;
        let total = match head.framing {
            Framing::Length(bytes) if !body.expands() => Some(bytes as usize),
            Framing::Length(_) | Framing::None | Framing::Chunked => None,
        };
        Ok(Self { body, total, watch: None })
    }

    /// Whether [`Intake::compare`] was called.
    pub(crate) fn compares(&self) -> bool {
        self.watch.is_some()
    }

    /// Compares the body with these. Once, before its first byte.
    pub(crate) fn compare(&mut self, hash: Hash, candidates: impl FnOnce() -> Vec<Candidate>) {
        let total = self.total;
        self.watch.get_or_insert_with(|| (Watch::new(candidates(), hash.begin(), total), hash));
    }

    /// Takes what belongs to the body off the front of `buf`. A piece that may turn out to be known
    /// stays there until it is here whole.
    pub(crate) fn read(&mut self, buf: &mut BytesMut) -> Result<BodyState, Fault> {
        let watch = self.watch.as_mut().map(|(watch, _)| watch).filter(|watch| watch.is_open());
        let Some(watch) = watch else { return self.body.read(buf) };
        let Some(here) = self.body.ahead(buf) else {
            let state = self.body.read(buf)?;
            let known = watch.look(self.body.bytes());
            self.body.forget(known);
            return Ok(state);
        };
        let known = watch.look(&buf[..here]);
        let whole = self.body.pass(known, buf);
        match watch.is_open() && !whole {
            true => Ok(BodyState::More),
            false => self.body.read(buf),
        }
    }

    /// About how many bytes of the body will have to be held: its length, where that is told, but for
    /// what a body that it may follow has.
    pub(crate) fn unseen_bytes(&self) -> usize {
        let known = self.watch.as_ref().map_or(0, |(watch, _)| watch.longest());
        self.total.unwrap_or_default().saturating_sub(known)
    }

    /// Bytes of the body that are kept, for want of knowing them.
    pub(crate) fn held_bytes(&self) -> usize {
        self.body.bytes().len()
    }

    /// The body as far as it was read. `hash` is for one that was compared with nothing.
    pub(crate) fn into_arrived(self, hash: Hash) -> Arrived {
        let (base, hash) = match self.watch {
            Some((watch, hash)) => (watch.into_base(), hash),
            None => (None, hash),
        };
        Arrived { rest: self.body.into_bytes(), base, hash }
    }
}
