//! A scripted engine: speaks the HTTP of vLLM or SGLang over TCP and samples what a script says.
//!
//! It has real ids, log-probabilities that depend on the ids alone, a prefix cache, stops, budgets,
//! aborts and the errors of the engine it stands for. Answers are a function of the script, the
//! seed and the prompt (and, for `times`, `nth` and the like, of the calls that came before). It
//! has no streaming and no batches, and says so when asked.

mod answer;
mod choose;
pub(crate) mod compose;
pub(crate) mod driver;
mod ledger;
mod prefix;
pub(crate) mod score;
mod script;
mod serve;
mod sglang;
mod signal;
mod stage;
mod tokenize;
mod unfinished;
mod vllm;

#[cfg(test)]
pub(crate) mod tests;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use rollgate_pipeline::render::Model;

pub use ledger::{EngineStats, RecordedCall};
pub use script::{
    Parts, SCRIPT_HELP, Script, ScriptError, ScriptedCall, ScriptedFault, ScriptedReply, When,
    parse_script, read_script,
};

use ledger::Ledger;
use stage::Stage;

/// Whose HTTP an engine speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// vLLM's.
    Vllm,
    /// SGLang's.
    Sglang,
}

/// How to start an engine.
#[derive(Clone)]
pub struct EngineConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whose HTTP to speak.
    pub shape: Shape,
    /// The model whose tokens are sampled; its name is the served name.
    pub model: Arc<Model>,
    /// What to say.
    pub script: Script,
    /// Decides log-probabilities and which tokens are said in two pieces.
    pub seed: u64,
    /// Label of the weights at the start.
    pub version: String,
    /// Granularity of the prefix cache, in tokens.
    pub block_tokens: u32,
    /// Where every generation call is appended, as JSON, one a line.
    pub record: Option<PathBuf>,
}

impl EngineConfig {
    /// The demo script in vLLM's shape on a free port of this machine.
    pub fn new(model: Arc<Model>) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            shape: Shape::Vllm,
            model,
            script: Script::demo(),
            seed: 0,
            version: "v1".to_owned(),
            block_tokens: 16,
            record: None,
        }
    }
}

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum EngineStartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {listen}: {reason}; choose another address or a free port")]
    Listen {
        /// The address asked for.
        listen: SocketAddr,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The script cannot be played with this model.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// Calls cannot be recorded.
    #[error("calls cannot be recorded in {path}: {reason}")]
    Record {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The system gave no thread, or neither an io_uring nor an epoll instance.
    #[error("the engine's thread cannot be started: {0}")]
    Environment(std::io::Error),
}

/// A running engine; dropping it stops it.
pub struct EngineHandle {
    addr: SocketAddr,
    ledger: Arc<Ledger>,
    thread: Option<JoinHandle<()>>,
}

impl EngineHandle {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What it did so far.
    pub fn stats(&self) -> EngineStats {
        self.ledger.stats()
    }

    /// How many generation calls it was given.
    pub fn requests(&self) -> u64 {
        self.ledger.stats().calls
    }

    /// The most recent generation calls, oldest first. Very old ones are forgotten.
    pub fn recorded(&self) -> Vec<RecordedCall> {
        self.ledger.recorded()
    }

    /// Whether it still listens: a stopped engine and one that died of a request do not.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Stops listening and closes all connections, answered or not. Returns when that is done.
    pub fn stop(&mut self) {
        self.ledger.stop.raise();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the scripted engine's thread panicked");
        }
    }
}

impl Drop for EngineHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts an engine on a thread of its own.
pub fn start(config: EngineConfig) -> Result<EngineHandle, EngineStartError> {
    let (listener, addr) = listen(config.listen)?;
    let ledger = Arc::new(Ledger::default());
    let (started, outcome) = mpsc::sync_channel(1);
    let of_thread = Arc::clone(&ledger);
    let thread = std::thread::Builder::new()
        .name("scripted-engine".to_owned())
        .spawn(move || {
            let result = run(config, listener, of_thread, || {
                let _ = started.send(Ok(()));
            });
            if let Err(error) = result {
                // Fails when the engine had started before; then it is told of by its closed port.
                let _ = started.send(Err(error));
            }
        })
        .map_err(EngineStartError::Environment)?;
    let handle = EngineHandle { addr, ledger, thread: Some(thread) };
    match outcome.recv() {
        Ok(Ok(())) => Ok(handle),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(EngineStartError::Environment(std::io::Error::other("it ended at once"))),
    }
}

/// Runs an engine on this thread until it dies of a request (see [`Script`]'s `forgiving`), which
/// for vLLM's shape is never. `ready` is told the address when it listens.
pub fn run_forever(
    config: EngineConfig,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), EngineStartError> {
    let (listener, addr) = listen(config.listen)?;
    run(config, listener, Arc::new(Ledger::default()), || ready(addr))
}

fn listen(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), EngineStartError> {
    let failed = |reason| EngineStartError::Listen { listen, reason };
    let listener = TcpListener::bind(listen).map_err(failed)?;
    let addr = listener.local_addr().map_err(failed)?;
    Ok((listener, addr))
}

fn run(
    config: EngineConfig,
    listener: TcpListener,
    ledger: Arc<Ledger>,
    ready: impl FnOnce(),
) -> Result<(), EngineStartError> {
    let shape = config.shape;
    if let Some(path) = &config.record {
        let failed = |reason| EngineStartError::Record { path: path.clone(), reason };
        ledger.record_to(path).map_err(failed)?;
    }
    let stage = Rc::new(Stage::new(config, ledger)?);
    driver::run(serve::serve(listener, stage, shape, ready))
        .and_then(|served| served)
        .map_err(EngineStartError::Environment)
}
