//! One repeat of one cell: phases of warming up and measuring, until enough was measured.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rollgate_bench::load::{Dialect, Load, Shape, Traffic, Window};
use rollgate_bench::report::{Latency, Run};

use super::checks;
use super::gateway::{Gateway, Session};
use super::usage::{Cpu, Memory};

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// A rest of a window that is not worth another phase.
const SHORT: Duration = Duration::from_millis(20);
/// Measured before it counts, where a shape has no warm-up of its own.
const SETTLE: Duration = Duration::from_millis(300);
/// Most words about what is wrong in one run.
const WORDS: usize = 5;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Shape of the turns.
    pub shape: Shape,
    /// Form of the requests.
    pub dialect: Dialect,
    /// Whether answers are streams.
    pub stream: bool,
    /// Connections.
    pub sessions: usize,
}

/// Who is measured.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// Rollgate.
    Rollgate(&'a Gateway),
    /// Another gateway: its port and its process.
    Peer(SocketAddr, u32),
    /// The engine itself.
    Direct,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Seconds, warm-up not included.
    pub seconds: f64,
    /// Or so many turns of every session, whichever comes first.
    pub turns: Option<u64>,
    /// Mean pause of an agent between turns.
    pub think: Duration,
    /// Sessions of a phase whose samples are compared.
    pub checked: usize,
}

/// One repeat under way.
struct Measuring<'a> {
    load: &'a Load,
    subject: Subject<'a>,
    kind: Kind,
    extent: Extent,
    run: Run,
    wall: Duration,
    cpu: Cpu,
    sum: Option<Window>,
}

/// Measures one repeat.
pub fn measure(
    load: &Load,
    subject: Subject<'_>,
    kind: Kind,
    extent: Extent,
) -> anyhow::Result<Run> {
    let (wall, cpu) = Default::default();
    let mut measuring =
        Measuring { load, subject, kind, extent, run: Run::default(), wall, cpu, sum: None };
    measuring.run.rss_before = measuring.memory().now;
    if kind.shape.counts_first() {
        measuring.phase(SETTLE, false)?;
    }
    let wanted = Duration::from_secs_f64(extent.seconds);
    while measuring.wall + SHORT < wanted && !measuring.has_enough() {
        if measuring.phase(wanted - measuring.wall, true)? == 0 {
            break;
        }
    }
    Ok(measuring.finish())
}

impl Measuring<'_> {
    fn pid(&self) -> Option<u32> {
        match self.subject {
            Subject::Rollgate(gateway) => Some(gateway.pid()),
            Subject::Peer(_, pid) => Some(pid),
            Subject::Direct => None,
        }
    }

    fn memory(&self) -> Memory {
        self.pid().map(Memory::of_tree).unwrap_or_default()
    }

    fn cpu(&self) -> Cpu {
        self.pid().map(Cpu::of_tree).unwrap_or_default()
    }

    fn has_enough(&self) -> bool {
        let turns = self.extent.turns.map(|turns| turns * self.kind.sessions as u64);
        turns.is_some_and(|turns| self.run.turns >= turns)
    }

    /// Warms up, measures, compares, forgets. Returns the turns that were measured.
    fn phase(&mut self, longest: Duration, counts: bool) -> anyhow::Result<u64> {
        let sessions = self.open()?;
        let keys = sessions.iter().map(|of_lane| of_lane.iter().map(|s| s.key.clone()).collect());
        self.load.prepare(Traffic {
            target: match self.subject {
                Subject::Rollgate(gateway) => gateway.agents,
                Subject::Peer(address, _) => address,
                Subject::Direct => self.load.engine(),
            },
            shape: self.kind.shape,
            dialect: self.kind.dialect,
            stream: self.kind.stream,
            direct: matches!(self.subject, Subject::Direct),
            think: self.extent.think,
            keys: keys.collect(),
        })?;
        let (begun, before) = (Instant::now(), self.cpu());
        let offset = self.wall;
        let mut memory = Vec::new();
        let pid = self.pid();
        let window = self.load.measure(longest, LOOK, || {
            let now = pid.map(Memory::of_tree).unwrap_or_default().now;
            memory.push(((offset + begun.elapsed()).as_secs_f64(), now));
        })?;
        let used = self.cpu().since(before);
        let turns = window.turns;
        self.note(&window);
        if counts {
            self.cpu += used;
            self.wall += window.wall;
            self.run.turns += turns;
            self.run.rss_over_time.append(&mut memory);
            let after = self.memory();
            self.run.rss_after = after.now;
            self.run.rss_peak = after.peak;
            let grown = after.now.saturating_sub(self.run.rss_before) as f64;
            let alive = sessions.iter().map(Vec::len).sum::<usize>();
            self.run.rss_per_session = grown / alive.max(1) as f64;
        }
        self.compare(&sessions, &window)?;
        if counts {
            match &mut self.sum {
                None => self.sum = Some(window),
                Some(sum) => {
                    // Both have the same bounds.
                    let _ = sum.latency_ns.add(&window.latency_ns);
                    sum.request_bytes += window.request_bytes;
                    sum.new_bytes += window.new_bytes;
                }
            }
        }
        Ok(turns)
    }

    fn open(&self) -> anyhow::Result<Vec<Vec<Session>>> {
        let each = self.kind.shape.sessions_each(self.kind.sessions);
        let open = || match self.subject {
            Subject::Rollgate(gateway) => gateway.open(),
            _ => Ok(Session { id: String::new(), key: "bench".to_owned() }),
        };
        (0..self.kind.sessions).map(|_| (0..each).map(|_| open()).collect()).collect()
    }

    fn note(&mut self, window: &Window) {
        self.run.errors += window.errors;
        self.run.wrong += window.faults.count;
        let words = window.error.iter().chain(&window.faults.words);
        let room = WORDS.saturating_sub(self.run.words.len());
        self.run.words.extend(words.take(room).cloned());
    }

    fn wrong(&mut self, words: String) {
        self.run.wrong += 1;
        if self.run.words.len() < WORDS {
            self.run.words.push(words);
        }
    }

    /// Compares samples of some sessions, evenly spread, and forgets all.
    fn compare(&mut self, sessions: &[Vec<Session>], window: &Window) -> anyhow::Result<()> {
        let Subject::Rollgate(gateway) = self.subject else { return Ok(()) };
        let told = window.told.iter().map(|lane| lane.iter()).map(|lane| lane.collect::<Vec<_>>());
        let all: Vec<_> = sessions
            .iter()
            .zip(told)
            .flat_map(|(sessions, told)| sessions.iter().zip(told).collect::<Vec<_>>())
            .collect();
        let step = (all.len() / self.extent.checked.max(1)).max(1);
        for (n, (session, told)) in all.into_iter().enumerate() {
            let used = told.iter().any(|told| told.chain.is_some());
            if used && self.extent.checked > 0 && n % step == 0 {
                let found = checks::compare(self.load, told, &gateway.samples(session)?)?;
                self.run.checked_sessions += 1;
                if let Some(wrong) = found {
                    self.wrong(format!("{}: {wrong}", session.id));
                }
            }
            gateway.forget(session)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Run {
        let turns = self.run.turns.max(1) as f64;
        let each = |seconds: f64| seconds * 1e6 / turns;
        self.run.seconds = self.wall.as_secs_f64();
        let all_s = self.cpu.all.as_secs_f64();
        // Ticks say how time is shared, the scheduler's count says how much it was.
        let ticked = (self.cpu.user_s + self.cpu.system_s).max(f64::MIN_POSITIVE);
        self.run.cpu_us = each(all_s);
        self.run.user_us = each(all_s * self.cpu.user_s / ticked);
        self.run.system_us = each(all_s * self.cpu.system_s / ticked);
        self.run.turns_per_s = self.run.turns as f64 / self.run.seconds.max(1e-9);
        self.run.busy = all_s / self.run.seconds.max(1e-9);
        if let Some(sum) = &self.sum {
            self.run.latency = Latency::of(&sum.latency_ns);
            self.run.request_bytes = sum.request_bytes as f64 / turns;
            self.run.new_bytes = sum.new_bytes as f64 / turns;
        }
        self.run
    }
}
