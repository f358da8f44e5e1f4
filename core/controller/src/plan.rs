//! The planner: (state, event) -> commands. All policy of a job lives here.
//!
//! Pure: no clock, no I/O. Each slot is started at most `1 + retries` times and accepted at most
//! once; a slot that was started is always accepted in the end. Slots that were never started when
//! the job stopped are [`Plan::waiting`].

use std::collections::{BTreeMap, VecDeque};

use crate::outcome::Outcome;

/// An attempt to be made: which task of the list, and which attempt of its group, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot {
    /// Index into the job's tasks.
    pub task: usize,
    /// Which attempt of the task's group.
    pub attempt: u32,
}

/// A slot being tried.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Try {
    /// Which slot.
    pub slot: Slot,
    /// How often it was tried before.
    pub retry: u32,
}

/// The numbers of the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Attempts that run at once. At least 1.
    pub concurrency: usize,
    /// How often an attempt that failed for reasons outside it is made again.
    pub retries: u32,
    /// The job stops after this many such failures in a row for the same reason. At least 1.
    pub same_failures: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self { concurrency: 64, retries: 2, same_failures: 12 }
    }
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The job began.
    Begin,
    /// A try that was started ended.
    Ended {
        /// Which slot.
        slot: Slot,
        /// How.
        outcome: Outcome,
        /// Code of the reason, where there is one.
        reason: Option<String>,
    },
    /// Start nothing more; let what runs end.
    Drain,
    /// Start nothing more; cancel what runs.
    Abort,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Make this attempt.
    Start(Try),
    /// The slot's last try is not the end of it: another follows.
    Retry(Slot),
    /// The slot's last try is its result.
    Accept(Slot),
    /// Cancel the running try; its `Ended` still follows.
    Cancel(Slot),
    /// The job stops by itself, for this reason. Told once.
    Stop(String),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Running,
    Draining,
    Aborting,
}

/// The state of a job.
#[derive(Debug)]
pub struct Plan {
    policy: Policy,
    phase: Phase,
    waiting: VecDeque<Try>,
    running: BTreeMap<Slot, u32>,
    last_failure: Option<String>,
    failures_in_a_row: u32,
}

impl Plan {
    /// A plan for these slots, in this order.
    pub fn new(policy: Policy, slots: impl IntoIterator<Item = Slot>) -> Self {
        let waiting = slots.into_iter().map(|slot| Try { slot, retry: 0 }).collect();
        Self {
            policy,
            phase: Phase::Running,
            waiting,
            running: BTreeMap::new(),
            last_failure: None,
            failures_in_a_row: 0,
        }
    }

    /// Takes an event in. An `Ended` of a slot that is not running is ignored.
    pub fn step(&mut self, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Begin => {}
            Event::Ended { slot, outcome, reason } => {
                let Some(retry) = self.running.remove(&slot) else { return commands };
                commands.extend(self.break_circuit(outcome, reason));
                commands.push(self.settle(Try { slot, retry }, outcome));
            }
            Event::Drain => self.enter(Phase::Draining),
            Event::Abort => {
                if self.phase < Phase::Aborting {
                    commands.extend(self.running.keys().copied().map(Command::Cancel));
                }
                self.enter(Phase::Aborting);
            }
        }
        self.fill(&mut commands);
        commands
    }

    /// Whether nothing runs and nothing will be started.
    pub fn done(&self) -> bool {
        self.running.is_empty() && (self.waiting.is_empty() || self.phase > Phase::Running)
    }

    /// Slots that run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Slots that wait for their first or next try.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = self.phase.max(phase);
    }

    fn settle(&mut self, tried: Try, outcome: Outcome) -> Command {
        let again = outcome == Outcome::InfraFailed
            && self.phase == Phase::Running
            && tried.retry < self.policy.retries;
        if again {
            self.waiting.push_back(Try { slot: tried.slot, retry: tried.retry + 1 });
            Command::Retry(tried.slot)
        } else {
            Command::Accept(tried.slot)
        }
    }

    fn break_circuit(&mut self, outcome: Outcome, reason: Option<String>) -> Option<Command> {
        match outcome {
            Outcome::Cancelled => return None,
            Outcome::InfraFailed => {}
            _ => {
                self.failures_in_a_row = 0;
                return None;
            }
        }
        let same = self.failures_in_a_row > 0 && self.last_failure == reason;
        self.failures_in_a_row = if same { self.failures_in_a_row + 1 } else { 1 };
        self.last_failure = reason;
        let tripped = self.failures_in_a_row >= self.policy.same_failures.max(1);
        if !tripped || self.phase > Phase::Running {
            return None;
        }
        self.enter(Phase::Draining);
        let (count, reason) = (self.failures_in_a_row, self.last_failure.as_deref());
        let reason = reason.unwrap_or("no reason given");
        Some(Command::Stop(format!("{count} attempts in a row failed the same way ({reason})")))
    }

    fn fill(&mut self, commands: &mut Vec<Command>) {
        if self.phase > Phase::Running {
            self.drop_retries(commands);
            return;
        }
        while self.running.len() < self.policy.concurrency.max(1) {
            let Some(next) = self.waiting.pop_front() else { return };
            self.running.insert(next.slot, next.retry);
            commands.push(Command::Start(next));
        }
    }

    /// A slot that waits for its next try when the job stops ends as its last try did.
    fn drop_retries(&mut self, commands: &mut Vec<Command>) {
        let (tried, fresh) = self.waiting.drain(..).partition(|waiting| waiting.retry > 0);
        self.waiting = fresh;
        let tried: VecDeque<Try> = tried;
        commands.extend(tried.into_iter().map(|tried| Command::Accept(tried.slot)));
    }
}

#[cfg(test)]
mod tests;
