//! What is set up once for all cells, and what is told of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rollgate_bench::load::{Load, LoadConfig};
use rollgate_bench::report::Header;
use rollgate_pipeline::render::Model;

use super::BenchArgs;
use super::machine::{self, Cores};
use crate::exit::Stop;

/// Longest prompt plus answer that engine and gateway are told of: room for the longest shape.
pub const MAX_CONTEXT: u32 = 1_000_000;
/// A vocabulary below this is no real one.
const REAL_TOKENS: u32 = 30_000;

/// What is set up once.
pub struct Setting {
    /// Everything that is written; gone with the bench.
    pub directory: tempfile::TempDir,
    /// The model.
    pub model: Arc<Model>,
    /// Its directory.
    pub model_dir: PathBuf,
    /// Who runs where.
    pub cores: Cores,
    /// Load and engine.
    pub load: Load,
    started_at_ms: u64,
}

impl Setting {
    /// Starts load and engine.
    pub fn new(args: &BenchArgs) -> anyhow::Result<Self> {
        let started_at_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
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
        Ok(Self { directory, started_at_ms, model, model_dir, cores, load })
    }

    /// What is known before anything was measured.
    pub fn header(&self, args: &BenchArgs) -> Header {
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        let mut warnings: Vec<String> = self.cores.warning().into_iter().collect();
        if build == "debug" {
            warnings.push("a debug build: figures mean nothing".to_owned());
        }
        let size = self.model.tokenizer.size();
        if size < REAL_TOKENS {
            warnings.push(format!("a toy vocabulary of {size} tokens: give --model a real one"));
        }
        Header {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("ROLLGATE_COMMIT").map(str::to_owned).or_else(commit),
            build,
            started_at_ms: self.started_at_ms,
            processor: machine::processor(),
            cores: self.cores.all.len(),
            kernel: machine::kernel(),
            gateway_cores: self.cores.gateway.clone(),
            load_core: self.cores.load,
            driver: String::new(),
            shards: args.shards,
            model: format!("{} ({size} tokens)", self.model.name),
            seed: args.seed,
            warnings,
        }
    }
}

/// The Qwen3 tokenizer that the tests with real engines use, where it is.
fn cached_model() -> Option<PathBuf> {
    let cache = std::env::var_os("ROLLGATE_CACHE")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache/rollgate")))?;
    let dir = cache.join("tiny-qwen3-1");
    dir.join("tokenizer.json").is_file().then_some(dir)
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
