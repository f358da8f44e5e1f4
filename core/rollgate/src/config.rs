//! One TOML file per node: what was written, and what is used.
//!
//! Unknown keys are errors that name the line and the nearest key. Environment variables override
//! by one rule: `ROLLGATE_SECTION__KEY=value` sets `key` of `[section]`; the value is read as TOML,
//! or taken as a string where it is not.

mod places;
mod raw;
mod remote;
mod rules;
mod settled;

use std::path::Path;

pub use places::{Backends, Local, Places, Pool};
pub use raw::Raw;
pub use remote::{Docker, E2b};
pub use settled::{
    Agents, Control, Durability, Engine, Inject, Kind, Log, LogFormat, Model, Node, Sessions,
    Settled, ShardDriver, Shards, base_url, default_in_flight, default_shards,
};

/// Why a configuration cannot be used. Says which key, and which line.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML, or has a key or value that is not understood.
    #[error("{path}:{line}: {message}")]
    Parse {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong and what is near.
        message: String,
    },
    /// A value that cannot work.
    #[error("{path}: {key}: {message}")]
    Value {
        /// The file.
        path: String,
        /// `section.key`.
        key: String,
        /// What is wrong and what to do.
        message: String,
    },
}

/// Reads, overrides by the environment, and settles a configuration file.
pub fn load(
    path: &Path,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Settled, ConfigError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: shown.clone(), source })?;
    let raw = raw::parse(&shown, &text, environment)?;
    settled::settle(&shown, raw)
}

/// Reads what a run takes from a configuration file. The other sections are
/// checked for unknown keys and nothing else.
pub fn load_places(
    path: &Path,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Places, ConfigError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: shown.clone(), source })?;
    Places::settle(&shown, raw::parse(&shown, &text, environment)?)
}

#[cfg(test)]
mod tests;
