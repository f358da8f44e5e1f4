//! What the exchanges of one shard share with each other: things worked out once for all sessions.
//!
//! Whatever is kept here is a copy of something that can be worked out anew: dropping it loses time,
//! nothing else.

use std::cell::Cell;
use std::rc::Rc;

use crate::fault::{Fault, FaultKind};
use crate::ingest::{Hash, Shelf};

/// The desk of one shard. Never leaves its thread.
#[derive(Default)]
pub struct Desk {
    hash: Option<Hash>,
    /// Bytes of bodies on their way in that are not known.
    unseen: Rc<Cell<u64>>,
    /// Tools and instructions.
    pub(super) shelf: Shelf,
}

impl Desk {
    /// What recognises bytes. `random`: bits that nobody else is told.
    pub(super) fn hash(&mut self, random: u128) -> Hash {
        *self.hash.get_or_insert_with(|| Hash::new((random ^ (random >> 64)) as u64))
    }

    /// Bytes of bodies on their way in that were not seen before: held, or announced.
    pub fn unseen_bytes(&self) -> u64 {
        self.unseen.get()
    }

    /// A share in what the shard may hold of bodies on their way in.
    pub(super) fn share(&self) -> Share {
        Share { of: self.unseen.clone(), bytes: 0 }
    }

    /// About how much memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.shelf.bytes()
    }
}

/// What one body holds of what a shard may hold; given back when dropped.
pub(super) struct Share {
    of: Rc<Cell<u64>>,
    bytes: u64,
}

impl Share {
    /// Makes it this large, where it was not. A fault where that is too much beside others.
    pub(super) fn grow(&mut self, bytes: u64, limit_bytes: u64) -> Result<(), Fault> {
        let more = bytes.saturating_sub(self.bytes);
        let all = self.of.get().saturating_add(more);
        let alone = self.of.get() == self.bytes;
        if more > 0 && all > limit_bytes && !alone {
            let message = format!(
                "{limit_bytes} bytes of requests are on their way in here; send it again later, or \
                 raise `limits.unseen_bytes` of the node"
            );
            return Err(Fault::new(FaultKind::Overload, message));
        }
        self.of.set(all);
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.set(self.of.get().saturating_sub(self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_what_may_be_on_its_way() {
        let desk = Desk::default();
        let (mut one, mut other) = (desk.share(), desk.share());
        assert!(one.grow(150, 100).is_ok(), "the only one may be larger");
        assert_eq!(other.grow(1, 100).unwrap_err().kind, FaultKind::Overload);
        drop(one);
        assert!(other.grow(60, 100).is_ok());
        let mut third = desk.share();
        assert!(third.grow(40, 100).is_ok());
        assert!(third.grow(30, 100).is_ok(), "it has more already");
        assert!(third.grow(41, 100).is_err());
        assert_eq!(desk.unseen_bytes(), 100);
        drop((other, third));
        assert_eq!(desk.unseen_bytes(), 0);
    }
}
