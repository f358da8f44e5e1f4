//! A body as it comes in, compared with what was seen before.
//!
//! A layout has checkpoints: places at which one hash of all bytes up to there was taken. The bytes
//! of a body go through the same hash, and wherever it agrees, all before that place is known and need
//! not be kept. Bytes behind the last such place are kept until the next one is reached.

use std::any::Any;
use std::rc::Rc;

use super::hash::Running;

/// A place in a body, behind the list's opening bracket or one of its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Checkpoint {
    /// Bytes before it.
    pub(super) at: usize,
    /// Entries before it.
    pub(super) entries: usize,
    /// The hash of the bytes before it.
    pub(super) hash: u128,
    pub(super) lines: Lines,
}

/// Lines of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Lines {
    /// Ends of lines.
    pub(super) ends: usize,
    /// Bytes behind the last of them.
    pub(super) column: usize,
}

impl Lines {
    /// With this text behind it.
    pub(super) fn with(self, text: &[u8]) -> Self {
        match memchr::memrchr(b'\n', text) {
            None => Self { column: self.column + text.len(), ..self },
            Some(last) => Self {
                ends: self.ends + memchr::memchr_iter(b'\n', text).count(),
                column: text.len() - last - 1,
            },
        }
    }
}

/// A layout that a body may follow.
pub(crate) struct Candidate {
    pub(super) checkpoints: Rc<[Checkpoint]>,
    pub(super) layout: Rc<dyn Any>,
}

/// What is known of the beginning of a body.
pub(super) struct Base {
    /// Whose beginning it is.
    pub(super) layout: Rc<dyn Any>,
    /// Up to which of its checkpoints.
    pub(super) checkpoint: usize,
    /// The hash there.
    pub(super) running: Running,
}

/// Compares a body with candidates.
pub(super) struct Watch {
    /// Those that may still be followed, with their next checkpoints.
    open: Vec<(Candidate, usize)>,
    /// Bytes that are known and gone.
    passed: usize,
    running: Running,
    /// Bytes behind them that were hashed.
    hashed: usize,
    base: Option<Base>,
}

impl Watch {
    /// `total`: the length of the body, where it is known.
    pub(super) fn new(candidates: Vec<Candidate>, running: Running, total: Option<usize>) -> Self {
        let fits = |candidate: &Candidate| {
            let first = candidate.checkpoints.first();
            first.is_some_and(|first| total.is_none_or(|total| first.at <= total))
        };
        let open = candidates.into_iter().filter(fits).map(|candidate| (candidate, 0)).collect();
        Self { open, passed: 0, running, hashed: 0, base: None }
    }

    /// Most bytes that may turn out to be known.
    pub(super) fn longest(&self) -> usize {
        let ends = self.open.iter().filter_map(|(candidate, _)| candidate.checkpoints.last());
        ends.map(|end| end.at).max().unwrap_or_default()
    }

    /// Whether more of the body may turn out to be known.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The bytes behind those that are gone, as far as they are here: how many of them are known.
    pub(super) fn look(&mut self, window: &[u8]) -> usize {
        let mut known = 0;
        while let Some(target) = self.open.iter().map(|(one, next)| one.checkpoints[*next].at).min()
        {
            let end = target - self.passed;
            let here = end.min(window.len() - known);
            self.running.add(&window[known + self.hashed..known + here]);
            self.hashed = here;
            if here < end {
                break;
            }
            if self.check(target) {
                known += end;
                self.passed = target;
                self.hashed = 0;
            }
        }
        known
    }

    /// Compares the hash at this place; whether the bytes before it are known.
    fn check(&mut self, target: usize) -> bool {
        let hash = self.running.hash();
        let mut matched = None;
        self.open.retain_mut(|(candidate, next)| {
            let checkpoint = candidate.checkpoints[*next];
            if checkpoint.at != target {
                return true;
            }
            if checkpoint.hash != hash {
                return false;
            }
            if matched.is_none() {
                matched = Some((candidate.layout.clone(), *next));
            }
            *next += 1;
            *next < candidate.checkpoints.len()
        });
        let Some((layout, checkpoint)) = matched else { return false };
        self.base = Some(Base { layout, checkpoint, running: self.running.clone() });
        true
    }

    /// What is known of the beginning.
    pub(super) fn into_base(self) -> Option<Base> {
        self.base
    }
}
