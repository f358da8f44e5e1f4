//! `rollgate bench`: what a turn costs on this machine, beside other gateways.

mod cell;
mod checks;
mod gateway;
mod machine;
mod peers;
mod round;
mod setting;
mod usage;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use rollgate_bench::load::{Dialect, Shape};
use rollgate_bench::report::{Cell, FORMAT, Report, page, table};

use crate::exit::{Exit, Stop};
use cell::Kind;
use peers::Peer;
use setting::Setting;

/// Measures what a turn costs: CPU time, latency, memory; every answer is checked.
///
/// Simulated agents on one core, with a fast engine; a gateway of its own on another.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  rollgate bench --shape coding --sessions 64 --seconds 3 --repeats 1
  rollgate bench --shape all --sessions 64,1024 --limits
  rollgate bench --dialect messages --stream --shape moved
  rollgate bench --shape small,coding,long --peer haproxy --peer sglang-router --html bench.html
  rollgate bench --peer 'mine=my-gateway --listen {port} --upstream http://{engine}'

Exit codes: 0 well; 1 a wrong answer, or over a limit with --limits; 2 wrong use; 3 the machine does
not allow it. docs/benchmarks.md says what is measured and how.")]
pub struct BenchArgs {
    /// Kind of traffic: small, coding, long, first, moved, or all. May be a list.
    #[arg(long, value_delimiter = ',', default_value = "coding")]
    shape: Vec<String>,
    /// Simulated agents, each with a connection. May be a list.
    #[arg(long, value_delimiter = ',', default_value = "64")]
    sessions: Vec<usize>,
    /// Form of the requests; `moved` is always Messages. May be a list.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "chat")]
    dialect: Vec<DialectName>,
    /// Ask for events instead of JSON.
    #[arg(long)]
    stream: bool,
    /// Seconds of each repeat, warm-up not counted.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// End a repeat after so many counted turns of every session, if that is sooner.
    #[arg(long)]
    turns: Option<u64>,
    /// Repeats of each cell; medians are shown, with least and most.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Mean pause of an agent between turns, in milliseconds.
    #[arg(long, default_value_t = 0)]
    think_ms: u64,
    /// Decides every text and every answer.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Shards of the gateway.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    shards: u16,
    /// `auto`, `uring` or `epoll`.
    #[arg(long, default_value = "auto", value_parser = ["auto", "uring", "epoll"])]
    driver: String,
    /// Directory with tokenizer and template; default: a Qwen3 in the cache of the tests, else the
    /// embedded demo model, whose vocabulary is a toy.
    #[arg(long, value_name = "DIR", env = "ROLLGATE_BENCH_MODEL")]
    model: Option<PathBuf>,
    /// Sessions of every phase whose samples are compared with what was sampled.
    #[arg(long, default_value_t = 8)]
    check: usize,
    /// Another gateway to measure in turns with ours: haproxy, nginx, sglang-router (cache_aware),
    /// sglang-router-rr, vllm-router, vllm-router-rr, or NAME=COMMAND with {port} (where it listens),
    /// {engine} (host and port that it asks) and {config} (a directory of its own). May be repeated.
    #[arg(long, value_name = "NAME[=COMMAND]", value_parser = Peer::parse)]
    peer: Vec<Peer>,
    /// Measure the peers only.
    #[arg(long, requires = "peer")]
    only_peers: bool,
    /// Do not ask the engine directly: no added latency is shown.
    #[arg(long)]
    no_direct: bool,
    /// Exit with 1 where a median is over its limit.
    #[arg(long)]
    limits: bool,
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as one HTML page with plots.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Values of `--dialect`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum DialectName {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

/// Runs all cells and reports.
pub fn run(args: &BenchArgs) -> anyhow::Result<Exit> {
    crate::logging::start("warn", crate::config::LogFormat::Text)?;
    let kinds = kinds(args)?;
    args.peer.iter().try_for_each(Peer::check)?;
    let setting = Setting::new(args)?;
    let bar = progress(round::steps(args, &kinds));
    let mut header = setting.header(args);
    let mut cells = Vec::new();
    for kind in &kinds {
        cells.extend(round::cells(args, &setting, *kind, &kinds, &mut header, &bar)?);
    }
    bar.finish_and_clear();
    let report = Report { format: FORMAT, header, cells };
    print!("{}", table(&report));
    if let Some(path) = &args.json {
        write(path, &serde_json::to_string_pretty(&report)?)?;
    }
    if let Some(path) = &args.html {
        write(path, &page(&report))?;
    }
    let wrong =
        report.cells.iter().any(|cell| (cell.is_ours() || args.only_peers) && cell.is_wrong());
    let over = args.limits && report.cells.iter().any(Cell::is_over_limit);
    Ok(if wrong || over { Exit::Failed } else { Exit::Well })
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn kinds(args: &BenchArgs) -> Result<Vec<Kind>, Stop> {
    let mut shapes = Vec::new();
    for name in &args.shape {
        match (name.as_str(), Shape::named(name)) {
            ("all", _) => shapes.extend(Shape::ALL),
            (_, Some(shape)) => shapes.push(shape),
            _ => {
                let all = Shape::ALL.map(Shape::name).join(", ");
                return Err(Stop::wrong_use(format!("--shape {name}: there are {all}, and all")));
            }
        }
    }
    if args.sessions.contains(&0) || !args.seconds.is_finite() || args.seconds <= 0.0 {
        return Err(Stop::wrong_use("--sessions and --seconds must be above 0"));
    }
    let mut kinds = Vec::new();
    for shape in shapes {
        let mut dialects: Vec<Dialect> = match shape {
            Shape::Moved => vec![Dialect::Messages],
            _ => args.dialect.iter().map(|dialect| dialect.meant()).collect(),
        };
        dialects.dedup();
        for dialect in dialects {
            let stream = args.stream;
            kinds.extend(args.sessions.iter().map(|n| Kind {
                shape,
                dialect,
                stream,
                sessions: *n,
            }));
        }
    }
    Ok(kinds)
}

impl DialectName {
    fn meant(self) -> Dialect {
        match self {
            DialectName::Chat => Dialect::Chat,
            DialectName::Responses => Dialect::Responses,
            DialectName::Messages => Dialect::Messages,
        }
    }
}

fn progress(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar
}
