//! The planner: (state, time, event) -> commands. All policy of a job lives here.
//!
//! Pure: no clock, no I/O, no randomness but what a seed gives. Time comes in with each event, and
//! [`Command::Wake`] asks for a [`Event::Tick`] when time alone would change something.
//!
//! A slot is started at most `1 + retries` times and accepted at most once; a slot that was started is
//! always accepted in the end. What ends frees its place for the next one at once, of whatever group.
//! Slots that were never started when the job stopped are [`Plan::waiting`]: a later run makes them.

mod breaker;
mod bucket;
mod chance;
mod planted;
mod policy;
mod queue;
mod time;

use std::collections::BTreeSet;

use crate::outcome::Outcome;
use breaker::Breaker;
use bucket::Bucket;
use chance::Chance;
use planted::{Bug, Planted};
use queue::Queue;

pub use policy::{Backoff, JobBudget, Policy, Rate, Room, Tick, Unfit, Wanted};

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

/// What happened. Whatever is told of a try that is not under way is ignored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The job began.
    Begin,
    /// Time went on.
    Tick,
    /// A try has its sandbox: it is no longer starting.
    Up(Try),
    /// A try that was started ended.
    Ended {
        /// Which try.
        tried: Try,
        /// How.
        outcome: Outcome,
        /// Code of the reason, where there is one.
        reason: Option<String>,
        /// Ids that were sampled in it.
        tokens: u64,
    },
    /// These are not wanted any more.
    Cancel(Scope),
    /// Start nothing, for this reason, until it is over.
    Hold(String),
    /// The reason to hold is over.
    Release,
    /// Start nothing more; let what runs end.
    Drain,
    /// Start nothing more; cancel what runs.
    Abort,
}

/// What is cancelled. A whole job is [`Event::Abort`]ed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// One attempt.
    Attempt(Slot),
    /// Every attempt of this task.
    Group(usize),
}

/// Why a running try is cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Somebody wants it to end: it ends as cancelled.
    Asked,
    /// It overran its deadline, which no attempt does by itself: it ends as a failure from outside.
    Late,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Make this attempt.
    Start(Try),
    /// The slot's last try is not the end of it: another follows, not before this time.
    Retry(Slot, Tick),
    /// The slot's last try is its result.
    Accept(Slot),
    /// The slot was cancelled before its first try: it will not be made.
    Forget(Slot),
    /// Cancel the running try; its `Ended` still follows.
    Cancel(Slot, Why),
    /// Nothing of this group is to come any more. Told once, unless an earlier run settled all of it.
    Complete(Group),
    /// Come back with a tick at this time; takes the place of an earlier wish.
    Wake(Tick),
    /// The job stops by itself, for this reason. Told once.
    Stop(String),
}

/// A group that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Index into the job's tasks.
    pub task: usize,
    /// Attempts it has.
    pub attempts: u32,
    /// Of them, those with a result that lasts. Where it is fewer than `attempts`, a later run makes
    /// the others.
    pub settled: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Running,
    Draining,
    Aborting,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waiting,
    Starting,
    Running,
    Over,
}

/// One slot.
#[derive(Debug)]
struct Item {
    slot: Slot,
    state: State,
    /// Tries that were started.
    tries: u32,
    /// Cancelled because somebody asked for it.
    cancelled: bool,
    /// When the try under way is late.
    late_at: Tick,
}

#[derive(Debug)]
struct GroupState {
    /// Index of its first item.
    first: usize,
    attempts: u32,
    /// Slots that are not over.
    open: u32,
    settled: u32,
    priority: i32,
    demand: Room,
    deadline_ms: u64,
}

/// The state of a job.
#[derive(Debug)]
pub struct Plan {
    policy: Policy,
    phase: Phase,
    now: Tick,
    items: Vec<Item>,
    groups: Vec<GroupState>,
    queue: Queue,
    running: usize,
    starting: usize,
    used: Room,
    tries: u64,
    tokens: u64,
    late: BTreeSet<(Tick, usize)>,
    bucket: Option<Bucket>,
    chance: Chance,
    breaker: Breaker,
    /// Why nothing is started, and since when nothing runs either.
    held: Option<String>,
    idle_since: Option<Tick>,
    stopped: bool,
    wake: Option<Tick>,
    planted: Planted,
}

impl Plan {
    /// A plan for these groups, in this order.
    pub fn new(policy: Policy, wanted: Vec<Wanted>) -> Result<Self, Unfit> {
        let mut plan = Self {
            phase: Phase::Running,
            now: Tick(0),
            items: Vec::new(),
            groups: Vec::new(),
            queue: Queue::default(),
            running: 0,
            starting: 0,
            used: Room::default(),
            tries: 0,
            tokens: 0,
            late: BTreeSet::new(),
            bucket: policy.rate.map(Bucket::new),
            chance: Chance::new(policy.seed),
            breaker: Breaker::default(),
            held: None,
            idle_since: None,
            stopped: false,
            wake: None,
            planted: Planted::new(),
            policy,
        };
        wanted.into_iter().enumerate().try_for_each(|(task, wanted)| plan.add(task, &wanted))?;
        Ok(plan)
    }

    fn add(&mut self, task: usize, wanted: &Wanted) -> Result<(), Unfit> {
        let (offer, demand) = (self.policy.offer, wanted.demand);
        if !offer.holds(demand) {
            return Err(Unfit { slot: Slot { task, attempt: 0 }, demand, offer });
        }
        let first = self.items.len();
        let mut open = 0;
        for attempt in 0..wanted.attempts {
            let settled = wanted.settled.contains(&attempt);
            let state = if settled { State::Over } else { State::Waiting };
            let slot = Slot { task, attempt };
            let late_at = Tick(u64::MAX);
            self.items.push(Item { slot, state, tries: 0, cancelled: false, late_at });
            if !settled || self.planted.on(Bug::SettledMadeAgain) {
                open += 1;
                self.queue.push(self.items.len() - 1, wanted.priority, None);
            }
        }
        self.groups.push(GroupState {
            first,
            attempts: wanted.attempts,
            open,
            settled: wanted.attempts - open,
            priority: wanted.priority,
            demand,
            deadline_ms: wanted.deadline_ms,
        });
        Ok(())
    }

    /// Takes an event in. Time that goes back counts as standing still.
    pub fn step(&mut self, now: Tick, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        self.now = self.now.max(now);
        self.pass_time(&mut commands);
        match event {
            Event::Begin => {}
            // The wish came true, perhaps a little early: it is made again.
            Event::Tick => self.wake = None,
            Event::Up(tried) => self.up(tried),
            Event::Ended { tried, outcome, reason, tokens } => {
                self.ended(tried, (outcome, reason), tokens, &mut commands);
            }
            Event::Cancel(scope) => self.cancel(scope, &mut commands),
            Event::Hold(why) => self.held = Some(why),
            Event::Release => self.held = None,
            Event::Drain => self.enter(Phase::Draining, &mut commands),
            Event::Abort => self.enter(Phase::Aborting, &mut commands),
        }
        self.watch_budget(&mut commands);
        self.fill(&mut commands);
        self.watch_idleness(&mut commands);
        self.ask_for_time(&mut commands);
        commands
    }

    /// Whether nothing runs and nothing will be started.
    pub fn done(&self) -> bool {
        self.running == 0 && (self.queue.len() == 0 || self.phase > Phase::Running)
    }

    /// Tries under way.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Slots that wait for their first or next try.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The item of a slot; `None` for one that there is not.
    fn item(&self, slot: Slot) -> Option<usize> {
        let group = self.groups.get(slot.task)?;
        (slot.attempt < group.attempts).then(|| group.first + slot.attempt as usize)
    }

    /// The item of a try that is under way.
    fn under_way(&self, tried: Try) -> Option<usize> {
        let item = self.item(tried.slot)?;
        let found = &self.items[item];
        let runs = matches!(found.state, State::Starting | State::Running);
        let twice = self.planted.on(Bug::EndCountsTwice) && found.tries > 0;
        ((runs && found.tries == tried.retry + 1) || twice).then_some(item)
    }

    fn up(&mut self, tried: Try) {
        if let Some(item) = self.under_way(tried)
            && self.items[item].state == State::Starting
        {
            self.items[item].state = State::Running;
            self.starting -= 1;
        }
    }

    fn ended(
        &mut self,
        tried: Try,
        (outcome, reason): (Outcome, Option<String>),
        tokens: u64,
        commands: &mut Vec<Command>,
    ) {
        let Some(item) = self.under_way(tried) else { return };
        if self.items[item].state == State::Starting && !self.planted.on(Bug::StartingLeaks) {
            self.starting -= 1;
        }
        self.running = self.running.saturating_sub(1);
        self.late.remove(&(self.items[item].late_at, item));
        let group = &self.groups[tried.slot.task];
        if !self.planted.on(Bug::RoomLeaks) {
            self.used = self.used.minus(group.demand);
        }
        self.tokens = self.tokens.saturating_add(tokens);
        let several = self.groups.len() > 1;
        let most = self.policy.same_failures;
        let told = self.breaker.ended(tried.slot.task, (outcome, reason), most, several);
        if let Some(why) = told {
            self.stop(why, Phase::Draining, commands);
        }
        if self.again(item, outcome) {
            let pause = self.chance.pause(self.policy.backoff, self.items[item].tries);
            let at = self.now.after(pause);
            self.items[item].state = State::Waiting;
            let priority = self.groups[tried.slot.task].priority;
            self.queue.push(item, priority, (at > self.now).then_some(at));
            commands.push(Command::Retry(tried.slot, at));
            if self.planted.on(Bug::RetryIsAccepted) {
                commands.push(Command::Accept(tried.slot));
            }
        } else {
            commands.push(Command::Accept(tried.slot));
            self.over(item, outcome.settles(), commands);
        }
    }

    fn again(&self, item: usize, outcome: Outcome) -> bool {
        let item = &self.items[item];
        let wanted = !item.cancelled || self.planted.on(Bug::CancelledIsRetried);
        let bounded = item.tries <= self.policy.retries || self.planted.on(Bug::RetriesUnbounded);
        let failed = outcome == Outcome::InfraFailed || self.planted.on(Bug::ResultIsRetried);
        failed && wanted && bounded && self.phase == Phase::Running
    }

    /// The slot is over; so may be its group.
    fn over(&mut self, item: usize, settled: bool, commands: &mut Vec<Command>) {
        let slot = self.items[item].slot;
        self.items[item].state = State::Over;
        let group = &mut self.groups[slot.task];
        group.open = group.open.saturating_sub(1);
        group.settled += u32::from(settled);
        if group.open == u32::from(self.planted.on(Bug::GroupToldEarly)) {
            let (attempts, settled) = (group.attempts, group.settled);
            commands.push(Command::Complete(Group { task: slot.task, attempts, settled }));
        }
    }

    fn cancel(&mut self, scope: Scope, commands: &mut Vec<Command>) {
        let items = match scope {
            Scope::Attempt(slot) => self.item(slot).map_or(0..0, |item| item..item + 1),
            Scope::Group(task) => self
                .groups
                .get(task)
                .map_or(0..0, |group| group.first..group.first + group.attempts as usize),
        };
        for item in items {
            self.cancel_one(item, commands);
        }
    }

    fn cancel_one(&mut self, item: usize, commands: &mut Vec<Command>) {
        let found = &mut self.items[item];
        let (slot, first) = (found.slot, !found.cancelled);
        match found.state {
            State::Over => return,
            State::Starting | State::Running => {
                if first {
                    commands.push(Command::Cancel(slot, Why::Asked));
                }
            }
            State::Waiting => {
                self.queue.remove(item);
                let tried = self.items[item].tries > 0;
                commands.push(if tried { Command::Accept(slot) } else { Command::Forget(slot) });
                self.over(item, false, commands);
            }
        }
        self.items[item].cancelled = true;
    }

    /// The job stops by itself.
    fn stop(&mut self, why: String, phase: Phase, commands: &mut Vec<Command>) {
        if self.phase == Phase::Running && !self.stopped {
            self.stopped = true;
            commands.push(Command::Stop(why));
        }
        self.enter(phase, commands);
    }

    fn enter(&mut self, phase: Phase, commands: &mut Vec<Command>) {
        if phase == Phase::Aborting && self.phase < phase {
            let runs = |item: &&Item| matches!(item.state, State::Starting | State::Running);
            let slots: Vec<Slot> = self.items.iter().filter(runs).map(|item| item.slot).collect();
            slots.into_iter().for_each(|slot| self.cancel(Scope::Attempt(slot), commands));
        }
        self.phase = self.phase.max(phase);
        if self.phase > Phase::Running {
            self.drop_retries(commands);
        }
    }

    /// A slot that waits for its next try when the job stops ends as its last try did.
    fn drop_retries(&mut self, commands: &mut Vec<Command>) {
        for item in self.queue.items() {
            if self.items[item].tries > 0 {
                self.queue.remove(item);
                if !self.planted.on(Bug::DroppedRetryIsLost) {
                    commands.push(Command::Accept(self.items[item].slot));
                }
                self.over(item, false, commands);
            }
        }
    }

    fn fill(&mut self, commands: &mut Vec<Command>) {
        while self.may_start() {
            let left = self.policy.offer.minus(self.used);
            let (items, groups) = (&self.items, &self.groups);
            let demand = |item: usize| groups[items[item].slot.task].demand;
            let left = if self.planted.on(Bug::RoomIgnored) { Room::ENDLESS } else { left };
            let Some(item) = self.queue.find(left, demand) else { return };
            self.queue.take(item);
            self.start(item, commands);
        }
    }

    fn may_start(&self) -> bool {
        let more = usize::from(self.planted.on(Bug::OneTooMany));
        let due = |bucket: &Bucket| bucket.next() <= self.now || self.planted.on(Bug::RateIgnored);
        self.has_places(more) && self.queue.has_ready() && self.bucket.as_ref().is_none_or(due)
    }

    /// Whether one more could be started, but for the time and the room it needs.
    fn has_places(&self, more: usize) -> bool {
        let tries = self.policy.budget.tries.is_none_or(|most| self.tries < most);
        self.phase == Phase::Running
            && self.held.is_none()
            && tries
            && self.running < self.policy.concurrency.max(1) + more
            && self.starting < self.policy.starting.max(1) + more
    }

    fn start(&mut self, item: usize, commands: &mut Vec<Command>) {
        if let Some(bucket) = &mut self.bucket {
            bucket.take(self.now, &mut self.chance);
        }
        let slot = self.items[item].slot;
        let group = &self.groups[slot.task];
        let late_at = self.now.after(group.deadline_ms);
        self.used = self.used.plus(group.demand);
        let found = &mut self.items[item];
        let retry = found.tries;
        (found.state, found.tries, found.late_at) = (State::Starting, retry + 1, late_at);
        self.running += 1;
        self.starting += 1;
        self.tries += 1;
        if late_at < Tick(u64::MAX) && !self.planted.on(Bug::DeadlineForgotten) {
            self.late.insert((late_at, item));
        }
        commands.push(Command::Start(Try { slot, retry }));
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
