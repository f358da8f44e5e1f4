//! From arguments to a job and the data plane that it runs on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rollgate_bench::engine::{EngineConfig, EngineHandle, start};
use rollgate_controller::hooks::Hook;
use rollgate_controller::job::Job;
use rollgate_controller::plan::{JobBudget, Policy, Rate};
use rollgate_controller::pool::PoolConfig;
use rollgate_controller::pool::watermark::{Marks, Watch};
use rollgate_controller::programs::Programs;
use rollgate_controller::reach::BaseUrls;
use rollgate_controller::runtime::Served;
use rollgate_controller::sink::RunSettings;
use rollgate_controller::task::{self, Agent, Task};
use rollgate_pipeline::exchange::SessionDefaults;
use rollgate_pipeline::render::Model;
use rollgate_shards::Gate;
use serde_json::json;

use super::place::{self, Place, path_env};
use super::{BackendName, RunArgs, programs};
use crate::config::{self, Places};
use crate::exit::Stop;
use crate::node::{self, EngineSide, Plane};

/// What a run stands on.
pub(super) struct Setting {
    pub(super) job: Job,
    pub(super) gate: Gate,
    /// The demonstration's engine, which lives as long as the run.
    pub(super) engine: Option<EngineHandle>,
}

/// The model's text side and where it came from.
struct Text {
    model: Arc<Model>,
    dir: String,
}

impl Setting {
    /// To be called outside of the runtime, which the backend is made for.
    pub(super) fn new(args: &RunArgs, runtime: &tokio::runtime::Runtime) -> anyhow::Result<Self> {
        let places = match &args.config {
            Some(path) => config::load_places(path, std::env::vars()).map_err(Stop::wrong_use)?,
            None => Places::default(),
        };
        let tasks = tasks(args)?;
        let unnamed = tasks.iter().any(|task| task.agent.is_none());
        if args.agent == "command" && args.agent_arg.is_empty() && unnamed {
            let message = "--agent command needs the command line: --agent-arg PROGRAM, and one \
                           --agent-arg for each of its arguments";
            return Err(Stop::wrong_use(message).into());
        }
        let place = runtime.block_on(async { place::make(args, &places) })?;
        let reach = runtime.block_on(place.backend.reach()).map_err(Stop::environment)?;
        let (engines, engine) = engines(args)?;
        let side = node::engine_side(&engines, args.model_name.as_deref())?;
        let text = text(args, &side)?;
        let plane = Plane {
            node: "run".to_owned(),
            listen: place::listen(&reach, args)?,
            shards: config::Shards {
                count: args.shards.unwrap_or_else(config::default_shards),
                driver: config::ShardDriver::Auto,
                pin: false,
                durability: config::Durability::Write,
            },
            limits: places.limits.clone(),
            keepalive_s: 5,
            idle_evict_s: 600,
            sessions: SessionDefaults::default(),
            engines,
        };
        let path = matches!(args.backend, BackendName::Local).then(path_env);
        let agent = Agent { args: args.agent_arg.clone(), ..Agent::named(&args.agent) };
        let programs = programs::find(&tasks, &agent, args.agents.as_deref(), path.as_deref())?;
        let state_dir = args.out.join("state");
        let gate = node::start(plane, &side, Arc::clone(&text.model), &state_dir)?;
        let urls = args.reach.as_deref().map(|url| BaseUrls::new(Some(url), gate.agents_addr()));
        let made = Made { place, pool: places.pool, hooks: places.hooks, urls, programs };
        let job = job(args, tasks, agent, made, &text);
        Ok(Self { job, gate, engine })
    }
}

/// The tasks. What was passed over in reading them is told.
fn tasks(args: &RunArgs) -> Result<Vec<Task>, Stop> {
    let Some(path) = &args.tasks else {
        let path = Path::new("the demonstration's task");
        return task::parse(path, crate::demo::TASK).map_err(Stop::wrong_use);
    };
    let columns = args.columns.clone().unwrap_or_default();
    let loaded = task::load(path, &columns).map_err(Stop::wrong_use)?;
    for remark in &loaded.remarks {
        tracing::warn!("{remark}");
    }
    let images = loaded.tasks.iter().filter(|task| task.image.is_some()).count();
    if images > 0 && matches!(args.backend, BackendName::Local) {
        tracing::warn!(
            "{images} tasks name an image, which local sandboxes have not: they run on this machine \
             as it is"
        );
    }
    Ok(loaded.tasks)
}

fn engines(args: &RunArgs) -> Result<(Vec<config::Engine>, Option<EngineHandle>), Stop> {
    let shards = args.shards.unwrap_or_else(config::default_shards);
    let max_in_flight = config::default_in_flight(shards);
    let engine = |url: String| config::Engine { url, kind: config::Kind::Auto, max_in_flight };
    if args.demo {
        let model =
            crate::demo::model().map_err(|error| Stop::environment(format!("{error:#}")))?;
        let handle = start(EngineConfig::new(model)).map_err(Stop::environment)?;
        return Ok((vec![engine(format!("http://{}", handle.addr()))], Some(handle)));
    }
    for url in &args.engine {
        if !url.starts_with("http://") {
            return Err(Stop::wrong_use(format!("--engine {url:?} must begin with http://")));
        }
    }
    let urls = args.engine.iter().map(|url| engine(config::base_url(url).to_owned()));
    Ok((urls.collect(), None))
}

/// The engine's word, which the argument may only lower.
fn max_context(args: &RunArgs, side: &EngineSide) -> Result<Option<u32>, Stop> {
    match (args.max_context, side.max_context) {
        (Some(0), _) => Err(Stop::wrong_use("--max-context must be at least 1")),
        (Some(asked), Some(most)) if asked > most => Err(Stop::wrong_use(format!(
            "--max-context {asked} is more than the engine serves: {most}"
        ))),
        (Some(asked), _) => Ok(Some(asked)),
        (None, most) => Ok(most),
    }
}

fn text(args: &RunArgs, side: &EngineSide) -> anyhow::Result<Text> {
    match &args.model {
        None => Ok(Text { model: crate::demo::model()?, dir: "demo".to_owned() }),
        Some(dir) => {
            let max_context = max_context(args, side)?;
            let model = crate::model_dir::load(dir, &side.model, max_context, false)
                .map_err(|error| Stop::wrong_use(format!("{error:#}")))?;
            let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
            Ok(Text { model, dir: dir.to_string_lossy().into_owned() })
        }
    }
}

/// What a job is made of, besides tasks and model.
struct Made {
    place: Place,
    pool: config::Pool,
    hooks: Vec<Hook>,
    urls: Option<BaseUrls>,
    programs: Programs,
}

fn job(args: &RunArgs, tasks: Vec<Task>, agent: Agent, made: Made, text: &Text) -> Job {
    let run = RunSettings {
        format: args.format.into(),
        settings: json!({
            "tasks": tasks,
            "agent": agent,
            "backend": made.place.backend.name(),
            "n": args.n,
            "model": text.model.name,
            "tokenizer": text.model.tokenizer_digest,
            "template": text.model.template_digest,
        }),
        notes: json!({
            "model_dir": text.dir,
            "engines": args.engine,
            "concurrency": args.concurrency,
            "max_context": text.model.max_context,
        }),
    };
    let (policy, pool) = (policy(args, &made), pool(args, &made));
    let mut dirs = made.place.dirs;
    dirs.push(args.out.clone());
    Job {
        tasks,
        n: args.n,
        agent,
        harnesses: rollgate_harness::by_name,
        backend: made.place.backend,
        served: Served { model: text.model.name.clone(), max_context: text.model.max_context },
        programs: made.programs,
        urls: made.urls,
        policy,
        hooks: made.hooks,
        sandboxes: made.place.sandboxes,
        pool,
        watch: Watch {
            dirs,
            marks: Marks { disk_mib: made.pool.disk_mib, inodes: made.pool.inodes },
        },
        cancels: None,
        out: args.out.clone(),
        run,
    }
}

fn policy(args: &RunArgs, made: &Made) -> Policy {
    let rate = match (made.pool.creates_per_minute, made.pool.creates_burst) {
        (0, 0) => made.place.rate,
        (0, burst) => made.place.rate.map(|rate| Rate { burst, ..rate }),
        (per_minute, burst) => Some(Rate { per_minute, burst: burst.max(1) }),
    };
    Policy {
        concurrency: args.concurrency,
        starting: starting(args),
        retries: args.retries,
        rate,
        offer: made.place.offer,
        budget: JobBudget {
            tries: args.max_tries,
            tokens: args.max_tokens,
            time_ms: args.max_time_s.map(|seconds| seconds.saturating_mul(1_000)),
        },
        // Different runs on one machine must not move in step.
        seed: u64::from(std::process::id()),
        ..Policy::default()
    }
}

fn pool(args: &RunArgs, made: &Made) -> PoolConfig {
    PoolConfig {
        warm: args.pool.unwrap_or(made.pool.warm),
        refill: made.pool.refill,
        creates: starting(args),
        idle: Duration::from_secs(made.pool.idle_s),
    }
}

/// Attempts that may be starting at once: what is asked for, else eight a core.
fn starting(args: &RunArgs) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    args.starting.unwrap_or(8 * cores).min(args.concurrency)
}
