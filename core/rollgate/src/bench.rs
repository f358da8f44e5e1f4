//! `rollgate bench`: what a turn costs on this machine, beside other gateways.

mod cell;
mod checks;
mod gateway;
mod machine;
mod usage;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use rollgate_bench::load::{Dialect, Load, LoadConfig, Shape};
use rollgate_bench::report::{Cell, FORMAT, Header, Report, table};
use rollgate_pipeline::render::Model;

use crate::exit::{Exit, Stop};
use cell::{Extent, Kind, Subject};
use gateway::{Gateway, Wanted};
use machine::Cores;

/// Longest prompt plus answer that engine and gateway are told of: room for the longest shape.
const MAX_CONTEXT: u32 = 1_000_000;
/// Seconds of asking the engine directly.
const DIRECT_S: f64 = 1.0;

/// Measures what a turn costs: CPU time, latency, memory; every answer is checked.
///
/// Simulated agents on one core, with a fast engine; a gateway of its own on another.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  rollgate bench --shape coding --sessions 64 --seconds 3 --repeats 1
  rollgate bench --shape all --sessions 64,1024 --limits
  rollgate bench --dialect messages --stream --shape moved

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
    /// Do not ask the engine directly: no added latency is shown.
    #[arg(long)]
    no_direct: bool,
    /// Exit with 1 where a median is over its limit.
    #[arg(long)]
    limits: bool,
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
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

/// What is set up once.
struct Setting {
    directory: tempfile::TempDir,
    model: Arc<Model>,
    model_dir: PathBuf,
    cores: Cores,
    load: Load,
}

/// Runs all cells and reports.
pub fn run(args: &BenchArgs) -> anyhow::Result<Exit> {
    crate::logging::start("warn", crate::config::LogFormat::Text)?;
    let kinds = kinds(args)?;
    let started_at_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
    let setting = setting(args)?;
    let bar = progress(kinds.len() as u64 * u64::from(args.repeats));
    let mut header = header(args, &setting, started_at_ms);
    let mut cells = Vec::new();
    for kind in kinds {
        cells.push(run_cell(args, &setting, kind, &mut header, &bar)?);
    }
    bar.finish_and_clear();
    let report = Report { format: FORMAT, header, cells };
    print!("{}", table(&report));
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let wrong = report.cells.iter().any(Cell::is_wrong);
    let over = args.limits && report.cells.iter().any(Cell::is_over_limit);
    Ok(if wrong || over { Exit::Failed } else { Exit::Well })
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

fn setting(args: &BenchArgs) -> anyhow::Result<Setting> {
    let directory = tempfile::tempdir().map_err(Stop::environment)?;
    let model_dir = match args.model.clone().or_else(cached_model) {
        Some(dir) => dir.canonicalize().unwrap_or(dir),
        None => {
            let dir = directory.path().join(crate::demo::MODEL_NAME);
            crate::demo::write(&dir).map_err(Stop::environment)?;
            dir
        }
    };
    let name = crate::model_dir::name_of(&model_dir);
    let model = crate::model_dir::load(&model_dir, &name, Some(MAX_CONTEXT), false)
        .map_err(Stop::wrong_use)?;
    let cores = Cores::share(args.shards).map_err(Stop::environment)?;
    machine::pin(&[cores.load]).map_err(Stop::environment)?;
    let config =
        LoadConfig { model: Arc::clone(&model), max_context: MAX_CONTEXT, seed: args.seed };
    let load = Load::start(config).map_err(Stop::environment)?;
    Ok(Setting { directory, model, model_dir, cores, load })
}

/// The Qwen3 tokenizer that the tests with real engines use, where it is.
fn cached_model() -> Option<PathBuf> {
    let cache = std::env::var_os("ROLLGATE_CACHE")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache/rollgate")))?;
    let dir = cache.join("tiny-qwen3-1");
    dir.join("tokenizer.json").is_file().then_some(dir)
}

fn header(args: &BenchArgs, setting: &Setting, started_at_ms: u64) -> Header {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let mut warnings: Vec<String> = setting.cores.warning().into_iter().collect();
    if build == "debug" {
        warnings.push("a debug build: figures mean nothing".to_owned());
    }
    let size = setting.model.tokenizer.size();
    if size < 30_000 {
        warnings.push(format!("a toy vocabulary of {size} tokens: give --model a real one"));
    }
    Header {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("ROLLGATE_COMMIT").map(str::to_owned).or_else(commit),
        build,
        started_at_ms,
        processor: machine::processor(),
        cores: setting.cores.all.len(),
        kernel: machine::kernel(),
        gateway_cores: setting.cores.gateway.clone(),
        load_core: setting.cores.load,
        driver: String::new(),
        shards: args.shards,
        model: format!("{} ({size} tokens)", setting.model.name),
        seed: args.seed,
        warnings,
    }
}

/// The commit of the working directory, where it is one of this project.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    git(&["ls-files", "--error-unmatch", "core/rollgate/Cargo.toml"])?;
    let dirty = if git(&["status", "--porcelain"])?.is_empty() { "" } else { "+changes" };
    Some(format!("{}{dirty}", git(&["rev-parse", "--short", "HEAD"])?))
}

fn progress(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar
}

fn run_cell(
    args: &BenchArgs,
    setting: &Setting,
    kind: Kind,
    header: &mut Header,
    bar: &ProgressBar,
) -> anyhow::Result<Cell> {
    let extent = Extent {
        seconds: args.seconds,
        turns: args.turns,
        think: Duration::from_millis(args.think_ms),
        checked: args.check,
    };
    let mut runs = Vec::new();
    for _ in 0..args.repeats {
        bar.set_message(format!("{} {} x {}", kind.shape, kind.dialect.name(), kind.sessions));
        let directory = tempfile::tempdir_in(setting.directory.path())?;
        let gateway = Gateway::start(&Wanted {
            directory: directory.path(),
            model: &setting.model_dir,
            name: &setting.model.name,
            max_context: MAX_CONTEXT,
            engine: setting.load.engine(),
            shards: args.shards,
            driver: &args.driver,
            cores: &setting.cores.gateway,
            own_core: setting.cores.load,
        })?;
        header.driver.clone_from(&gateway.driver);
        let mut run = cell::measure(&setting.load, Subject::Rollgate(&gateway), kind, extent)?;
        let log = gateway.log();
        if run.errors + run.wrong > 0 && !log.is_empty() {
            run.words.push(format!("the gateway logged: {log}"));
        }
        runs.push(run);
        bar.inc(1);
    }
    let direct = match args.no_direct {
        true => None,
        false => {
            let extent = Extent { seconds: DIRECT_S.min(args.seconds), ..extent };
            Some(cell::measure(&setting.load, Subject::Direct, kind, extent)?.latency)
        }
    };
    Ok(Cell {
        gateway: "rollgate".to_owned(),
        shape: kind.shape.name().to_owned(),
        dialect: kind.dialect.name().to_owned(),
        stream: kind.stream,
        sessions: kind.sessions,
        runs,
        direct,
        limit_us: kind.shape.limit_us(kind.sessions),
    })
}
