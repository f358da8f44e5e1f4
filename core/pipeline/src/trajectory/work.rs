//! What one request costs where it is matched: counted, and bounded.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use crate::id::TurnIndex;
use crate::limits::WALK_COMPARISONS;

/// The purses of one request, and what they were spent on.
#[derive(Debug, Default)]
pub(super) struct Work {
    stands: Cell<usize>,
    comparisons: Cell<usize>,
    spent: Cell<Spent>,
    /// By message and turn: whether the template writes the one as the other.
    reads: RefCell<HashMap<(usize, TurnIndex), bool>>,
}

/// What was done for one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Spent {
    /// Messages that were read to take over records.
    pub(super) threaded: usize,
    /// Places that the walk stood in.
    pub(super) stands: usize,
    /// Texts that were compared.
    pub(super) comparisons: usize,
    /// Messages that were rendered.
    pub(super) reads: usize,
    /// Messages whose differences were counted.
    pub(super) pairs: usize,
}

impl Work {
    /// For a request of so many elements. The straight way costs as many stands.
    pub(super) fn new(elements: usize) -> Self {
        Self {
            stands: Cell::new(elements + WALK_COMPARISONS),
            comparisons: Cell::new(WALK_COMPARISONS),
            ..Self::default()
        }
    }

    /// Pays for a place; false where nothing is left.
    pub(super) fn stand(&self) -> bool {
        let paid = pay(&self.stands);
        self.count(|spent| spent.stands += usize::from(paid));
        paid
    }

    /// Pays for the comparison of two texts; false where nothing is left.
    pub(super) fn compare(&self) -> bool {
        let paid = pay(&self.comparisons);
        self.count(|spent| spent.comparisons += usize::from(paid));
        paid
    }

    /// Whether a message reads as what a turn sampled; false where nothing is left to find out.
    pub(super) fn read(&self, message: usize, turn: TurnIndex, reads: impl Fn() -> bool) -> bool {
        let known = self.reads.borrow().get(&(message, turn)).copied();
        known.unwrap_or_else(|| {
            if !pay(&self.comparisons) {
                return false;
            }
            self.count(|spent| spent.reads += 1);
            let reads = reads();
            self.reads.borrow_mut().insert((message, turn), reads);
            reads
        })
    }

    /// Notes that so many messages were read to take over records.
    pub(super) fn threaded(&self, messages: usize) {
        self.count(|spent| spent.threaded += messages);
    }

    /// Notes that the differences of a message are counted. That is bounded by the request.
    pub(super) fn pair(&self) {
        self.count(|spent| spent.pairs += 1);
    }

    #[cfg(test)]
    pub(super) fn spent(&self) -> Spent {
        self.spent.get()
    }

    fn count(&self, add: impl Fn(&mut Spent)) {
        let mut spent = self.spent.get();
        add(&mut spent);
        self.spent.set(spent);
    }
}

fn pay(purse: &Cell<usize>) -> bool {
    let left = purse.get();
    purse.set(left.saturating_sub(1));
    left > 0
}
