//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::exit::{Exit, Stop};
use crate::{agent, agents, bench, config, engine, inspect, model_check, run, serve, verify};

/// A gateway and rollout runtime for agentic reinforcement learning.
///
/// Black-box agents speak OpenAI Chat, OpenAI Responses or Anthropic Messages to it; it speaks token
/// ids to vLLM or SGLang; what was sampled comes out as training samples, bit-exact.
#[derive(Parser, Debug)]
#[command(
    name = "rollgate",
    version,
    about,
    long_about,
    after_help = "Examples:
  rollgate run --demo --n 8 -o out          eight attempts on embedded defaults, no set-up
  rollgate verify out                       check what came out
  rollgate inspect out                      look at it, as one HTML page
  rollgate model check ./Qwen3-8B           what its chat template does to history
  rollgate agents install mini-swe-agent    an agent from its registry, to be used offline
  rollgate serve -c node.toml               gateway and control port of one node
  rollgate bench --shape coding             what a turn costs on this machine
  rollgate run tasks.jsonl --agent mini-swe-agent --engine http://127.0.0.1:8000 --model ./Qwen3-8B

Exit codes: 0 all well; 1 some attempts failed for reasons outside the agent, or a check found
something; 2 wrong use or configuration; 3 engine, sandbox or port; 130 interrupted."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Run(Box<run::RunArgs>),
    Serve(serve::ServeArgs),
    Engine(engine::EngineArgs),
    Bench(Box<bench::BenchArgs>),
    Verify(verify::VerifyArgs),
    Inspect(inspect::InspectArgs),
    /// Agents as bundles, to be used offline.
    #[command(subcommand)]
    Agents(agents::AgentsCommand),
    /// Model directories.
    #[command(subcommand)]
    Model(ModelCommand),
    /// Configuration files.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// The scripted agent, run by sandboxes.
    #[command(hide = true)]
    Agent(agent::AgentArgs),
}

#[derive(Subcommand, Debug)]
enum ModelCommand {
    Check(model_check::ModelCheckArgs),
}

#[derive(Subcommand, Debug)]
enum ConfigCommand {
    /// Checks a node's configuration and prints its settled form.
    #[command(after_help = "Example:
  rollgate config check node.toml")]
    Check {
        /// The file.
        file: PathBuf,
        /// Print JSON instead of TOML.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command that the arguments name.
pub(crate) fn run() -> anyhow::Result<Exit> {
    match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Engine(args) => engine::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Agents(command) => agents::run(&command),
        Command::Model(ModelCommand::Check(args)) => model_check::run(&args),
        Command::Config(ConfigCommand::Check { file, json }) => check(&file, json),
        Command::Agent(args) => {
            agent::run(&args)?;
            Ok(Exit::Well)
        }
    }
}

fn check(file: &std::path::Path, json: bool) -> anyhow::Result<Exit> {
    let mut settled = config::load(file, std::env::vars()).map_err(Stop::wrong_use)?;
    if !settled.control.token.is_empty() {
        settled.control.token = "(set)".to_owned();
    }
    crate::logging::check(&settled.log.level)?;
    let max_context = (settled.model.max_context > 0).then_some(settled.model.max_context);
    let inject = settled.model.inject == config::Inject::Engine;
    crate::model_dir::load(&settled.model.dir, &settled.model.name, max_context, inject)
        .map_err(|error| Stop::wrong_use(format!("{}: model.dir: {error:#}", file.display())))?;
    let text =
        if json { serde_json::to_string_pretty(&settled)? } else { toml::to_string(&settled)? };
    println!("{}", text.trim_end());
    Ok(Exit::Well)
}
