//! What waits: in order, for room, or for its time.

use std::collections::BTreeSet;

use super::{Room, Tick};

/// How many that fit may be looked for behind one that does not.
const LOOK_AHEAD: usize = 64;
/// How often one that does not fit lets others pass before it keeps them waiting.
const PASSED_MOST: u32 = 32;

/// Place in the queue: higher priorities first, then first come, first served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    lowness: i64,
    number: u64,
    item: usize,
}

/// Items by their index.
#[derive(Debug, Default)]
pub(super) struct Queue {
    ready: BTreeSet<Key>,
    later: BTreeSet<(Tick, Key)>,
    /// Where each item is, by its index.
    places: Vec<Option<(Option<Tick>, Key)>>,
    numbers: u64,
    /// The item that does not fit and was passed last, and how often.
    passed: (Option<usize>, u32),
}

impl Queue {
    /// Puts an item behind all of its priority, to be taken from `at` on.
    pub(super) fn push(&mut self, item: usize, priority: i32, at: Option<Tick>) {
        self.numbers += 1;
        let key = Key { lowness: -i64::from(priority), number: self.numbers, item };
        self.put(at, key);
    }

    fn put(&mut self, at: Option<Tick>, key: Key) {
        match at {
            Some(at) => self.later.insert((at, key)),
            None => self.ready.insert(key),
        };
        if self.places.len() <= key.item {
            self.places.resize(key.item + 1, None);
        }
        self.places[key.item] = Some((at, key));
    }

    /// Moves on what has become due.
    pub(super) fn wake(&mut self, now: Tick) {
        while let Some((_, key)) = self.later.first().copied().filter(|(at, _)| *at <= now) {
            self.later.pop_first();
            self.put(None, key);
        }
    }

    /// When the next one becomes due.
    pub(super) fn next(&self) -> Option<Tick> {
        self.later.first().map(|(at, _)| *at)
    }

    /// The first that fits. One that does not fit lets smaller ones pass, but not for ever: then all
    /// wait until it has its room.
    pub(super) fn find(&mut self, left: Room, demand: impl Fn(usize) -> Room) -> Option<usize> {
        let first = self.ready.first()?.item;
        if left.holds(demand(first)) {
            return Some(first);
        }
        if self.passed.0 != Some(first) {
            self.passed = (Some(first), 0);
        }
        if self.passed.1 >= PASSED_MOST {
            return None;
        }
        let fits = |key: &&Key| left.holds(demand(key.item));
        self.ready.iter().take(LOOK_AHEAD).find(fits).map(|key| key.item)
    }

    /// Takes out what [`find`](Self::find) found.
    pub(super) fn take(&mut self, item: usize) {
        if self.ready.first().is_some_and(|first| first.item != item) {
            self.passed.1 += 1;
        }
        self.remove(item);
    }

    /// Takes an item out, wherever it is.
    pub(super) fn remove(&mut self, item: usize) {
        match self.places.get_mut(item).and_then(Option::take) {
            Some((Some(at), key)) => self.later.remove(&(at, key)),
            Some((None, key)) => self.ready.remove(&key),
            None => false,
        };
    }

    /// Whether something could be started if there was room.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.later.len()
    }

    /// Every item, in order; those that wait for their time last.
    pub(super) fn items(&self) -> Vec<usize> {
        let ready = self.ready.iter().map(|key| key.item);
        ready.chain(self.later.iter().map(|(_, key)| key.item)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Room = Room { millicores: 2, memory_mib: 9 };

    fn sizes(item: usize) -> Room {
        let millicores = if item == 0 { 4 } else { 1 };
        Room { millicores, memory_mib: 1 }
    }

    #[test]
    fn priorities_then_order_then_time() {
        let mut queue = Queue::default();
        queue.push(1, 0, None);
        queue.push(2, 0, None);
        queue.push(3, 5, None);
        queue.push(4, 9, Some(Tick(10)));
        assert_eq!((queue.next(), queue.len()), (Some(Tick(10)), 4));
        let mut order = Vec::new();
        for now in [0, 9, 10, 11] {
            queue.wake(Tick(now));
            let item = queue.find(LEFT, sizes).unwrap();
            queue.take(item);
            order.push(item);
        }
        assert_eq!(order, [3, 1, 4, 2]);
        assert!(!queue.has_ready());
    }

    #[test]
    fn a_large_one_lets_small_ones_pass_but_not_for_ever() {
        let mut queue = Queue::default();
        (0..200).for_each(|item| queue.push(item, 0, None));
        let mut passed = 0;
        while let Some(item) = queue.find(LEFT, sizes) {
            assert_ne!(item, 0);
            queue.take(item);
            passed += 1;
        }
        assert_eq!(passed, PASSED_MOST);
        assert_eq!(queue.find(Room::ENDLESS, sizes), Some(0));
    }
}
