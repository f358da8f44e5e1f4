//! How one request was cut, and what was read from its parts.

use std::rc::Rc;

use super::hash::{Hash, Key, Running};
use super::outline::Outline;
use super::watch::{Checkpoint, Lines};
use crate::limits::{CHECKPOINT_BYTES, RECENT_CHECKPOINTS};
use crate::protocol::{Parts, Read};

/// One request.
pub(super) struct Layout<P: Parts> {
    pub(super) checkpoints: Rc<[Checkpoint]>,
    /// Members before the list.
    pub(super) head: Rc<[Member<P>]>,
    pub(super) entries: Entries<P>,
    /// Members behind the list.
    pub(super) tail: Rc<[Member<P>]>,
    /// The bytes from the list's closing bracket on.
    pub(super) end: Key,
    /// The tools that entries were read with.
    pub(super) tools: Option<Key>,
    /// What the request left for the next one.
    pub(super) trace: P::Trace,
    /// Length of the body.
    pub(super) bytes: usize,
}

/// Entries of a list.
pub(super) struct Entries<P: Parts> {
    pub(super) keys: Vec<Key>,
    pub(super) read: Vec<Rc<P::Entry>>,
    /// Bytes of those that would be read otherwise with other tools, by their index.
    pub(super) dependent: Vec<(usize, Rc<str>)>,
}

impl<P: Parts> Entries<P> {
    /// The first so many.
    pub(super) fn first(&self, count: usize) -> Self {
        let dependent = self.dependent.iter().filter(|(at, _)| *at < count);
        Self {
            keys: self.keys[..count].to_vec(),
            read: self.read[..count].to_vec(),
            dependent: dependent.cloned().collect(),
        }
    }

    /// None.
    pub(super) fn none() -> Self {
        Self { keys: Vec::new(), read: Vec::new(), dependent: Vec::new() }
    }

    /// How many of the first ones are the same.
    pub(super) fn shared(&self, other: &Self) -> usize {
        let pairs = self.read.iter().zip(&other.read);
        pairs.take_while(|(one, other)| Rc::ptr_eq(one, other)).count()
    }
}

/// A member of the body other than the list.
pub(super) struct Member<P: Parts> {
    pub(super) name: Rc<str>,
    /// Of its value.
    pub(super) key: Key,
    pub(super) value: Value<P>,
}

/// What a member says.
pub(super) enum Value<P: Parts> {
    /// Name and value as they are written.
    Short(Box<str>),
    Tools(Read<P::Tools>),
    Standing(Read<P::Standing>),
}

/// What is known of the beginning of a body.
pub(super) struct Known<P: Parts> {
    pub(super) layout: Rc<Layout<P>>,
    /// Index of a checkpoint.
    pub(super) at: usize,
    pub(super) running: Running,
}

impl<P: Parts> Known<P> {
    pub(super) fn checkpoint(&self) -> Checkpoint {
        self.layout.checkpoints[self.at]
    }
}

/// The checkpoints of a body whose `rest` has this outline: many at its end, where the next request
/// is likely to differ, and few before.
pub(super) fn checkpoints<P: Parts>(
    known: Option<&Known<P>>,
    hash: Hash,
    rest: &[u8],
    places: &[(usize, usize)],
) -> Rc<[Checkpoint]> {
    let old = known.map_or(&[][..], |known| &known.layout.checkpoints[..=known.at]);
    let last = places.last().map(|place| place.1).or(old.last().map(|last| last.entries));
    let recent = last.unwrap_or_default().saturating_sub(RECENT_CHECKPOINTS);
    let mut kept: Vec<Checkpoint> = Vec::with_capacity(old.len() + RECENT_CHECKPOINTS);
    let wanted = |kept: &[Checkpoint], at: usize, entries: usize| {
        entries >= recent || kept.last().is_none_or(|last| at - last.at >= CHECKPOINT_BYTES)
    };
    for checkpoint in old {
        if wanted(&kept, checkpoint.at, checkpoint.entries) {
            kept.push(*checkpoint);
        }
    }
    let begin = known.map(|known| known.checkpoint());
    let (mut running, from, mut lines) = match known {
        Some(known) => (known.running.clone(), known.checkpoint().at, known.checkpoint().lines),
        None => (hash.begin(), 0, Lines::default()),
    };
    let mut done = 0;
    for &(offset, entries) in places {
        let at = from + offset;
        if begin.is_some_and(|begin| begin.at == at) || !wanted(&kept, at, entries) {
            continue;
        }
        let piece = &rest[done..offset];
        running.add(piece);
        // A mark of the byte order is no part of the first line.
        lines = lines
            .with(piece.strip_prefix(MARK).filter(|_| at == offset && done == 0).unwrap_or(piece));
        done = offset;
        kept.push(Checkpoint { at, entries, hash: running.hash(), lines });
    }
    kept.into()
}

/// The mark of the byte order, which a body may begin with.
pub(super) const MARK: &[u8] = b"\xEF\xBB\xBF";

/// The places in `rest` where a checkpoint may be, with the number of entries before it. `skip`:
/// bytes of `rest` before the outline's text, `before`: entries before it.
pub(super) fn places(
    outline: &Outline<'_>,
    text: &str,
    skip: usize,
    before: usize,
) -> Vec<(usize, usize)> {
    let offset = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize + part.len() + skip;
    let begin = outline.list.filter(|list| *list > 0).map(|list| (list + skip, 0));
    let ends = outline.entries.iter().enumerate();
    begin.into_iter().chain(ends.map(|(at, entry)| (offset(entry), before + at + 1))).collect()
}
