//! Parts that many sessions send: tools and instructions, read once for the shard.

use std::any::Any;
use std::collections::HashMap;
use std::rc::Rc;

use super::hash::Key;
use crate::limits::{SHARED_PART_COST, SHARED_PARTS_BYTES};
use crate::protocol::Dialect;

/// What was read, by the bytes that it was read from.
#[derive(Default)]
pub(crate) struct Shelf {
    parts: HashMap<(Dialect, Kind, Key), Part>,
    bytes: usize,
    clock: u64,
}

/// What a part is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Tools,
    Standing,
    Entry,
}

struct Part {
    read: Rc<dyn Any>,
    used: u64,
}

impl Shelf {
    /// What was read from these bytes.
    pub(super) fn get<T: 'static>(
        &mut self,
        dialect: Dialect,
        kind: Kind,
        key: Key,
    ) -> Option<Rc<T>> {
        let part = self.parts.get_mut(&(dialect, kind, key))?;
        self.clock += 1;
        part.used = self.clock;
        part.read.clone().downcast().ok()
    }

    /// Keeps what was read from these bytes, in the place of what was used longest ago.
    pub(super) fn put<T: 'static>(&mut self, dialect: Dialect, kind: Kind, key: Key, read: Rc<T>) {
        let cost = cost(key);
        if cost > SHARED_PARTS_BYTES / 4 {
            return;
        }
        self.clock += 1;
        let part = Part { read, used: self.clock };
        if self.parts.insert((dialect, kind, key), part).is_none() {
            self.bytes += cost;
        }
        while self.bytes > SHARED_PARTS_BYTES {
            let oldest = self.parts.iter().min_by_key(|(_, part)| part.used);
            let Some(key) = oldest.map(|(key, _)| *key) else { break };
            self.parts.remove(&key);
            self.bytes = self.bytes.saturating_sub(cost_of(&key));
        }
    }

    /// About how much memory it all takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn cost_of((_, _, key): &(Dialect, Kind, Key)) -> usize {
    cost(*key)
}

/// About how much memory a part takes.
fn cost(key: Key) -> usize {
    (key.bytes as usize).saturating_mul(SHARED_PART_COST).saturating_add(256)
}
