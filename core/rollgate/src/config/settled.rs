//! What is used: every value set, checked, and printable.

use std::net::SocketAddr;
use std::path::PathBuf;

use rollgate_controller::hooks::Hook;
use rollgate_pipeline::engine::EngineKind;
use rollgate_pipeline::exchange::{SessionDefaults, rule_set, scene_set};
use rollgate_pipeline::limits::Limits;
use rollgate_pipeline::record::{HistoryMode, Retention};
use rollgate_pipeline::rules::Rule;
use rollgate_pipeline::scene::SceneRule;
use serde::{Deserialize, Serialize};

use super::places::{self, Backends, Pool};
use super::{ConfigError, Raw};

/// A node's configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settled {
    /// Who it is and where its state lies.
    pub node: Node,
    /// The agents' port.
    pub agents: Agents,
    /// The control port.
    pub control: Control,
    /// The data plane.
    pub shards: Shards,
    /// The served model.
    pub model: Model,
    /// Sessions.
    pub sessions: Sessions,
    /// Bounds.
    pub limits: Limits,
    /// How sandboxes are made and kept.
    pub pool: Pool,
    /// Where they are made.
    pub backends: Backends,
    /// Logging.
    pub log: Log,
    /// Hooks of all attempts.
    pub hooks: Vec<Hook>,
    /// The engines. Last, since TOML wants tables of a list behind plain tables.
    pub engines: Vec<Engine>,
}

/// `[node]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// Name of the node, the first part of its session ids.
    pub id: String,
    /// Journals and the control token lie here.
    pub state_dir: PathBuf,
}

/// `[agents]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agents {
    /// Address of the agents' port.
    pub listen: SocketAddr,
    /// What agents call it, where that differs from `listen`; empty: the same.
    pub public_url: String,
    /// Seconds between keepalives of a stream; the first comes after 3 s. 0: there are none.
    pub keepalive_s: u64,
}

/// `[control]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Control {
    /// Address of the control port.
    pub listen: SocketAddr,
    /// Bearer token; empty: made once and kept in `state_dir/control.token`.
    pub token: String,
}

/// `[shards]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shards {
    /// Shard threads; 0 in the file means one per core.
    pub count: u16,
    /// `auto`, `uring` or `epoll`.
    pub driver: ShardDriver,
    /// Whether each shard is bound to a core of its own.
    pub pin: bool,
    /// `write` or `fsync`.
    pub durability: Durability,
}

/// One of `[[engines]]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Engine {
    /// Base URL.
    pub url: String,
    /// What it speaks; `auto`: it is asked.
    pub kind: Kind,
    /// Most calls at once from this node.
    pub max_in_flight: u32,
}

/// `[model]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Model {
    /// Directory with `tokenizer.json`, `tokenizer_config.json` and `config.json`.
    pub dir: PathBuf,
    /// Name of the model at the engines.
    pub name: String,
    /// Longest prompt plus answer; 0: as the model's files say.
    pub max_context: u32,
    /// What becomes of earlier reasoning where the template leaves it out: `keep` or `template`.
    pub retention: Retention,
    /// Control text in messages: `strict` makes it plain text, `engine` lets it act.
    pub inject: Inject,
}

/// `[sessions]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sessions {
    /// What the engine is shown of rewritten history: `sticky` or `faithful`.
    pub history: HistoryMode,
    /// Idle sessions leave memory after this long.
    pub idle_evict_s: u64,
    /// How long an exchange whose agent is gone waits for the same request.
    pub orphan_grace_ms: u64,
    /// What agents may change in their history, behind the sessions' own rules.
    pub rules: Vec<Rule>,
    /// What exchanges are for, behind the sessions' own rules.
    pub scenes: Vec<SceneRule>,
}

impl Settled {
    /// What sessions get that ask for nothing else.
    pub fn session_defaults(&self) -> SessionDefaults {
        SessionDefaults {
            history: self.sessions.history,
            retention: self.model.retention,
            rules: self.sessions.rules.clone(),
            scenes: self.sessions.scenes.clone(),
            orphan_grace_ms: self.sessions.orphan_grace_ms,
        }
    }
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Log {
    /// A level, or a filter such as `info,rollgate_shards=debug`.
    pub level: String,
    /// `text` or `json`.
    pub format: LogFormat,
}

/// Values of `shards.driver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardDriver {
    /// io_uring where it works, else epoll, said loudly.
    Auto,
    /// io_uring or no start.
    Uring,
    /// epoll.
    Epoll,
}

/// Values of `shards.durability`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Written: survives `kill -9`.
    Write,
    /// Synced too: survives power loss.
    Fsync,
}

/// Values of `engines.kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Ask it.
    Auto,
    /// vLLM's `/inference/v1/generate`.
    Vllm,
    /// vLLM's `/v1/completions`.
    VllmCompletions,
    /// SGLang's `/generate`.
    Sglang,
}

/// Values of `model.inject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inject {
    /// Control text in messages is plain text.
    Strict,
    /// Control text in messages acts, as at engines that do not protect.
    Engine,
}

/// Values of `log.format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

impl Kind {
    /// The kind that was named, if one was.
    pub fn named(self) -> Option<EngineKind> {
        match self {
            Kind::Auto => None,
            Kind::Vllm => Some(EngineKind::Vllm),
            Kind::VllmCompletions => Some(EngineKind::VllmCompletions),
            Kind::Sglang => Some(EngineKind::Sglang),
        }
    }
}

/// One shard per core.
pub fn default_shards() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u16)
}

/// Most calls of an engine at once, where nothing is said.
pub fn default_in_flight(shards: u16) -> u32 {
    u32::from(shards).max(256)
}

/// The URL below which an engine's routes begin: without slashes at its end, and without the `/v1`
/// that people copy from clients' settings.
pub fn base_url(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    url.strip_suffix("/v1").unwrap_or(url).trim_end_matches('/')
}

/// Fills in defaults and checks every value.
pub(super) fn settle(path: &str, raw: Raw) -> Result<Settled, ConfigError> {
    let wrong = |key: &str, message: String| ConfigError::Value {
        path: path.to_owned(),
        key: key.to_owned(),
        message,
    };
    let address = |key: &str, value: Option<String>, default: &str| {
        let text = value.unwrap_or_else(|| default.to_owned());
        text.parse::<SocketAddr>()
            .map_err(|_| wrong(key, format!("{text:?} is not an address such as {default}")))
    };
    let id = raw.node.id.unwrap_or_else(|| "n1".to_owned());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if id.is_empty() || !id.bytes().all(plain) {
        let message = format!("{id:?} must be made of letters, digits, `-` and `_`");
        return Err(wrong("node.id", message));
    }
    let dir = raw.model.dir.map(PathBuf::from).ok_or_else(|| {
        let message = "set it to a directory with tokenizer.json and tokenizer_config.json";
        wrong("model.dir", message.to_owned())
    })?;
    let name = raw.model.name.unwrap_or_else(|| crate::model_dir::name_of(&dir));
    let count = match raw.shards.count.unwrap_or(0) {
        0 => default_shards(),
        count => count,
    };
    if count > rollgate_pipeline::id::BUCKETS {
        return Err(wrong("shards.count", format!("{count} is over 1024, the number of buckets")));
    }
    let engines = engines(raw.engines, count, &wrong)?;
    rule_set(None, &raw.sessions.rules, &[]).map_err(|what| wrong("sessions.rules", what))?;
    scene_set(None, &raw.sessions.scenes, &[]).map_err(|what| wrong("sessions.scenes", what))?;
    let defaults = SessionDefaults::default();
    Ok(Settled {
        node: Node { id, state_dir: raw.node.state_dir.unwrap_or(".rollgate".into()).into() },
        agents: Agents {
            listen: address("agents.listen", raw.agents.listen, "127.0.0.1:8400")?,
            public_url: raw.agents.public_url.unwrap_or_default(),
            keepalive_s: raw.agents.keepalive_s.unwrap_or(5),
        },
        control: Control {
            listen: address("control.listen", raw.control.listen, "127.0.0.1:8401")?,
            token: raw.control.token.unwrap_or_default(),
        },
        shards: Shards {
            count,
            driver: raw.shards.driver.unwrap_or(ShardDriver::Auto),
            pin: raw.shards.pin.unwrap_or(false),
            durability: raw.shards.durability.unwrap_or(Durability::Write),
        },
        model: Model {
            dir,
            name,
            max_context: raw.model.max_context.unwrap_or(0),
            retention: raw.model.retention.unwrap_or(defaults.retention),
            inject: raw.model.inject.unwrap_or(Inject::Strict),
        },
        sessions: Sessions {
            history: raw.sessions.history.unwrap_or(defaults.history),
            idle_evict_s: raw.sessions.idle_evict_s.unwrap_or(600),
            orphan_grace_ms: raw.sessions.orphan_grace_ms.unwrap_or(defaults.orphan_grace_ms),
            rules: raw.sessions.rules,
            scenes: raw.sessions.scenes,
        },
        limits: raw.limits,
        pool: places::pool(raw.pool, &wrong)?,
        backends: places::backends(raw.backends, &wrong)?,
        log: log(raw.log),
        hooks: raw.hooks,
        engines,
    })
}

fn log(raw: super::raw::RawLog) -> Log {
    Log {
        level: raw.level.unwrap_or_else(|| "info".to_owned()),
        format: raw.format.unwrap_or(LogFormat::Text),
    }
}

fn engines(
    raw: Vec<super::raw::RawEngine>,
    shards: u16,
    wrong: &impl Fn(&str, String) -> ConfigError,
) -> Result<Vec<Engine>, ConfigError> {
    if raw.is_empty() {
        return Err(wrong("engines", "name at least one [[engines]] with its url".to_owned()));
    }
    let mut engines = Vec::with_capacity(raw.len());
    for engine in raw {
        if !engine.url.starts_with("http://") {
            let message = format!("{:?} must begin with http://", engine.url);
            return Err(wrong("engines.url", message));
        }
        let max_in_flight = engine.max_in_flight.unwrap_or(default_in_flight(shards));
        if max_in_flight < u32::from(shards) {
            let message = format!(
                "{max_in_flight} is less than shards.count, {shards}: each shard needs room for one \
                 call at least"
            );
            return Err(wrong("engines.max_in_flight", message));
        }
        engines.push(Engine {
            url: base_url(&engine.url).to_owned(),
            kind: engine.kind.unwrap_or(Kind::Auto),
            max_in_flight,
        });
    }
    Ok(engines)
}
