//! Composition: from settings to a running data plane.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rollgate_pipeline::engine::EngineKind;
use rollgate_pipeline::exchange::{Gatehouse, SessionDefaults};
use rollgate_pipeline::id::ShardCount;
use rollgate_pipeline::limits::Limits;
use rollgate_pipeline::render::Model;
use rollgate_shards::{Driver, DriverChoice, Durability, EngineTarget, Gate, GateConfig};

use crate::config;
use crate::exit::Stop;

/// What a data plane is made of, whichever command asks for it.
pub struct Plane {
    /// Name of the node.
    pub node: String,
    /// Address of the agents' port.
    pub listen: SocketAddr,
    /// The shards.
    pub shards: config::Shards,
    /// Bounds.
    pub limits: Limits,
    /// Seconds between keepalives after the first; 0: there are none.
    pub keepalive_s: u64,
    /// Idle sessions leave memory after this long.
    pub idle_evict_s: u64,
    /// What sessions get that ask for nothing else.
    pub sessions: SessionDefaults,
    /// The engines; at least one.
    pub engines: Vec<config::Engine>,
}

/// After how long without a byte a stream gets its first sign of life.
const KEEPALIVE_FIRST_MS: u64 = 3_000;

/// Sockets of a thousand agents, their engine connections and some journals.
const OPEN_FILES_WANTED: u64 = 4_096;

/// What the engines are, settled before the model is loaded.
pub struct EngineSide {
    /// The HTTP they speak.
    pub kind: EngineKind,
    /// The name they serve the model under.
    pub model: String,
    /// Their context length, where they say.
    pub max_context: Option<u32>,
}

/// Asks every engine. With `name`, the model must be served under it. All must speak the same HTTP;
/// the smallest context counts.
///
/// An engine that is down does not stop a gateway whose configuration says what it speaks.
pub fn engine_side(engines: &[config::Engine], name: Option<&str>) -> Result<EngineSide, Stop> {
    let (mut refusals, mut sides) = (Vec::new(), Vec::new());
    for engine in engines {
        match crate::probe::ask(&engine.url) {
            Ok(facts) => sides.push(EngineSide {
                kind: engine.kind.named().unwrap_or(facts.kind),
                model: served_name(&engine.url, &facts.models, name)?,
                max_context: facts.max_context,
            }),
            Err(refusal) => {
                refusals.push(refusal);
                if let (Some(kind), Some(name)) = (engine.kind.named(), name) {
                    sides.push(EngineSide { kind, model: name.to_owned(), max_context: None });
                }
            }
        }
    }
    let Some(mut side) = sides.pop() else {
        return Err(Stop::environment(format!(
            "no engine can be asked what it is: {}. Start it, or set engines.kind and model.name",
            refusals.join("; ")
        )));
    };
    if !refusals.is_empty() {
        tracing::warn!(?refusals, "not every engine answers yet; using the configuration as it is");
    }
    let contexts = sides.iter().map(|other| other.max_context).chain([side.max_context]);
    let contexts: Vec<u32> = contexts.flatten().collect();
    if contexts.windows(2).any(|pair| pair[0] != pair[1]) {
        tracing::warn!(?contexts, "the engines' contexts differ: the shortest counts for all");
    }
    for other in sides {
        if (other.kind, &other.model) != (side.kind, &side.model) {
            return Err(Stop::wrong_use(format!(
                "the engines differ: {} as {:?} and {} as {:?}; all must speak the same HTTP and \
                 serve the model under the same name",
                side.kind.name(),
                side.model,
                other.kind.name(),
                other.model
            )));
        }
        side.max_context = [side.max_context, other.max_context].into_iter().flatten().min();
    }
    Ok(side)
}

fn served_name(url: &str, served: &[String], name: Option<&str>) -> Result<String, Stop> {
    match name {
        None => served
            .first()
            .cloned()
            .ok_or_else(|| Stop::environment(format!("{url} serves no model"))),
        Some(name) if served.is_empty() || served.iter().any(|served| served == name) => {
            Ok(name.to_owned())
        }
        // With a single model there is nothing to confuse: agents use any name anyway.
        Some(name) => match served {
            [only] => {
                tracing::info!(%url, %name, served = %only, "using the engine's name of the model");
                Ok(only.clone())
            }
            several => Err(Stop::wrong_use(format!(
                "{url} serves {several:?}, and none is called {name:?}: set model.name"
            ))),
        },
    }
}

/// Lets the process open as many files as the system allows it: each agent is a socket.
fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?
        }
        Ok(hard)
    });
    match raised {
        Ok(files) if files < OPEN_FILES_WANTED => {
            tracing::warn!(files, "few files may be open at once; each agent needs one (ulimit -n)")
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the limit of open files cannot be raised"),
    }
}

/// Starts the data plane.
pub fn start(
    plane: Plane,
    engine: &EngineSide,
    model: Arc<Model>,
    state_dir: &Path,
) -> Result<Gate, Stop> {
    raise_open_files();
    let gatehouse = Gatehouse {
        model,
        engine: engine.kind,
        engine_model: engine.model.clone(),
        limits: plane.limits,
        keepalive_first_ms: if plane.keepalive_s == 0 { u64::MAX } else { KEEPALIVE_FIRST_MS },
        keepalive_next_ms: plane.keepalive_s.saturating_mul(1_000),
        node: plane.node,
        sessions: plane.sessions,
    };
    let engines = plane.engines.iter().map(|engine| EngineTarget {
        url: engine.url.clone(),
        max_in_flight: engine.max_in_flight,
    });
    let config = GateConfig {
        listen: plane.listen,
        shards: ShardCount(plane.shards.count),
        driver: match plane.shards.driver {
            config::ShardDriver::Auto => DriverChoice::Auto,
            config::ShardDriver::Uring => DriverChoice::Uring,
            config::ShardDriver::Epoll => DriverChoice::Epoll,
        },
        pin: plane.shards.pin,
        durability: match plane.shards.durability {
            config::Durability::Write => Durability::Write,
            config::Durability::Fsync => Durability::Fsync,
        },
        state_dir: state_dir.to_owned(),
        engines: engines.collect(),
        gatehouse: Arc::new(gatehouse),
        idle_evict_ms: plane.idle_evict_s * 1_000,
    };
    Gate::start(config).map_err(Stop::environment)
}

/// The driver's name, for people.
pub fn driver_name(driver: Driver) -> &'static str {
    match driver {
        Driver::Uring => "io_uring",
        Driver::Epoll => "epoll (slower: io_uring is not available here)",
    }
}
