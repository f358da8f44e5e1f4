//! The planner under chosen and random events.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn slots(tasks: usize, n: u32) -> Vec<Slot> {
    (0..tasks).flat_map(|task| (0..n).map(move |attempt| Slot { task, attempt })).collect()
}

fn ended(task: usize, outcome: Outcome) -> Event {
    let reason = (outcome == Outcome::InfraFailed).then(|| "sandbox_create".to_owned());
    Event::Ended { slot: Slot { task, attempt: 0 }, outcome, reason }
}

fn start(task: usize, retry: u32) -> Command {
    Command::Start(Try { slot: Slot { task, attempt: 0 }, retry })
}

fn accept(task: usize) -> Command {
    Command::Accept(Slot { task, attempt: 0 })
}

fn policy(concurrency: usize, retries: u32, same_failures: u32) -> Policy {
    Policy { concurrency, retries, same_failures }
}

#[test]
fn attempts_start_in_order_up_to_the_concurrency() {
    let mut plan = Plan::new(policy(2, 0, 9), slots(3, 1));
    assert_eq!(plan.step(Event::Begin), [start(0, 0), start(1, 0)]);
    assert_eq!(plan.step(ended(1, Outcome::Done)), [accept(1), start(2, 0)]);
    assert_eq!(plan.step(ended(1, Outcome::Done)), [], "an end that is told twice counts once");
    assert_eq!(plan.step(ended(0, Outcome::AgentFailed)), [accept(0)]);
    assert!(!plan.done());
    assert_eq!(plan.step(ended(2, Outcome::VerifierFailed)), [accept(2)]);
    assert!(plan.done());
}

#[test]
fn only_infrastructure_failures_are_tried_again_and_only_so_often() {
    let mut plan = Plan::new(policy(1, 2, 9), slots(1, 1));
    let retry = Command::Retry(Slot { task: 0, attempt: 0 });
    plan.step(Event::Begin);
    assert_eq!(plan.step(ended(0, Outcome::InfraFailed)), [retry.clone(), start(0, 1)]);
    assert_eq!(plan.step(ended(0, Outcome::InfraFailed)), [retry, start(0, 2)]);
    assert_eq!(plan.step(ended(0, Outcome::InfraFailed)), [accept(0)]);
    assert!(plan.done());
}

#[test]
fn a_drain_starts_nothing_and_an_abort_cancels_once() {
    let mut plan = Plan::new(policy(2, 2, 9), slots(4, 1));
    plan.step(Event::Begin);
    assert_eq!(plan.step(Event::Drain), []);
    assert_eq!(plan.step(ended(0, Outcome::InfraFailed)), [accept(0)]);
    let cancel = Command::Cancel(Slot { task: 1, attempt: 0 });
    assert_eq!(plan.step(Event::Abort), [cancel]);
    assert_eq!(plan.step(Event::Abort), []);
    assert!(!plan.done());
    assert_eq!(plan.step(ended(1, Outcome::Cancelled)), [accept(1)]);
    assert!(plan.done());
    assert_eq!(plan.waiting(), 2);
}

#[test]
fn the_same_failure_in_a_row_stops_the_job_and_says_why() {
    let mut plan = Plan::new(policy(1, 0, 2), slots(9, 1));
    plan.step(Event::Begin);
    plan.step(ended(0, Outcome::InfraFailed));
    assert_eq!(plan.step(ended(1, Outcome::Done)), [accept(1), start(2, 0)], "a success resets");
    plan.step(ended(2, Outcome::InfraFailed));
    let other = Some("session".to_owned());
    let slot = Slot { task: 3, attempt: 0 };
    plan.step(Event::Ended { slot, outcome: Outcome::InfraFailed, reason: other });
    plan.step(ended(4, Outcome::InfraFailed));
    let commands = plan.step(ended(5, Outcome::InfraFailed));
    let why = "2 attempts in a row failed the same way (sandbox_create)".to_owned();
    assert_eq!(commands, [Command::Stop(why), accept(5)]);
    assert!(plan.done());
    assert_eq!(plan.waiting(), 3);
}

#[test]
fn a_slot_between_two_tries_is_accepted_when_the_job_stops() {
    let mut plan = Plan::new(policy(1, 2, 9), slots(2, 1));
    plan.step(Event::Begin);
    let commands = plan.step(ended(0, Outcome::InfraFailed));
    assert_eq!(commands, [Command::Retry(Slot { task: 0, attempt: 0 }), start(1, 0)]);
    assert_eq!(plan.step(Event::Drain), [accept(0)]);
}

/// What a run of random events did to each slot.
#[derive(Default)]
struct Tally {
    starts: BTreeMap<Slot, u32>,
    accepts: BTreeMap<Slot, u32>,
    running: Vec<Slot>,
    stops: u32,
}

impl Tally {
    fn take(&mut self, commands: Vec<Command>, policy: Policy) {
        for command in commands {
            match command {
                Command::Start(tried) => {
                    *self.starts.entry(tried.slot).or_default() += 1;
                    assert_eq!(self.starts[&tried.slot], tried.retry + 1);
                    assert!(tried.retry <= policy.retries);
                    assert!(!self.running.contains(&tried.slot), "started twice at once");
                    assert!(!self.accepts.contains_key(&tried.slot), "started after its end");
                    self.running.push(tried.slot);
                }
                Command::Accept(slot) => *self.accepts.entry(slot).or_default() += 1,
                Command::Cancel(slot) => assert!(self.running.contains(&slot)),
                Command::Retry(slot) => assert!(!self.accepts.contains_key(&slot)),
                Command::Stop(_) => self.stops += 1,
            }
        }
        assert!(self.running.len() <= policy.concurrency);
    }
}

proptest! {
    #[test]
    fn no_attempt_is_lost_or_counted_twice(
        tasks in 0_usize..8,
        n in 1_u32..4,
        concurrency in 1_usize..6,
        retries in 0_u32..3,
        same_failures in 1_u32..12,
        script in prop::collection::vec((0_u8..100, any::<prop::sample::Index>()), 0..200),
    ) {
        let policy = policy(concurrency, retries, same_failures);
        let mut plan = Plan::new(policy, slots(tasks, n));
        let mut tally = Tally::default();
        tally.take(plan.step(Event::Begin), policy);
        for (dice, which) in script {
            let event = match dice {
                0 => Event::Drain,
                1 => Event::Abort,
                2 => ended(which.index(9), Outcome::Done),
                _ if tally.running.is_empty() => break,
                _ => {
                    let slot = tally.running[which.index(tally.running.len())];
                    let outcome = if dice < 50 { Outcome::InfraFailed } else { Outcome::Done };
                    let reason = (dice % 2 == 0).then(|| "a".to_owned());
                    Event::Ended { slot, outcome, reason }
                }
            };
            if let Event::Ended { slot, .. } = &event {
                tally.running.retain(|running| running != slot);
            }
            tally.take(plan.step(event), policy);
        }
        while let Some(slot) = tally.running.pop() {
            let event = Event::Ended { slot, outcome: Outcome::Done, reason: None };
            tally.take(plan.step(event), policy);
        }
        prop_assert!(plan.done());
        prop_assert!(tally.stops <= 1);
        prop_assert!(tally.accepts.values().all(|count| *count == 1));
        prop_assert_eq!(tally.starts.len(), tally.accepts.len());
        prop_assert_eq!(tally.starts.len() + plan.waiting(), tasks * n as usize);
    }
}
