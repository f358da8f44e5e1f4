//! The world of a plan: attempts with random fates, people who cancel, disks that fill, crashes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use rollgate_pipeline::record::Reward;

use super::ledger::Ledger;
use crate::outcome::{Outcome, Reason};
use crate::plan::chance::Chance;
use crate::plan::{
    Backoff, Command, Event, JobBudget, Plan, Policy, Rate, Room, Scope, Slot, Tick, Try, Wanted,
    Why,
};
use crate::runtime::{Graded, Halt, Report};

/// Longest that an attempt which is not stuck takes, in milliseconds.
const LONGEST_MS: u64 = 20_000;
const DEADLINE_MS: u64 = 25_000;
/// Longest that a cancelled attempt takes to end.
const CANCEL_MS: u64 = 300;
/// Steps per attempt after which a job counts as endless.
const STEPS_PER_ATTEMPT: u64 = 200;

/// What happened in all worlds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    attempts: u64,
    tries: u64,
    accepted: u64,
    rewarded: u64,
    retries: u64,
    late: u64,
    cancelled: u64,
    forgotten: u64,
    stops: u64,
    restarts: u64,
    stale_news: u64,
}

impl Tally {
    pub(super) fn all(&self) -> [(&'static str, u64); 11] {
        [
            ("attempts", self.attempts),
            ("tries", self.tries),
            ("accepted", self.accepted),
            ("rewarded", self.rewarded),
            ("retries", self.retries),
            ("late", self.late),
            ("cancelled", self.cancelled),
            ("forgotten", self.forgotten),
            ("stops", self.stops),
            ("restarts", self.restarts),
            ("stale_news", self.stale_news),
        ]
    }

    pub(super) fn add(&mut self, other: Tally) {
        self.attempts += other.attempts;
        self.tries += other.tries;
        self.accepted += other.accepted;
        self.rewarded += other.rewarded;
        self.retries += other.retries;
        self.late += other.late;
        self.cancelled += other.cancelled;
        self.forgotten += other.forgotten;
        self.stops += other.stops;
        self.restarts += other.restarts;
        self.stale_news += other.stale_news;
    }
}

/// What will happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum News {
    Up(Try),
    Ended(Try, Fate),
    /// Only the latest wish counts.
    Wake(u64),
    CancelOne,
    CancelGroup,
    Hold,
    Release,
    Drain,
    Abort,
    Crash,
}

/// How a try ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fate {
    Outcome(u8),
    /// It earned a reward, and then sealing its session failed.
    Unsealed,
    Infra(u8),
    Cancelled,
    Late,
}

pub(super) struct World {
    chance: Chance,
    now: Tick,
    plan: Plan,
    ledger: Ledger,
    news: BinaryHeap<Reverse<(Tick, u64, News)>>,
    number: u64,
    wake: u64,
    /// How often infrastructure fails, in percent.
    infra: u64,
    tally: Tally,
}

fn policy(chance: &mut Chance) -> Policy {
    let some = |chance: &mut Chance, percent: u64| chance.up_to(99) < percent;
    let concurrency = 1 + chance.up_to(63) as usize;
    let starting = 1 + chance.up_to(concurrency as u64) as usize;
    let rate = some(chance, 30).then(|| Rate {
        per_minute: 60 + chance.up_to(3_000) as u32,
        burst: 1 + chance.up_to(9) as u32,
    });
    let offer = if some(chance, 40) {
        Room { millicores: 4_000 + chance.up_to(12_000), memory_mib: 4_096 + chance.up_to(9_999) }
    } else {
        Room::ENDLESS
    };
    let budget = JobBudget {
        tries: some(chance, 10).then(|| chance.up_to(400)),
        tokens: some(chance, 10).then(|| chance.up_to(40_000)),
        time_ms: some(chance, 10).then(|| chance.up_to(400_000)),
    };
    Policy {
        concurrency,
        starting,
        retries: chance.up_to(3) as u32,
        backoff: Backoff { first_ms: 2 + chance.up_to(2_000), most_ms: 5_000 },
        same_failures: if some(chance, 50) { 5 + chance.up_to(20) as u32 } else { u32::MAX },
        rate,
        offer,
        budget,
        hold_ms: 10_000 + chance.up_to(30_000),
        seed: chance.next(),
    }
}

fn wanted(chance: &mut Chance, attempts: u64, endless: bool) -> Vec<Wanted> {
    let n = 1 + chance.up_to(7) as u32;
    let tasks = attempts.div_ceil(u64::from(n));
    let group = |_| Wanted {
        attempts: n,
        settled: BTreeSet::new(),
        priority: if chance.up_to(3) == 0 { chance.up_to(4) as i32 - 2 } else { 0 },
        demand: match (endless, chance.up_to(9)) {
            (true, _) => Room::default(),
            (false, 0) => Room { millicores: 4_000, memory_mib: 4_096 },
            (false, _) => Room { millicores: 500, memory_mib: 256 },
        },
        deadline_ms: DEADLINE_MS,
    };
    (0..tasks).map(group).collect()
}

impl World {
    pub(super) fn new(seed: u64, attempts: u64) -> Self {
        let mut chance = Chance::new(seed);
        let policy = policy(&mut chance);
        let wanted = wanted(&mut chance, attempts, policy.offer == Room::ENDLESS);
        let infra = [2, 10, 30, 95][chance.up_to(3) as usize];
        let mut world = Self {
            now: Tick(0),
            plan: Plan::new(policy.clone(), wanted.clone()).unwrap(),
            ledger: Ledger::new(policy, wanted),
            news: BinaryHeap::new(),
            number: 0,
            wake: 0,
            infra,
            tally: Tally::default(),
            chance,
        };
        world.tally.attempts = world.ledger.entries.len() as u64;
        world.people(attempts);
        world
    }

    /// What people and machines do to the job at random times.
    fn people(&mut self, attempts: u64) {
        let span = 1 + attempts * LONGEST_MS / 2 / self.ledger.policy.concurrency as u64;
        for (news, percent) in [
            (News::CancelOne, 30),
            (News::CancelOne, 30),
            (News::CancelGroup, 30),
            (News::Hold, 20),
            (News::Drain, 5),
            (News::Abort, 5),
            (News::Crash, 20),
            (News::Crash, 10),
        ] {
            if self.chance.up_to(99) < percent {
                let after = self.chance.up_to(span);
                self.tell(after, news);
                if news == News::Hold {
                    let more = self.chance.up_to(60_000);
                    self.tell(after + more, News::Release);
                }
            }
        }
    }

    fn tell(&mut self, after_ms: u64, news: News) {
        self.number += 1;
        self.news.push(Reverse((self.now.after(after_ms), self.number, news)));
    }

    pub(super) fn play(mut self) -> Result<Tally, String> {
        let most = STEPS_PER_ATTEMPT * (self.tally.attempts + 10);
        self.step(Event::Begin)?;
        for _ in 0..most {
            if self.plan.done() {
                self.ledger.at_the_end(self.plan.waiting())?;
                self.tally.stops += self.ledger.stops.len() as u64;
                return Ok(self.tally);
            }
            let Some(Reverse((at, _, news))) = self.news.pop() else {
                return Err(format!("stuck: nothing will happen, {} run", self.ledger.running));
            };
            self.now = at;
            self.happen(news)?;
        }
        Err(format!("endless: not done after {most} steps"))
    }

    fn happen(&mut self, news: News) -> Result<(), String> {
        match news {
            News::Up(tried) => {
                self.ledger.up(tried);
                self.step(Event::Up(tried))
            }
            News::Ended(tried, fate) => self.ended(tried, fate),
            News::Wake(number) if number != self.wake => Ok(()),
            News::Wake(_) => self.step(Event::Tick),
            News::CancelOne => {
                let slot = self.any_slot();
                self.cancel(Scope::Attempt(slot))
            }
            News::CancelGroup => {
                let slot = self.any_slot();
                self.cancel(Scope::Group(slot.task))
            }
            News::Hold => {
                self.ledger.held = true;
                self.step(Event::Hold("the disk is full".to_owned()))
            }
            News::Release => {
                self.ledger.held = false;
                self.step(Event::Release)
            }
            News::Drain => {
                self.ledger.ended = true;
                self.step(Event::Drain)
            }
            News::Abort => {
                (self.ledger.ended, self.ledger.aborted) = (true, true);
                self.step(Event::Abort)
            }
            News::Crash => self.crash(),
        }
    }

    fn any_slot(&mut self) -> Slot {
        let task = self.chance.up_to(self.ledger.wanted.len() as u64) as usize;
        Slot { task, attempt: self.chance.up_to(8) as u32 }
    }

    fn cancel(&mut self, scope: Scope) -> Result<(), String> {
        for (slot, entry) in &mut self.ledger.entries {
            let meant = match scope {
                Scope::Attempt(one) => *slot == one,
                Scope::Group(task) => slot.task == task,
            };
            entry.cancelled |= meant && !entry.over;
        }
        self.step(Event::Cancel(scope))
    }

    /// The process dies: what ran is gone, what has a line that settles stays. Another one goes on.
    fn crash(&mut self) -> Result<(), String> {
        self.tally.restarts += 1;
        self.tally.stops += self.ledger.stops.len() as u64;
        self.news.retain(|Reverse((_, _, news))| {
            !matches!(news, News::Up(_) | News::Ended(..) | News::Wake(_) | News::Release)
        });
        let mut settled: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
        for (slot, lines) in &self.ledger.lines {
            if lines.iter().any(|(outcome, _)| outcome.settles()) {
                settled.entry(slot.task).or_default().insert(slot.attempt);
            }
        }
        let mut wanted = self.ledger.wanted.clone();
        for (task, group) in wanted.iter_mut().enumerate() {
            group.settled = settled.remove(&task).unwrap_or_default();
        }
        // The job's time begins anew with the process.
        let mut later: Vec<_> = std::mem::take(&mut self.news).into_iter().collect();
        later.iter_mut().for_each(|Reverse((at, _, _))| at.0 -= self.now.0);
        self.news = later.into_iter().collect();
        self.now = Tick(0);
        self.plan = Plan::new(self.ledger.policy.clone(), wanted.clone()).unwrap();
        self.ledger.begin_life(wanted);
        self.step(Event::Begin)
    }

    fn ended(&mut self, tried: Try, fate: Fate) -> Result<(), String> {
        let report = self.report(fate);
        let tokens = self.chance.up_to(200);
        let (outcome, reason) = (report.outcome, report.reason.as_ref());
        let reason = reason.map(|reason| reason.code.clone());
        if !self.ledger.ended(tried, report, tokens) {
            self.tally.stale_news += 1;
        }
        // News may come twice, and late.
        match self.chance.up_to(49) {
            0 => self.tell(self.number % 90, News::Ended(tried, fate)),
            1 => self.tell(0, News::Up(tried)),
            _ => {}
        }
        self.step(Event::Ended { tried, outcome, reason, tokens })
    }

    /// The report as the runtime makes it.
    fn report(&mut self, fate: Fate) -> Report {
        let mut report = Report::begin("a");
        let reward = Reward { reward: Some(1.0), parts: BTreeMap::new() };
        let graded = |outcome| Graded { outcome, reason: None, reward: Some(reward.clone()) };
        let infra = |code: &str| Halt::infra(Reason::new(code, ""));
        match fate {
            Fate::Outcome(index) => report.settle(Ok(graded(Outcome::ALL[index as usize]))),
            Fate::Unsealed => {
                report.settle(Ok(graded(Outcome::Done)));
                report.fail(infra("close"));
            }
            Fate::Infra(kind) => report.settle(Err(infra(["sandbox", "setup"][kind as usize % 2]))),
            Fate::Late => report.settle(Err(infra("attempt_deadline"))),
            Fate::Cancelled => report.settle(Err(Halt {
                outcome: Outcome::Cancelled,
                reason: Reason::new("cancelled", ""),
            })),
        }
        report
    }

    fn step(&mut self, event: Event) -> Result<(), String> {
        let commands = self.plan.step(self.now, event);
        for command in commands {
            self.ledger.take(self.now, &command)?;
            self.follow(command);
        }
        self.ledger.between(self.now)
    }

    fn follow(&mut self, command: Command) {
        match command {
            Command::Start(tried) => self.start(tried),
            Command::Cancel(slot, why) => {
                let runs = self.ledger.entries[&slot].running.map(|(tried, _)| tried);
                let fate = match why {
                    Why::Asked => Fate::Cancelled,
                    Why::Late => Fate::Late,
                };
                self.tally.late += u64::from(why == Why::Late);
                self.tally.cancelled += u64::from(why == Why::Asked);
                let after = self.chance.up_to(CANCEL_MS);
                runs.into_iter().for_each(|tried| self.tell(after, News::Ended(tried, fate)));
            }
            Command::Wake(at) => {
                self.wake += 1;
                self.tell(at.0 - self.now.0, News::Wake(self.wake));
            }
            Command::Accept(slot) => {
                self.tally.accepted += 1;
                let reward = self.ledger.lines[&slot].last().and_then(|(_, reward)| *reward);
                self.tally.rewarded += u64::from(reward.is_some());
            }
            Command::Retry(..) => self.tally.retries += 1,
            Command::Forget(_) => self.tally.forgotten += 1,
            Command::Complete(_) | Command::Stop(_) => {}
        }
    }

    /// Decides what becomes of a try.
    fn start(&mut self, tried: Try) {
        self.tally.tries += 1;
        let up = self.chance.up_to(500);
        let end = up + 1 + self.chance.up_to(LONGEST_MS - 501);
        if self.chance.up_to(99) < self.infra {
            let kind = self.chance.up_to(1) as u8;
            match self.chance.up_to(9) {
                // Stuck for ever: only its deadline ends it.
                0 => return self.tell(up, News::Up(tried)),
                1 => {
                    self.tell(up, News::Up(tried));
                    return self.tell(end, News::Ended(tried, Fate::Unsealed));
                }
                2..6 => return self.tell(up, News::Ended(tried, Fate::Infra(kind))),
                _ => {
                    self.tell(up, News::Up(tried));
                    return self.tell(end, News::Ended(tried, Fate::Infra(kind)));
                }
            }
        }
        // Every outcome that an agent or a verifier may come to.
        let outcome = [0, 0, 0, 0, 1, 2, 3, 4][self.chance.up_to(7) as usize];
        self.tell(up, News::Up(tried));
        self.tell(end, News::Ended(tried, Fate::Outcome(outcome)));
    }
}
