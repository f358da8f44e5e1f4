//! The planner under chosen events; [`super::simulation`] has the random ones.

use super::*;

/// A plan that is told one event after the other.
struct Told {
    plan: Plan,
    now: Tick,
}

impl Told {
    fn new(policy: Policy, wanted: Vec<Wanted>) -> Self {
        Self { plan: Plan::new(policy, wanted).unwrap(), now: Tick(0) }
    }

    /// What is to be done, without wishes to be woken.
    fn step(&mut self, event: Event) -> Vec<Command> {
        let mut commands = self.plan.step(self.now, event);
        commands.retain(|command| !matches!(command, Command::Wake(_)));
        commands
    }

    /// Without news of groups too.
    fn slots(&mut self, event: Event) -> Vec<Command> {
        let mut commands = self.step(event);
        commands.retain(|command| !matches!(command, Command::Complete(_)));
        commands
    }

    fn at(&mut self, ms: u64, event: Event) -> Vec<Command> {
        self.now = Tick(ms);
        self.plan.step(self.now, event)
    }
}

fn slot(task: usize, attempt: u32) -> Slot {
    Slot { task, attempt }
}

fn tried(task: usize, attempt: u32, retry: u32) -> Try {
    Try { slot: slot(task, attempt), retry }
}

fn end(tried: Try, outcome: Outcome) -> Event {
    let reason = (outcome == Outcome::InfraFailed).then(|| "sandbox_create".to_owned());
    Event::Ended { tried, outcome, reason, tokens: 10 }
}

fn ended(task: usize, outcome: Outcome) -> Event {
    end(tried(task, 0, 0), outcome)
}

fn start(task: usize, retry: u32) -> Command {
    Command::Start(tried(task, 0, retry))
}

fn accept(task: usize) -> Command {
    Command::Accept(slot(task, 0))
}

fn policy(concurrency: usize, retries: u32, same_failures: u32) -> Policy {
    let backoff = Backoff { first_ms: 0, most_ms: 0 };
    Policy { concurrency, retries, same_failures, backoff, ..Policy::default() }
}

fn groups(tasks: usize, n: u32) -> Vec<Wanted> {
    vec![Wanted::group(n); tasks]
}

fn complete(task: usize, attempts: u32, settled: u32) -> Command {
    Command::Complete(Group { task, attempts, settled })
}

#[test]
fn attempts_start_in_order_up_to_the_concurrency() {
    let mut plan = Told::new(policy(2, 0, 9), groups(3, 1));
    assert_eq!(plan.slots(Event::Begin), [start(0, 0), start(1, 0)]);
    assert_eq!(plan.slots(ended(1, Outcome::Done)), [accept(1), start(2, 0)]);
    assert_eq!(plan.slots(ended(1, Outcome::Done)), [], "an end that is told twice counts once");
    assert_eq!(plan.slots(ended(0, Outcome::AgentFailed)), [accept(0)]);
    assert!(!plan.plan.done());
    assert_eq!(plan.slots(ended(2, Outcome::VerifierFailed)), [accept(2)]);
    assert!(plan.plan.done());
}

#[test]
fn only_infrastructure_failures_are_tried_again_and_only_so_often() {
    let mut plan = Told::new(policy(1, 2, 9), groups(1, 1));
    let retry = Command::Retry(slot(0, 0), Tick(0));
    plan.step(Event::Begin);
    let failed = |retry| end(tried(0, 0, retry), Outcome::InfraFailed);
    assert_eq!(plan.slots(failed(0)), [retry.clone(), start(0, 1)]);
    assert_eq!(plan.slots(failed(0)), [], "news of an earlier try");
    assert_eq!(plan.slots(failed(1)), [retry, start(0, 2)]);
    assert_eq!(plan.slots(failed(2)), [accept(0)]);
    assert!(plan.plan.done());
}

#[test]
fn a_retry_waits_longer_each_time_and_somebody_is_asked_to_come_back() {
    let backoff = Backoff { first_ms: 1_000, most_ms: 60_000 };
    let mut plan = Told::new(Policy { backoff, ..policy(4, 2, 99) }, groups(1, 1));
    plan.at(0, Event::Begin);
    let mut now = 5;
    for (retry, whole) in [(0, 1_000), (1, 2_000)] {
        let commands = plan.at(now, end(tried(0, 0, retry), Outcome::InfraFailed));
        let [Command::Retry(_, at), Command::Wake(wake)] = commands[..] else {
            panic!("{commands:?}")
        };
        assert_eq!(at, wake);
        assert!((now + whole / 2..=now + whole).contains(&at.0), "{at:?} after {now}");
        assert_eq!(plan.at(at.0 - 1, Event::Tick), [Command::Wake(at)], "too early: asked again");
        now = at.0;
        assert_eq!(plan.at(now, Event::Tick), [start(0, retry + 1)]);
    }
}

#[test]
fn starting_and_running_have_limits_of_their_own() {
    let mut plan = Told::new(Policy { starting: 2, ..policy(3, 0, 9) }, groups(9, 1));
    assert_eq!(plan.slots(Event::Begin), [start(0, 0), start(1, 0)]);
    assert_eq!(plan.slots(Event::Up(tried(0, 0, 0))), [start(2, 0)]);
    assert_eq!(plan.slots(Event::Up(tried(0, 0, 0))), [], "told twice");
    assert_eq!(plan.slots(Event::Up(tried(1, 0, 0))), [], "three run");
    assert_eq!(plan.slots(ended(2, Outcome::Done)), [accept(2), start(3, 0)]);
}

#[test]
fn what_a_sandbox_uses_must_fit_into_what_is_offered() {
    let room = |millicores, memory_mib| Room { millicores, memory_mib };
    let of = |demand| Wanted { demand, ..Wanted::group(1) };
    let offer = Policy { offer: room(4_000, 1_000), ..policy(9, 0, 9) };
    let small = of(room(1_000, 100));
    let wanted = vec![small.clone(), of(room(4_000, 100)), small.clone(), of(room(1, 800))];
    let mut plan = Told::new(offer.clone(), wanted);
    assert_eq!(plan.slots(Event::Begin), [start(0, 0), start(2, 0), start(3, 0)]);
    assert_eq!(plan.slots(ended(0, Outcome::Done)), [accept(0)]);
    assert_eq!(plan.slots(ended(3, Outcome::Done)), [accept(3)]);
    assert_eq!(plan.slots(ended(2, Outcome::Done)), [accept(2), start(1, 0)]);
    let unfit = Plan::new(offer, vec![small, of(room(4_001, 1))]).unwrap_err();
    assert_eq!(unfit.slot, slot(1, 0));
    assert!(unfit.to_string().contains("4.001 cores and 1 MiB"), "{unfit}");
}

#[test]
fn higher_priorities_go_first() {
    let of = |priority| Wanted { priority, ..Wanted::group(1) };
    let mut plan = Told::new(policy(1, 0, 9), vec![of(0), of(-1), of(7)]);
    assert_eq!(plan.slots(Event::Begin), [start(2, 0)]);
    assert_eq!(plan.slots(ended(2, Outcome::Done)), [accept(2), start(0, 0)]);
    assert_eq!(plan.slots(ended(0, Outcome::Done)), [accept(0), start(1, 0)]);
}

#[test]
fn a_group_is_told_once_all_of_it_is_over() {
    let mut plan = Told::new(policy(9, 0, 9), groups(1, 2));
    plan.step(Event::Begin);
    assert_eq!(plan.step(ended(0, Outcome::Done)), [accept(0)]);
    let failed = end(tried(0, 1, 0), Outcome::InfraFailed);
    let accepted = Command::Accept(slot(0, 1));
    assert_eq!(plan.step(failed), [accepted, complete(0, 2, 1)]);
}

#[test]
fn what_an_earlier_run_settled_is_not_made_again() {
    let settled = [0, 2].into();
    let some = Wanted { settled, ..Wanted::group(3) };
    let all = Wanted { settled: [0].into(), ..Wanted::group(1) };
    let mut plan = Told::new(policy(9, 0, 9), vec![all, some]);
    assert_eq!(plan.step(Event::Begin), [Command::Start(tried(1, 1, 0))]);
    let done = end(tried(1, 1, 0), Outcome::Done);
    assert_eq!(plan.step(done), [Command::Accept(slot(1, 1)), complete(1, 3, 3)]);
    assert!(plan.plan.done());
}

#[test]
fn one_attempt_or_a_group_can_be_cancelled() {
    let mut plan = Told::new(policy(2, 2, 9), groups(3, 2));
    plan.step(Event::Begin);
    let one = Event::Cancel(Scope::Attempt(slot(0, 1)));
    assert_eq!(plan.slots(one.clone()), [Command::Cancel(slot(0, 1), Why::Asked)]);
    assert_eq!(plan.slots(one), [], "told once");
    let failed = end(tried(0, 1, 0), Outcome::InfraFailed);
    let next = Command::Start(tried(1, 0, 0));
    assert_eq!(plan.slots(failed), [Command::Accept(slot(0, 1)), next], "and not made again");
    let group = plan.step(Event::Cancel(Scope::Group(1)));
    let forget = Command::Forget(slot(1, 1));
    assert_eq!(group, [Command::Cancel(slot(1, 0), Why::Asked), forget]);
    let cancelled = end(tried(1, 0, 0), Outcome::Cancelled);
    let next = Command::Start(tried(2, 0, 0));
    assert_eq!(plan.step(cancelled), [Command::Accept(slot(1, 0)), complete(1, 2, 0), next]);
    assert_eq!(plan.step(Event::Cancel(Scope::Attempt(slot(9, 9)))), []);
}

#[test]
fn a_try_that_overruns_its_deadline_is_cancelled_and_made_again() {
    let late = Wanted { deadline_ms: 100, ..Wanted::group(1) };
    let mut plan = Told::new(policy(1, 1, 9), vec![late]);
    assert_eq!(plan.at(0, Event::Begin), [start(0, 0), Command::Wake(Tick(100))]);
    assert_eq!(plan.at(100, Event::Tick), [Command::Cancel(slot(0, 0), Why::Late)]);
    let again = plan.at(130, ended(0, Outcome::InfraFailed));
    let retry = Command::Retry(slot(0, 0), Tick(130));
    assert_eq!(again, [retry, start(0, 1), Command::Wake(Tick(230))]);
}

#[test]
fn creations_are_paced() {
    let rate = Some(Rate { per_minute: 600, burst: 2 });
    let mut plan = Told::new(Policy { rate, ..policy(9, 0, 9) }, groups(5, 1));
    let commands = plan.at(0, Event::Begin);
    let [Command::Start(_), Command::Start(_), Command::Wake(at)] = commands[..] else {
        panic!("{commands:?}")
    };
    assert!((100..=125).contains(&at.0), "{at:?}");
    let commands = plan.at(at.0, Event::Tick);
    assert!(matches!(commands[..], [Command::Start(_), Command::Wake(_)]), "{commands:?}");
}

#[test]
fn used_up_budgets_stop_the_job_and_say_so() {
    let with = |budget| Policy { budget, ..policy(1, 0, 9) };
    let none = JobBudget::default();
    for (budget, what) in [
        (JobBudget { tries: Some(1), ..none }, "the attempts that"),
        (JobBudget { tokens: Some(10), ..none }, "the tokens that"),
    ] {
        let mut plan = Told::new(with(budget), groups(2, 1));
        let begun = plan.slots(Event::Begin);
        let commands = [begun, plan.slots(ended(0, Outcome::Done))].concat();
        let told = commands.iter().find_map(|command| match command {
            Command::Stop(why) => Some(why.clone()),
            _ => None,
        });
        assert!(told.as_ref().is_some_and(|why| why.starts_with(what)), "{commands:?}");
        assert!(plan.plan.done());
        assert_eq!(plan.plan.waiting(), 1);
    }
    let mut plan = Told::new(with(JobBudget { time_ms: Some(50), ..none }), groups(2, 1));
    plan.at(0, Event::Begin);
    let stop = Command::Stop("the job's time is used up".to_owned());
    assert_eq!(plan.at(50, Event::Tick), [stop, Command::Cancel(slot(0, 0), Why::Asked)]);
}

#[test]
fn a_job_that_is_held_starts_nothing_and_does_not_wait_for_ever() {
    let mut plan = Told::new(Policy { hold_ms: 1_000, ..policy(1, 0, 9) }, groups(3, 1));
    plan.at(0, Event::Begin);
    plan.at(10, Event::Hold("the disk is full".to_owned()));
    assert_eq!(plan.slots(ended(0, Outcome::Done)), [accept(0)]);
    plan.at(20, Event::Release);
    assert_eq!(plan.plan.running(), 1);
    plan.at(30, Event::Hold("the disk is full".to_owned()));
    let told = plan.at(40, ended(1, Outcome::Done));
    assert_eq!(told[2..], [Command::Wake(Tick(1_040))]);
    let stopped = plan.at(1_040, Event::Tick);
    let [Command::Stop(why)] = &stopped[..] else { panic!("{stopped:?}") };
    assert!(why.ends_with("the disk is full"), "{why}");
    assert!(plan.plan.done());
}

#[test]
fn a_drain_starts_nothing_and_an_abort_cancels_once() {
    let mut plan = Told::new(policy(2, 2, 9), groups(4, 1));
    plan.step(Event::Begin);
    assert_eq!(plan.slots(Event::Drain), []);
    assert_eq!(plan.slots(ended(0, Outcome::InfraFailed)), [accept(0)]);
    assert_eq!(plan.slots(Event::Abort), [Command::Cancel(slot(1, 0), Why::Asked)]);
    assert_eq!(plan.slots(Event::Abort), []);
    assert!(!plan.plan.done());
    assert_eq!(plan.slots(ended(1, Outcome::Cancelled)), [accept(1)]);
    assert!(plan.plan.done());
    assert_eq!(plan.plan.waiting(), 2);
}

#[test]
fn the_same_failure_in_a_row_stops_the_job_and_says_why() {
    let mut plan = Told::new(policy(1, 0, 2), groups(9, 1));
    plan.step(Event::Begin);
    plan.step(ended(0, Outcome::InfraFailed));
    let done = plan.slots(ended(1, Outcome::Done));
    assert_eq!(done, [accept(1), start(2, 0)], "a success resets");
    plan.step(ended(2, Outcome::InfraFailed));
    let reason = Some("session".to_owned());
    let outcome = Outcome::InfraFailed;
    plan.step(Event::Ended { tried: tried(3, 0, 0), outcome, reason, tokens: 0 });
    plan.step(ended(4, Outcome::InfraFailed));
    let commands = plan.slots(ended(5, Outcome::InfraFailed));
    let why = "2 attempts in a row failed the same way (sandbox_create)".to_owned();
    assert_eq!(commands, [Command::Stop(why), accept(5)]);
    assert!(plan.plan.done());
    assert_eq!(plan.plan.waiting(), 3);
}

#[test]
fn a_slot_between_two_tries_is_accepted_when_the_job_stops() {
    let mut plan = Told::new(policy(1, 2, 9), groups(2, 1));
    plan.step(Event::Begin);
    let commands = plan.slots(ended(0, Outcome::InfraFailed));
    assert_eq!(commands, [Command::Retry(slot(0, 0), Tick(0)), start(1, 0)]);
    assert_eq!(plan.slots(Event::Drain), [accept(0)]);
}
