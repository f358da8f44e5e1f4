//! What a plan did, kept beside it and held against its promises.

use std::collections::BTreeMap;

use crate::outcome::Outcome;
use crate::plan::{Command, Group, Policy, Room, Slot, Tick, Try, Wanted, Why};
use crate::runtime::Report;

/// How far one slot is, in the life of one plan.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub starts: u32,
    /// The try under way, and since when.
    pub running: Option<(Try, Tick)>,
    starting: bool,
    /// Somebody asked for it to end.
    pub cancelled: bool,
    pub over: bool,
    /// Not before this time, after a failure.
    not_before: Tick,
    last: Option<Report>,
}

/// What is true whatever the plan does.
pub(super) struct Ledger {
    pub policy: Policy,
    pub wanted: Vec<Wanted>,
    pub entries: BTreeMap<Slot, Entry>,
    pub running: usize,
    starting: usize,
    used: Room,
    pub fresh: usize,
    pub starts: u64,
    tokens: u64,
    /// Level of the bucket in thousandths of a token's minute, and when.
    bucket: (u64, Tick),
    complete: Vec<bool>,
    /// Nothing may be started from now on.
    pub ended: bool,
    pub aborted: bool,
    pub held: bool,
    pub stops: Vec<String>,
    /// Lines as the sink has them, also those of earlier lives.
    pub lines: BTreeMap<Slot, Vec<(Outcome, Option<f64>)>>,
}

fn hold(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

impl Ledger {
    pub(super) fn new(policy: Policy, wanted: Vec<Wanted>) -> Self {
        let mut ledger = Self {
            complete: vec![false; wanted.len()],
            wanted: Vec::new(),
            policy,
            entries: BTreeMap::new(),
            running: 0,
            starting: 0,
            used: Room::default(),
            fresh: 0,
            starts: 0,
            tokens: 0,
            bucket: (0, Tick(0)),
            ended: false,
            aborted: false,
            held: false,
            stops: Vec::new(),
            lines: BTreeMap::new(),
        };
        ledger.begin_life(wanted);
        ledger
    }

    /// A new plan takes over; lines stay.
    pub(super) fn begin_life(&mut self, wanted: Vec<Wanted>) {
        self.entries.clear();
        for (task, group) in wanted.iter().enumerate() {
            for attempt in 0..group.attempts {
                let over = group.settled.contains(&attempt);
                let entry = Entry { over, ..Entry::default() };
                self.entries.insert(Slot { task, attempt }, entry);
            }
        }
        self.fresh = self.entries.values().filter(|entry| !entry.over).count();
        self.complete = wanted.iter().map(|g| g.settled.len() == g.attempts as usize).collect();
        self.wanted = wanted;
        (self.running, self.starting, self.used) = (0, 0, Room::default());
        (self.starts, self.tokens, self.bucket) = (0, 0, (0, Tick(0)));
        (self.ended, self.aborted, self.held) = (false, false, false);
        self.stops.clear();
    }

    pub(super) fn take(&mut self, now: Tick, command: &Command) -> Result<(), String> {
        match command {
            Command::Start(tried) => self.start(now, *tried),
            Command::Retry(slot, at) => self.retry(now, *slot, *at),
            Command::Accept(slot) => self.accept(*slot),
            Command::Forget(slot) => self.forget(*slot),
            Command::Cancel(slot, why) => self.cancel(now, *slot, *why),
            Command::Complete(group) => self.completed(*group),
            Command::Wake(at) => hold(*at > now, || format!("woken at once at {now:?}")),
            Command::Stop(why) => {
                self.stops.push(why.clone());
                self.ended = true;
                hold(self.stops.len() == 1, || format!("stopped twice: {:?}", self.stops))
            }
        }
    }

    fn entry(&mut self, slot: Slot) -> Result<&mut Entry, String> {
        self.entries.get_mut(&slot).ok_or_else(|| format!("{slot:?} does not exist"))
    }

    fn start(&mut self, now: Tick, tried: Try) -> Result<(), String> {
        let (demand, retries) = (self.wanted[tried.slot.task].demand, self.policy.retries);
        let entry = self.entry(tried.slot)?;
        hold(entry.running.is_none(), || format!("{tried:?} is started while it runs"))?;
        hold(!entry.over, || format!("{tried:?} is started after its end"))?;
        hold(!entry.cancelled, || format!("{tried:?} is started after it was cancelled"))?;
        hold(entry.starts == tried.retry, || format!("{tried:?} has a wrong number"))?;
        hold(tried.retry <= retries, || format!("{tried:?} is one retry too many"))?;
        hold(now >= entry.not_before, || format!("{tried:?} does not wait for its pause"))?;
        entry.starts += 1;
        (entry.running, entry.starting) = (Some((tried, now)), true);
        self.fresh -= usize::from(tried.retry == 0);
        self.running += 1;
        self.starting += 1;
        self.starts += 1;
        self.used = self.used.plus(demand);
        self.limits(now)
    }

    fn limits(&mut self, now: Tick) -> Result<(), String> {
        let policy = self.policy.clone();
        hold(!self.ended, || "started after the job was to end".to_owned())?;
        hold(!self.held, || "started while held".to_owned())?;
        hold(self.running <= policy.concurrency, || format!("{} run", self.running))?;
        hold(self.starting <= policy.starting, || format!("{} start", self.starting))?;
        hold(policy.offer.holds(self.used), || format!("{:?} is used", self.used))?;
        let budget = policy.budget;
        let within = |most: Option<u64>, used: u64| most.is_none_or(|most| used <= most);
        hold(within(budget.tries, self.starts), || "more tries than allowed".to_owned())?;
        hold(budget.tokens.is_none_or(|most| self.tokens < most), || "no tokens left".to_owned())?;
        hold(budget.time_ms.is_none_or(|most| now.0 < most), || "no time left".to_owned())?;
        let Some(rate) = policy.rate else { return Ok(()) };
        let (level, since) = self.bucket;
        let leaked = (now.0 - since.0) * u64::from(rate.per_minute);
        let level = level.saturating_sub(leaked) + 60_000;
        self.bucket = (level, now);
        hold(level <= u64::from(rate.burst) * 60_000, || "started faster than the rate".to_owned())
    }

    /// A try has its sandbox.
    pub(super) fn up(&mut self, tried: Try) {
        if let Some(entry) = self.entries.get_mut(&tried.slot)
            && entry.running.is_some_and(|(runs, _)| runs == tried)
            && entry.starting
        {
            entry.starting = false;
            self.starting -= 1;
        }
    }

    /// A try ended with this report; `false` if it is not under way.
    pub(super) fn ended(&mut self, tried: Try, report: Report, tokens: u64) -> bool {
        let demand = self.wanted[tried.slot.task].demand;
        let Some(entry) = self.entries.get_mut(&tried.slot) else { return false };
        if entry.running.is_none_or(|(runs, _)| runs != tried) {
            return false;
        }
        entry.running = None;
        entry.last = Some(report);
        self.starting -= usize::from(std::mem::take(&mut entry.starting));
        self.running -= 1;
        self.tokens += tokens;
        self.used = self.used.minus(demand);
        true
    }

    fn retry(&mut self, now: Tick, slot: Slot, at: Tick) -> Result<(), String> {
        let least = self.policy.backoff.first_ms / 2;
        let ended = self.ended;
        let entry = self.entry(slot)?;
        let failed = entry.last.as_ref().is_some_and(|r| r.outcome == Outcome::InfraFailed);
        hold(failed, || format!("{slot:?} is made again although it gave a result"))?;
        hold(!entry.cancelled, || format!("{slot:?} is made again although it was cancelled"))?;
        hold(entry.running.is_none() && !entry.over, || format!("{slot:?} is retried too early"))?;
        hold(!ended, || format!("{slot:?} is to be made again after the end"))?;
        entry.not_before = at;
        hold(at >= now.after(least), || format!("{slot:?} has a pause to {at:?} at {now:?}"))
    }

    fn accept(&mut self, slot: Slot) -> Result<(), String> {
        let entry = self.entry(slot)?;
        hold(entry.running.is_none(), || format!("{slot:?} is accepted while it runs"))?;
        hold(!entry.over, || format!("{slot:?} is accepted twice"))?;
        let report = entry.last.take().ok_or_else(|| format!("{slot:?} is accepted untried"))?;
        entry.over = true;
        let reward = report.reward.and_then(|reward| reward.reward);
        let lines = self.lines.entry(slot).or_default();
        let settled = lines.iter().any(|(outcome, _)| outcome.settles());
        lines.push((report.outcome, reward));
        hold(!settled, || format!("{slot:?} is counted twice"))?;
        let sound = reward.is_none() || report.outcome.rewardable();
        hold(sound, || format!("{slot:?} is rewarded for {}", report.outcome))
    }

    fn forget(&mut self, slot: Slot) -> Result<(), String> {
        let entry = self.entry(slot)?;
        let untried = entry.starts == 0 && entry.cancelled && !entry.over;
        entry.over = true;
        self.fresh -= 1;
        hold(untried, || format!("{slot:?} is forgotten"))
    }

    fn cancel(&mut self, now: Tick, slot: Slot, why: Why) -> Result<(), String> {
        let deadline = self.wanted[slot.task].deadline_ms;
        let time = self.policy.budget.time_ms.is_some_and(|most| now.0 >= most);
        let all = self.aborted || time;
        let entry = self.entry(slot)?;
        let (_, since) = entry.running.ok_or_else(|| format!("{slot:?} is cancelled in vain"))?;
        let sound = match why {
            Why::Asked => entry.cancelled || all,
            Why::Late => now >= since.after(deadline),
        };
        hold(sound, || format!("{slot:?} is cancelled as {why:?}"))
    }

    fn completed(&mut self, group: Group) -> Result<(), String> {
        let first = !std::mem::replace(&mut self.complete[group.task], true);
        hold(first, || format!("{group:?} is told twice"))?;
        let slots = (0..group.attempts).map(|attempt| Slot { task: group.task, attempt });
        let open = slots.clone().find(|slot| !self.entries[slot].over);
        hold(open.is_none(), || format!("{group:?} is told before {open:?} is over"))?;
        let lasts = |slot: &Slot| {
            self.lines.get(slot).is_some_and(|lines| lines.iter().any(|(o, _)| o.settles()))
        };
        let settled = slots.filter(lasts).count();
        hold(settled == group.settled as usize, || format!("{group:?} has {settled} settled"))
    }

    /// What must hold between any two events: places that could be filled are.
    pub(super) fn between(&self, now: Tick) -> Result<(), String> {
        let policy = &self.policy;
        let budget = policy.budget;
        let free = policy.rate.is_none()
            && policy.offer == Room::ENDLESS
            && !self.ended
            && !self.held
            && budget.tries.is_none_or(|most| self.starts < most)
            && budget.tokens.is_none_or(|most| self.tokens < most)
            && budget.time_ms.is_none_or(|most| now.0 < most)
            && self.running < policy.concurrency
            && self.starting < policy.starting;
        hold(!free || self.fresh == 0, || format!("places stay empty, {} wait", self.fresh))
    }

    /// What must hold once the plan is done. `waiting`: how many it says were never started.
    pub(super) fn at_the_end(&self, waiting: usize) -> Result<(), String> {
        hold(self.running == 0, || "done while something runs".to_owned())?;
        hold(waiting == self.fresh, || format!("{waiting} wait, and {} do", self.fresh))?;
        hold(waiting == 0 || self.ended, || format!("done with {waiting} to do"))?;
        for (slot, entry) in &self.entries {
            hold(entry.over || entry.starts == 0, || format!("{slot:?} is lost"))?;
        }
        let told = |task: usize| {
            let first = |task| Slot { task, attempt: 0 };
            let mut slots = self.entries.range(first(task)..first(task + 1));
            self.complete[task] == slots.all(|(_, entry)| entry.over)
        };
        let untold = (0..self.wanted.len()).find(|task| !told(*task));
        hold(untold.is_none(), || {
            format!("group {untold:?} is over and was not told, or the other way")
        })
    }
}
