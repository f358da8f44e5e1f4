//! From arguments to a job and the data plane that it runs on.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use rollgate_backends::local::{Local, LocalConfig};
use rollgate_bench::engine::{EngineConfig, EngineHandle, start};
use rollgate_controller::job::Job;
use rollgate_controller::plan::Policy;
use rollgate_controller::programs::Programs;
use rollgate_controller::runtime::Served;
use rollgate_controller::sink::RunSettings;
use rollgate_controller::task::{self, Agent, Task};
use rollgate_pipeline::exchange::SessionDefaults;
use rollgate_pipeline::limits::Limits;
use rollgate_pipeline::render::Model;
use rollgate_shards::Gate;
use serde_json::json;

use super::{BackendName, RunArgs, programs};
use crate::config;
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
    pub(super) fn new(args: &RunArgs) -> anyhow::Result<Self> {
        let tasks = tasks(args)?;
        let unnamed = tasks.iter().any(|task| task.agent.is_none());
        if args.agent == "command" && args.agent_arg.is_empty() && unnamed {
            let message = "--agent command needs the command line: --agent-arg PROGRAM, and one \
                           --agent-arg for each of its arguments";
            return Err(Stop::wrong_use(message).into());
        }
        let (engines, engine) = engines(args)?;
        let side = node::engine_side(&engines, args.model_name.as_deref())?;
        let text = text(args, &side)?;
        let plane = Plane {
            node: "run".to_owned(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            shards: config::Shards {
                count: args.shards.unwrap_or_else(config::default_shards),
                driver: config::ShardDriver::Auto,
                pin: false,
                durability: config::Durability::Write,
            },
            limits: Limits::default(),
            keepalive_s: 5,
            idle_evict_s: 600,
            sessions: SessionDefaults::default(),
            engines,
        };
        let agent = Agent { args: args.agent_arg.clone(), ..Agent::named(&args.agent) };
        let programs = programs::find(&tasks, &agent, args.agents.as_deref(), &path_env())?;
        let state_dir = args.out.join("state");
        let gate = node::start(plane, &side, Arc::clone(&text.model), &state_dir)?;
        let job = job(args, tasks, agent, programs, &text)?;
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

fn job(
    args: &RunArgs,
    tasks: Vec<Task>,
    agent: Agent,
    programs: Programs,
    text: &Text,
) -> anyhow::Result<Job> {
    let backend = match args.backend {
        BackendName::Local => Local::new(LocalConfig {
            root: sandbox_root()?,
            rollgate: std::env::current_exe().context("cannot find the rollgate program itself")?,
            keep: args.keep_sandboxes,
            path_env: path_env(),
        }),
    };
    let run = RunSettings {
        format: args.format.into(),
        settings: json!({
            "tasks": tasks,
            "agent": agent,
            "backend": "local",
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
    Ok(Job {
        tasks,
        n: args.n,
        agent,
        harnesses: rollgate_harness::by_name,
        backend: Arc::new(backend),
        served: Served { model: text.model.name.clone(), max_context: text.model.max_context },
        programs,
        urls: None,
        policy: Policy { concurrency: args.concurrency, ..Policy::default() },
        out: args.out.clone(),
        run,
    })
}

/// PATH of local sandboxes.
fn path_env() -> String {
    std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned())
}

/// Outside of every work tree, so that an agent's `git` finds its own repository or none.
fn sandbox_root() -> Result<PathBuf, Stop> {
    let user = nix::unistd::getuid();
    Ok(std::env::temp_dir().join(format!("rollgate-{user}")).join("sandboxes"))
}
