//! What a bench found: numbers, and their forms for people and programs.

mod html;
mod plot;
mod table;

use serde::Serialize;

pub use html::page;
pub use table::table;

/// Version of the JSON form.
pub const FORMAT: u32 = 1;

/// The name of our gateway in reports.
pub const OURS: &str = "rollgate";

/// A whole bench.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this form.
    pub format: u32,
    /// Where and with what.
    pub header: Header,
    /// One for each gateway, shape, dialect, form and number of sessions.
    pub cells: Vec<Cell>,
}

/// Where and with what a bench ran.
#[derive(Clone, Debug, Serialize)]
pub struct Header {
    /// Version of the program.
    pub version: String,
    /// Commit, where it is known.
    pub commit: Option<String>,
    /// `release` or `debug`: figures of the latter mean nothing.
    pub build: &'static str,
    /// When it began, in milliseconds since the epoch.
    pub started_at_ms: u64,
    /// Processor.
    pub processor: String,
    /// Cores that the bench may use.
    pub cores: usize,
    /// Kernel.
    pub kernel: String,
    /// Cores of the gateway and of load and engine.
    pub gateway_cores: Vec<usize>,
    /// See there.
    pub load_core: usize,
    /// `uring` or `epoll`, as the gateway says.
    pub driver: String,
    /// Shards of the gateway.
    pub shards: u16,
    /// Model whose tokenizer and template are used.
    pub model: String,
    /// Decides every text.
    pub seed: u64,
    /// What people should know before they believe a number.
    pub warnings: Vec<String>,
}

/// One gateway under one kind of load.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// `rollgate`, or the peer's name.
    pub gateway: String,
    /// Shape of the turns.
    pub shape: String,
    /// Form of the requests.
    pub dialect: String,
    /// Whether answers are streams.
    pub stream: bool,
    /// Connections, each a simulated agent.
    pub sessions: usize,
    /// The repeats.
    pub runs: Vec<Run>,
    /// The engine asked directly, by the same load.
    pub direct: Option<Latency>,
    /// Upper bound of CPU time a turn, in microseconds.
    pub limit_us: Option<f64>,
}

/// One repeat.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// Turns that were answered, and rightly.
    pub turns: u64,
    /// Length of the window in seconds.
    pub seconds: f64,
    /// CPU time of the gateway a turn, in microseconds.
    pub cpu_us: f64,
    /// Of it, outside the kernel.
    pub user_us: f64,
    /// Of it, in the kernel.
    pub system_us: f64,
    /// Turns in a second.
    pub turns_per_s: f64,
    /// Share of the gateway's core that was used.
    pub busy: f64,
    /// Latency of a turn.
    pub latency: Latency,
    /// Mean bytes of a request.
    pub request_bytes: f64,
    /// Mean bytes that the request before did not have.
    pub new_bytes: f64,
    /// Resident memory of the gateway before the first session, in bytes.
    pub rss_before: u64,
    /// The same at the end of the window.
    pub rss_after: u64,
    /// The most that it ever was.
    pub rss_peak: u64,
    /// Growth for each session there was at the end, in bytes.
    pub rss_per_session: f64,
    /// Resident memory over the window: seconds and bytes.
    pub rss_over_time: Vec<(f64, u64)>,
    /// Sessions whose samples were compared with what was sampled.
    pub checked_sessions: usize,
    /// Turns that failed.
    pub errors: u64,
    /// Answers, prompts or samples that were not as scripted.
    pub wrong: u64,
    /// The first of these in words.
    pub words: Vec<String>,
}

/// Latencies of turns in microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Latency {
    /// Half of the turns took no longer.
    pub p50_us: f64,
    /// 90 % of the turns.
    pub p90_us: f64,
    /// 99 % of the turns.
    pub p99_us: f64,
    /// 99.9 % of the turns.
    pub p999_us: f64,
    /// The curve: share of turns and latency.
    pub curve: Vec<(f64, f64)>,
}

/// Shares at which a curve has a point.
const CURVE: [f64; 14] =
    [0.0, 0.1, 0.25, 0.5, 0.6, 0.75, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999];

impl Latency {
    /// Reads a histogram of nanoseconds.
    pub fn of(histogram_ns: &hdrhistogram::Histogram<u64>) -> Self {
        let at = |share| histogram_ns.value_at_quantile(share) as f64 / 1e3;
        Self {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            curve: CURVE.iter().map(|share| (*share, at(*share))).collect(),
        }
    }
}

/// Median, least and most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Report {
    /// CPU time a turn of a peer, as a multiple of ours under the same load.
    pub fn ratio(&self, peer: &Cell) -> Option<f64> {
        let same = |ours: &&Cell| {
            let load = |cell: &Cell| (cell.shape.clone(), cell.sessions, cell.stream);
            ours.is_ours() && load(ours) == load(peer)
        };
        let ours = self.cells.iter().filter(|_| !peer.is_ours()).find(same)?;
        Some(peer.over_runs(|run| run.cpu_us).median / ours.over_runs(|run| run.cpu_us).median)
    }
}

impl Cell {
    /// Median and spread of a number over the repeats.
    pub fn over_runs(&self, number: impl Fn(&Run) -> f64) -> Spread {
        let mut all: Vec<f64> = self.runs.iter().map(number).collect();
        all.sort_by(f64::total_cmp);
        let at = |n: usize| all.get(n).copied().unwrap_or_default();
        let middle = all.len() / 2;
        let median = if all.len().is_multiple_of(2) && middle > 0 {
            (at(middle - 1) + at(middle)) / 2.0
        } else {
            at(middle)
        };
        Spread { median, least: at(0), most: at(all.len().saturating_sub(1)) }
    }

    /// Whether it is one of our gateway.
    pub fn is_ours(&self) -> bool {
        self.gateway == OURS
    }

    /// Whether the median is over the bound.
    pub fn is_over_limit(&self) -> bool {
        self.limit_us.is_some_and(|limit| self.over_runs(|run| run.cpu_us).median > limit)
    }

    /// Whether something was not as scripted.
    pub fn is_wrong(&self) -> bool {
        self.runs.iter().any(|run| run.wrong > 0 || run.errors > 0 || run.turns == 0)
    }
}
