//! What the exchanges of one shard share with each other: things worked out once for all sessions.
//!
//! Whatever is kept here is a copy of something that can be worked out anew: dropping it loses time,
//! nothing else.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::counts::Counts;
use crate::fault::{Fault, FaultKind};
use crate::ingest::{Hash, Shelf};
use crate::limits::TOOL_LISTS;
use crate::render::Heads;
use crate::trajectory::ToolDigests;
use crate::turn::Tools;

/// The desk of one shard. Never leaves its thread.
#[derive(Default)]
pub struct Desk {
    hash: Option<Hash>,
    /// Bytes of bodies on their way in that are not known.
    unseen: Rc<Cell<u64>>,
    /// Tools and instructions.
    pub(super) shelf: Shelf,
    /// Digests of lists of tools, those last asked for last.
    tools: RefCell<Vec<(Tools, ToolDigests)>>,
    /// Heads of prompts, with their ids.
    pub(super) heads: Heads,
    /// How many tokens texts have.
    pub(super) counts: Counts,
}

impl Desk {
    /// Digests of these tools. All sessions of a job offer the same ones.
    pub(super) fn tool_digests(&self, tools: &Tools) -> ToolDigests {
        let lists = &mut *self.tools.borrow_mut();
        if let Some(at) = lists.iter().rposition(|(held, _)| held.is_copy_of(tools)) {
            lists[at..].rotate_left(1);
        } else {
            if lists.len() >= TOOL_LISTS {
                lists.remove(0);
            }
            lists.push((tools.clone(), ToolDigests::of(tools)));
        }
        lists.last().map_or_else(|| ToolDigests::of(tools), |(_, digests)| digests.clone())
    }

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
    use serde_json::json;

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

    #[test]
    fn a_list_of_tools_is_digested_once_while_it_is_in_use() {
        let desk = Desk::default();
        let list = |n: usize| Tools::from(vec![json!({"name": n.to_string()})]);
        let first = list(0);
        let digests = desk.tool_digests(&first);
        for n in 1..3 * TOOL_LISTS {
            assert_eq!(desk.tool_digests(&list(n)), ToolDigests::of(&list(n)));
            assert_eq!(desk.tool_digests(&first), digests);
            assert!(desk.tools.borrow().len() <= TOOL_LISTS);
        }
        let held =
            |tools: &Tools| desk.tools.borrow().iter().any(|(held, _)| held.is_copy_of(tools));
        assert!(held(&first), "asked for all the time");
        (0..TOOL_LISTS).for_each(|n| drop(desk.tool_digests(&list(n))));
        assert!(!held(&first));
        assert_eq!(desk.tool_digests(&first), digests);
    }
}
