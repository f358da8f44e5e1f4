//! `rollgate run`: tasks to samples.

mod place;
mod programs;
mod progress;
mod setting;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rollgate_controller::job::{self, Control, Job};
use rollgate_controller::sink::{Format, SinkError};
use rollgate_controller::task::Columns;
use tokio::sync::watch;

use crate::exit::{Exit, Stop};
use place::BackendName;
use progress::Bar;
use setting::Setting;

/// Runs tasks: each attempt gets a session, a sandbox and an agent, is evaluated, and becomes
/// samples.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  rollgate run --demo --n 8 -o out
  rollgate run tasks.jsonl --agent mini-swe-agent --engine http://127.0.0.1:8000 \\
               --model /models/Qwen3-8B --n 4 --concurrency 64 -o out
  rollgate run terminal-bench/ --agent codex --engine http://127.0.0.1:8000 --model /models/Qwen3-8B
  rollgate run train.parquet --columns prompt=instruction,reward_model=metadata.truth …
  rollgate run tasks.jsonl --agent claude-code --agents /srv/agents \\
               --engine http://127.0.0.1:8000 --model /models/Qwen3-8B
  rollgate run tasks.jsonl --agent command --agent-arg python3 --agent-arg /path/agent.py \\
               --engine http://127.0.0.1:8000 --model /models/Qwen3-8B

The same command again continues a run that was interrupted, or killed: finished attempts are not
made again. The first Ctrl-C starts nothing more and lets attempts end; the second cancels them.

Exit codes: 0 all well; 1 some attempts failed for reasons outside the agent, or samples are
unhealthy; 2 wrong use; 3 engine, sandbox or port; 130 interrupted.")]
pub struct RunArgs {
    /// Tasks: JSON lines, a Harbor task folder or a folder of them, or a Parquet file (docs/tasks.md).
    #[arg(required_unless_present = "demo", conflicts_with = "demo")]
    tasks: Option<PathBuf>,
    /// Which columns of a Parquet file, or keys of JSON lines, hold what a task needs:
    /// `prompt=instruction,extra.id=task_id,*=metadata`.
    #[arg(long, value_name = "COLUMN=KEY,…", conflicts_with = "demo")]
    columns: Option<Columns>,
    /// The demonstration: embedded task, tokenizer, scripted engine and agent; no network.
    #[arg(long)]
    demo: bool,
    /// Harness for tasks that name none: scripted, command, or one of `rollgate agents list`.
    #[arg(long, default_value = "scripted")]
    agent: String,
    /// Further argument of the agent; may be repeated.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    agent_arg: Vec<String>,
    /// Where bundles of agents are kept; default: $ROLLGATE_AGENTS, else
    /// ~/.local/share/rollgate/agents. An agent without a bundle is looked for on PATH.
    #[arg(long, value_name = "DIR")]
    agents: Option<PathBuf>,
    /// Where sandboxes are made.
    #[arg(long, value_enum, default_value_t = BackendName::Local)]
    backend: BackendName,
    /// Image or template of sandboxes whose task names none; a path is a folder with a Dockerfile.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Base URL of an engine; may be repeated.
    #[arg(long, value_name = "URL", required_unless_present = "demo", conflicts_with = "demo")]
    engine: Vec<String>,
    /// Directory with the served model's tokenizer and template.
    #[arg(long, value_name = "DIR", required_unless_present = "demo")]
    model: Option<PathBuf>,
    /// The engines' name of the model; default: what the engine says.
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// Tokens of context that agents may use; default: what the engine says.
    #[arg(long, value_name = "TOKENS", conflicts_with = "demo")]
    max_context: Option<u32>,
    /// Attempts per task.
    #[arg(long, default_value_t = 4)]
    n: u32,
    /// Attempts that run at once.
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// Of them, those that may be starting at once: sandbox, files, set-up. Default: 8 per core.
    #[arg(long, value_name = "N")]
    starting: Option<usize>,
    /// Sandboxes of a kind that are kept warm; default: `pool.warm` of --config, else none.
    #[arg(long, value_name = "N")]
    pool: Option<usize>,
    /// How often an attempt that failed for reasons outside it is made again.
    #[arg(long, default_value_t = 2)]
    retries: u32,
    /// Start at most so many tries, those that are made again included.
    #[arg(long, value_name = "N")]
    max_tries: Option<u64>,
    /// Start nothing more once so many tokens were sampled.
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// Cancel what runs after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    max_time_s: Option<u64>,
    /// File with [pool], [backends.*] and [limits] (docs/configuration.md); a node's file will do.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the gateway listens; default: where sandboxes of the backend see it, any port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// How sandboxes call the gateway, where that differs from its address.
    #[arg(long, value_name = "URL")]
    reach: Option<String>,
    /// Out directory.
    #[arg(short, long, default_value = "out")]
    out: PathBuf,
    /// How samples are written.
    #[arg(long, value_enum, default_value_t = FormatName::Jsonl)]
    format: FormatName,
    /// Shard threads; default: one per core.
    #[arg(long)]
    shards: Option<u16>,
    /// Keep sandboxes' directories, to look at them.
    #[arg(long)]
    keep_sandboxes: bool,
    /// Print the summary as one JSON object, and no progress.
    #[arg(long)]
    json: bool,
    /// Level or filter of the log on stderr.
    #[arg(long, default_value = "warn")]
    log: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatName {
    /// samples-00001.jsonl, rolled at 256 MB.
    Jsonl,
    /// samples/SAMPLE_ID.safetensors.
    Safetensors,
    /// samples-00001.parquet, rolled at 256 MB of JSON; lines until then.
    Parquet,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Jsonl => Format::Jsonl,
            FormatName::Safetensors => Format::Safetensors,
            FormatName::Parquet => Format::Parquet,
        }
    }
}

/// Runs the job and prints what it came to.
pub fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    crate::logging::start(&args.log, crate::config::LogFormat::Text)?;
    if args.concurrency == 0 || args.starting == Some(0) {
        return Err(Stop::wrong_use("--concurrency and --starting must be at least 1").into());
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let setting = Setting::new(args, &runtime)?;
    runtime.block_on(work(args, setting))
}

async fn work(args: &RunArgs, setting: Setting) -> anyhow::Result<Exit> {
    let Setting { job, gate, engine, .. } = setting;
    let mut bar = Bar::new(!args.json);
    bar.say(&format!(
        "{} on {}, gateway at http://{} with {}",
        job.served.model,
        job.backend.isolation(),
        gate.agents_addr(),
        crate::node::driver_name(gate.driver())
    ));
    let (tell, told) = watch::channel(Control::Run);
    let interrupts = tokio::spawn(interrupts(tell.clone()));
    let out = job.out.clone();
    let summary = run_job(job, gate.clone(), told, &mut bar).await;
    interrupts.abort();
    gate.drain().await;
    drop(engine);
    let summary = summary?;
    bar.finish();
    if args.json {
        println!("{}", serde_json::to_string(&summary)?);
    } else {
        println!("{}", progress::table(&summary, &out));
    }
    Ok(if *tell.borrow() != Control::Run {
        Exit::Interrupted
    } else if summary.all_well() && summary.unhealthy.is_empty() {
        Exit::Well
    } else {
        Exit::Failed
    })
}

async fn run_job(
    job: Job,
    gate: rollgate_shards::Gate,
    told: watch::Receiver<Control>,
    bar: &mut Bar,
) -> Result<job::Summary, Stop> {
    let mut show = |progress: job::Progress<'_>| bar.show(&progress);
    job::run(job, gate, told, &mut show).await.map_err(|error| match error {
        job::JobError::Wrong(message) => Stop::wrong_use(message),
        job::JobError::Surroundings(message) => Stop::environment(message),
        job::JobError::Sink(error @ (SinkError::OtherSettings { .. } | SinkError::Foreign(_))) => {
            Stop::wrong_use(error)
        }
        job::JobError::Sink(error) => Stop::environment(error),
    })
}

/// The first interrupt drains, the second aborts, the third ends the program at once.
async fn interrupts(tell: watch::Sender<Control>) {
    for control in [Control::Drain, Control::Abort] {
        if tokio::signal::ctrl_c().await.is_err() {
            return;
        }
        tell.send_replace(control);
        eprintln!(
            "{}",
            match control {
                Control::Drain => "\nlets running attempts end; Ctrl-C again cancels them",
                _ => "\ncancels running attempts; Ctrl-C again ends at once",
            }
        );
    }
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(130);
    }
}
