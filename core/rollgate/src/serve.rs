//! `rollgate serve`: gateway and control port of one node.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use rollgate_controller::api::{Api, ApiConfig};
use rollgate_shards::Gate;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{self, Settled};
use crate::exit::{Exit, Stop};
use crate::node::{self, Plane};

/// Serves agents and the control port until SIGTERM or Ctrl-C; then drains. A second signal ends it
/// at once.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  rollgate serve -c node.toml
  ROLLGATE_SHARDS__COUNT=4 rollgate serve -c node.toml --json

Exit codes: 0 drained; 2 wrong configuration; 3 engine or port; 130 ended at once.")]
pub struct ServeArgs {
    /// The node's configuration (docs/configuration.md).
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Print the addresses as one JSON object when ready.
    #[arg(long)]
    json: bool,
}

/// Serves a node.
pub fn run(args: &ServeArgs) -> anyhow::Result<Exit> {
    let settled = config::load(&args.config, std::env::vars()).map_err(Stop::wrong_use)?;
    crate::logging::start(&settled.log.level, settled.log.format)?;
    let token = token(&settled)?;
    let gate = gate(&settled)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("control")
        .enable_all()
        .build()?;
    runtime.block_on(serve(args, &settled, token, gate))
}

async fn serve(
    args: &ServeArgs,
    settled: &Settled,
    token: Token,
    gate: Gate,
) -> anyhow::Result<Exit> {
    let public_url = &settled.agents.public_url;
    let api = Api::bind(ApiConfig {
        listen: settled.control.listen,
        token: token.text,
        public_url: (!public_url.is_empty()).then(|| public_url.clone()),
        model: settled.model.name.clone(),
        node: settled.node.id.clone(),
    })
    .await
    .map_err(Stop::environment)?;
    announce(args, settled, &gate, &api, token.file.as_deref())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let asked_to_end = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    let (drain, draining) = tokio::sync::oneshot::channel::<()>();
    // The control port answers while the data plane drains, so that people can look.
    let control = tokio::spawn(api.serve(gate.clone(), async move {
        let _ = draining.await;
    }));
    tokio::select! {
        () = asked_to_end => {}
        () = gate.ended() => {
            return Err(Stop::environment("the data plane died; see the log above").into());
        }
    }
    tracing::info!("draining");
    let mut terminate = signal(SignalKind::terminate())?;
    let exit = tokio::select! {
        () = gate.drain() => Exit::Well,
        _ = terminate.recv() => Exit::Interrupted,
        _ = tokio::signal::ctrl_c() => Exit::Interrupted,
    };
    if exit == Exit::Interrupted {
        return Ok(exit);
    }
    // Fails only when the control port has ended already.
    let _ = drain.send(());
    control.await??;
    Ok(exit)
}

fn gate(settled: &Settled) -> anyhow::Result<Gate> {
    // The tokenizer comes first: a wrong directory is found without any engine.
    let max_context = (settled.model.max_context > 0).then_some(settled.model.max_context);
    let inject = settled.model.inject == config::Inject::Engine;
    let load = |max_context| {
        crate::model_dir::load(&settled.model.dir, &settled.model.name, max_context, inject)
            .map_err(|error| Stop::wrong_use(format!("model.dir: {error:#}")))
    };
    let model = load(max_context)?;
    let side = node::engine_side(&settled.engines, Some(&settled.model.name))?;
    // An engine may serve less context than the model has.
    let model = match (max_context, side.max_context) {
        (None, Some(engine)) if engine < model.max_context => load(Some(engine))?,
        _ => model,
    };
    let plane = Plane {
        node: settled.node.id.clone(),
        listen: settled.agents.listen,
        shards: settled.shards.clone(),
        limits: settled.limits.clone(),
        keepalive_s: settled.agents.keepalive_s,
        idle_evict_s: settled.sessions.idle_evict_s,
        sessions: settled.session_defaults(),
        engines: settled.engines.clone(),
    };
    Ok(node::start(plane, &side, model, &settled.node.state_dir)?)
}

struct Token {
    text: String,
    /// Where it is kept, when it was not in the configuration.
    file: Option<PathBuf>,
}

/// The configured token, else the one in the state directory, made at the first start.
fn token(settled: &Settled) -> Result<Token, Stop> {
    if !settled.control.token.is_empty() {
        return Ok(Token { text: settled.control.token.clone(), file: None });
    }
    let file = settled.node.state_dir.join("control.token");
    let text = kept_token(&file).map_err(|error| {
        Stop::environment(format!("the control token {}: {error}", file.display()))
    })?;
    Ok(Token { text, file: Some(file) })
}

fn kept_token(file: &Path) -> std::io::Result<String> {
    match std::fs::read_to_string(file) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(std::io::Error::other)?;
    let text = format!("rgc-{:032x}", u128::from_ne_bytes(bits));
    let mut opened = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)?;
    opened.write_all(text.as_bytes())?;
    opened.sync_all()?;
    Ok(text)
}

fn announce(
    args: &ServeArgs,
    settled: &Settled,
    gate: &Gate,
    api: &Api,
    token_file: Option<&Path>,
) -> anyhow::Result<()> {
    let (agents, control) = (gate.agents_addr(), api.addr());
    if args.json {
        let line = serde_json::json!({
            "agents": format!("http://{agents}"),
            "control": format!("http://{control}"),
            "token_file": token_file,
        });
        println!("{line}");
    } else {
        println!("agents   http://{agents}");
        println!("control  http://{control}");
        if let Some(file) = token_file {
            println!("token    {}", file.display());
        }
        let driver = node::driver_name(gate.driver());
        println!("model    {}, {} shards on {driver}", settled.model.name, settled.shards.count);
    }
    std::io::stdout().flush()?;
    Ok(())
}
