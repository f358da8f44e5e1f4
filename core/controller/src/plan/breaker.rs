//! The circuit breaker: attempts that keep failing the same way stop the job.

use std::collections::BTreeSet;

use crate::outcome::Outcome;

/// Failures from outside in a row, for the same reason.
#[derive(Clone, Debug, Default)]
pub(super) struct Breaker {
    reason: Option<String>,
    count: u32,
    tasks: BTreeSet<usize>,
}

impl Breaker {
    /// Takes an end in. What to say when it is one too many: `most` of them, of at least two tasks
    /// where the job has `several`. One bad task must not stop the others.
    pub(super) fn ended(
        &mut self,
        task: usize,
        (outcome, reason): (Outcome, Option<String>),
        most: u32,
        several: bool,
    ) -> Option<String> {
        match outcome {
            Outcome::Cancelled => return None,
            Outcome::InfraFailed => {}
            _ => {
                *self = Self::default();
                return None;
            }
        }
        if self.count == 0 || self.reason != reason {
            *self = Self { reason, ..Self::default() };
        }
        self.count = self.count.saturating_add(1);
        self.tasks.insert(task);
        let enough = self.count >= most.max(1) && (self.tasks.len() > 1 || !several);
        enough.then(|| {
            let reason = self.reason.as_deref().unwrap_or("no reason given");
            format!("{} attempts in a row failed the same way ({reason})", self.count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(breaker: &mut Breaker, task: usize, reason: &str) -> bool {
        let end = (Outcome::InfraFailed, Some(reason.to_owned()));
        breaker.ended(task, end, 3, true).is_some()
    }

    #[test]
    fn only_equal_reasons_in_a_row_of_several_tasks_count() {
        let mut breaker = Breaker::default();
        assert!(!failed(&mut breaker, 0, "a") && !failed(&mut breaker, 1, "a"));
        assert!(!failed(&mut breaker, 1, "b"), "another reason begins anew");
        assert!(!failed(&mut breaker, 1, "b") && !failed(&mut breaker, 1, "b"), "one task only");
        assert!(breaker.ended(2, (Outcome::Cancelled, None), 3, true).is_none());
        assert!(failed(&mut breaker, 2, "b"));
        assert!(breaker.ended(2, (Outcome::AgentFailed, None), 3, true).is_none());
        assert!(!failed(&mut breaker, 0, "b"), "an end of its own resets");
    }
}
