//! Waiting in turn, fair over sessions: each session that waits has one call let through before any
//! has its second.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Calls that wait, by the one they belong to.
pub(crate) struct FairQueue<K, T> {
    /// Who waits, in the order of their turns.
    turns: VecDeque<K>,
    /// What each has waiting, oldest first; never empty.
    waiting: HashMap<K, VecDeque<(u64, T)>>,
    len: usize,
    next: u64,
}

impl<K: Copy + Eq + Hash, T> FairQueue<K, T> {
    pub(crate) fn new() -> Self {
        Self { turns: VecDeque::new(), waiting: HashMap::new(), len: 0, next: 0 }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Waits from now on; the number is for leaving.
    pub(crate) fn push(&mut self, key: K, item: T) -> u64 {
        let ticket = self.next;
        self.next += 1;
        let waiting = self.waiting.entry(key).or_default();
        if waiting.is_empty() {
            self.turns.push_back(key);
        }
        waiting.push_back((ticket, item));
        self.len += 1;
        ticket
    }

    /// Whose turn is next.
    pub(crate) fn next(&self) -> Option<K> {
        self.turns.front().copied()
    }

    /// Lets the next one through; whoever it belongs to goes behind all others.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let key = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&key)?;
        let (_, item) = waiting.pop_front()?;
        self.len -= 1;
        if waiting.is_empty() {
            self.waiting.remove(&key);
        } else {
            self.turns.push_back(key);
        }
        Some(item)
    }

    /// Waits no more.
    pub(crate) fn leave(&mut self, key: K, ticket: u64) {
        let Some(waiting) = self.waiting.get_mut(&key) else { return };
        let before = waiting.len();
        waiting.retain(|(other, _)| *other != ticket);
        self.len -= before - waiting.len();
        if waiting.is_empty() {
            self.waiting.remove(&key);
            self.turns.retain(|other| *other != key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_take_turns_and_their_calls_keep_their_order() {
        let mut queue = FairQueue::new();
        for item in ["a1", "a2", "a3"] {
            queue.push('a', item);
        }
        queue.push('b', "b1");
        queue.push('c', "c1");
        queue.push('b', "b2");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert_eq!((queue.len(), queue.next()), (0, None));
    }

    #[test]
    fn who_leaves_is_passed_over() {
        let mut queue = FairQueue::new();
        let first = queue.push(1, "x");
        let second = queue.push(1, "y");
        let other = queue.push(2, "z");
        queue.leave(1, first);
        queue.leave(1, first);
        queue.leave(2, other);
        assert_eq!((queue.len(), queue.next()), (1, Some(1)));
        queue.leave(1, second);
        assert_eq!((queue.len(), queue.pop()), (0, None));
        assert!(queue.turns.is_empty() && queue.waiting.is_empty(), "nothing is left behind");
    }

    /// A session with many calls delays another one's call by one at a time.
    #[test]
    fn a_crowd_of_one_session_holds_nobody_up() {
        let mut queue = FairQueue::new();
        for n in 0..100 {
            queue.push(0, n);
        }
        queue.push(1, 1_000);
        queue.pop();
        assert_eq!(queue.pop(), Some(1_000));
    }
}
