//! `rollgate engine`: the scripted engine as a process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rollgate_bench::engine::{EngineConfig, Script, Shape, read_script, run_forever};

use crate::exit::{Exit, Stop};

/// A scripted engine: the HTTP of vLLM or SGLang, answers from a script, deterministic by seed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  rollgate engine
  rollgate engine --shape sglang --port 30000 --script faults.json
  rollgate engine --model ./Qwen3-8B --name qwen3

A script is a JSON file:
  {\"replies\": [{\"reasoning\": \"…\", \"tool_calls\": [{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}]},
               {\"content\": \"Done.\", \"non_canonical\": 2, \"delay_ms\": 50},
               {\"match\": {\"turn\": 4}, \"content\": \"x\", \"fault\": {\"status\": 503}, \"times\": 2}],
   \"otherwise\": {\"content\": \"Nothing left to do.\"}, \"version_bumps\": [[10, \"v2\"]]}
The full form is described in docs/engine-script.md.")]
pub struct EngineArgs {
    /// Whose HTTP to speak.
    #[arg(long, value_enum, default_value_t = ShapeName::Vllm)]
    shape: ShapeName,
    /// Directory with tokenizer and template; default: the embedded demo model.
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Name to serve the model under.
    #[arg(long)]
    name: Option<String>,
    /// Tokens of context to serve; default: what the model's files say.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    max_context: Option<u32>,
    /// Address to listen on.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// Port; 0 takes a free one and prints it.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// What to answer; default: the demonstration's episode.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Decides log-probabilities and non-canonical splits.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Label of the weights.
    #[arg(long, default_value = "v1")]
    weight_version: String,
    /// Tokens per block of the prefix cache.
    #[arg(long, default_value_t = 16)]
    block_tokens: u32,
    /// Append every generation call to this file, as JSON, one a line.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print the address as JSON.
    #[arg(long)]
    json: bool,
}

/// Values of `--shape`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShapeName {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
}

/// Serves until it is killed.
pub fn run(args: &EngineArgs) -> anyhow::Result<Exit> {
    let name = args.name.as_deref();
    let model = match &args.model {
        None => crate::demo::with_context(args.max_context)?,
        Some(dir) => {
            let name = name.map_or_else(|| crate::model_dir::name_of(dir), str::to_owned);
            crate::model_dir::load(dir, &name, args.max_context, false).map_err(wrong_use)?
        }
    };
    let script = match &args.script {
        None => Script::demo(),
        Some(path) => read_script(path).map_err(Stop::wrong_use)?,
    };
    let served = model.name.clone();
    let config = EngineConfig {
        listen: SocketAddr::new(args.host, args.port),
        shape: match args.shape {
            ShapeName::Vllm => Shape::Vllm,
            ShapeName::Sglang => Shape::Sglang,
        },
        script,
        seed: args.seed,
        version: args.weight_version.clone(),
        block_tokens: args.block_tokens,
        record: args.record.clone(),
        ..EngineConfig::new(model)
    };
    let json = args.json;
    run_forever(config, |addr| {
        if json {
            println!(
                "{}",
                serde_json::json!({"engine": format!("http://{addr}"), "model": served})
            );
        } else {
            println!("engine  http://{addr}  model {served}");
        }
    })
    .map_err(Stop::environment)?;
    Ok(Exit::Environment)
}

fn wrong_use(error: anyhow::Error) -> Stop {
    Stop::wrong_use(error)
}
