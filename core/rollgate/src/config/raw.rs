//! What was written: every key optional, none unknown.

use rollgate_controller::hooks::Hook;
use rollgate_pipeline::limits::Limits;
use rollgate_pipeline::record::{HistoryMode, Retention};
use rollgate_pipeline::rules::Rule;
use rollgate_pipeline::scene::SceneRule;
use serde::Deserialize;

use super::ConfigError;

/// The file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Raw {
    pub(super) node: RawNode,
    pub(super) agents: RawAgents,
    pub(super) control: RawControl,
    pub(super) shards: RawShards,
    pub(super) engines: Vec<RawEngine>,
    pub(super) model: RawModel,
    pub(super) sessions: RawSessions,
    pub(super) limits: Limits,
    pub(super) pool: RawPool,
    pub(super) backends: RawBackends,
    pub(super) hooks: Vec<Hook>,
    pub(super) log: RawLog,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawNode {
    pub id: Option<String>,
    pub state_dir: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAgents {
    pub listen: Option<String>,
    pub public_url: Option<String>,
    pub keepalive_s: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawControl {
    pub listen: Option<String>,
    pub token: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawShards {
    pub count: Option<u16>,
    pub driver: Option<super::ShardDriver>,
    pub pin: Option<bool>,
    pub durability: Option<super::Durability>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEngine {
    pub url: String,
    #[serde(default)]
    pub kind: Option<super::Kind>,
    #[serde(default)]
    pub max_in_flight: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawModel {
    pub dir: Option<String>,
    pub name: Option<String>,
    pub max_context: Option<u32>,
    pub retention: Option<Retention>,
    pub inject: Option<super::settled::Inject>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSessions {
    pub history: Option<HistoryMode>,
    pub idle_evict_s: Option<u64>,
    pub orphan_grace_ms: Option<u64>,
    pub rules: Vec<Rule>,
    pub scenes: Vec<SceneRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawPool {
    pub warm: Option<usize>,
    pub refill: Option<usize>,
    pub idle_s: Option<u64>,
    pub creates_per_minute: Option<u32>,
    pub creates_burst: Option<u32>,
    pub disk_mib: Option<u64>,
    pub inodes: Option<u64>,
}

/// A table for each backend that there is.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawBackends {
    pub local: RawLocal,
    pub docker: super::Docker,
    pub e2b: super::E2b,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawLocal {
    pub root: Option<String>,
    pub path: Option<String>,
    pub cpus: Option<f64>,
    pub memory_mib: Option<u64>,
    pub offer_cpus: Option<f64>,
    pub offer_memory_mib: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawLog {
    pub level: Option<String>,
    pub format: Option<super::LogFormat>,
}

/// Parses a file's text with the environment laid over it.
pub(super) fn parse(
    path: &str,
    text: &str,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Raw, ConfigError> {
    // First as it stands, so that an error has its line; then again with the overrides.
    let raw: Raw = toml::from_str(text).map_err(|error| located(path, text, &error))?;
    super::rules::check(path, text, &raw.sessions)?;
    let mut overrides: Vec<_> = environment.filter_map(overriding).collect();
    if overrides.is_empty() {
        return Ok(raw);
    }
    overrides.sort_by(|left, right| left.0.cmp(&right.0));
    let mut table: toml::Table =
        toml::from_str(text).map_err(|error| located(path, text, &error))?;
    for (variable, section, key, value) in overrides {
        let entry =
            table.entry(section.clone()).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        let Some(entry) = entry.as_table_mut() else {
            let message = format!("{variable} cannot set a key of a list");
            return Err(ConfigError::Value { path: path.to_owned(), key: section, message });
        };
        entry.insert(key.clone(), value);
        // One at a time, so that the message can name the variable at fault.
        if let Err(error) = table.clone().try_into::<Raw>() {
            let message = format!("{} (set by {variable})", near(error.message()));
            return Err(ConfigError::Value {
                path: path.to_owned(),
                key: format!("{section}.{key}"),
                message,
            });
        }
    }
    table.try_into().map_err(|error: toml::de::Error| located(path, text, &error))
}

fn overriding(
    (variable, value): (String, String),
) -> Option<(String, String, String, toml::Value)> {
    let (section, key) = variable.strip_prefix("ROLLGATE_")?.split_once("__")?;
    let read = toml::from_str::<toml::Table>(&format!("value = {value}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or(toml::Value::String(value));
    Some((variable.clone(), section.to_lowercase(), key.to_lowercase(), read))
}

fn located(path: &str, text: &str, error: &toml::de::Error) -> ConfigError {
    let at = error.span().map_or(0, |span| span.start);
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    ConfigError::Parse { path: path.to_owned(), line, message: near(error.message()) }
}

/// Adds the nearest of the names that serde lists to its message about an unknown one.
fn near(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let Some(wrong) = names.next().filter(|_| unknown) else { return message.to_owned() };
    let best = names
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .min()
        .filter(|(distance, name)| *distance <= name.len().div_ceil(2));
    match best {
        Some((_, name)) => format!("{message}; did you mean `{name}`?"),
        None => message.to_owned(),
    }
}
