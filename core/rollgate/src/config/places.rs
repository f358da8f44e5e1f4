//! `[pool]` and `[backends.*]`: where sandboxes are made, and how many are kept.

use std::path::PathBuf;

use rollgate_controller::hooks::Hook;
use rollgate_pipeline::limits::Limits;
use serde::Serialize;

use super::raw::{RawBackends, RawLocal, RawPool};
use super::{ConfigError, Docker, E2b, Raw};

/// What a run takes from a node's file: where sandboxes are made, what is done around agents, and the
/// bounds of its gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Places {
    /// `[pool]`
    pub pool: Pool,
    /// `[backends]`
    pub backends: Backends,
    /// `[[hooks]]`: of all attempts, before the tasks' own.
    pub hooks: Vec<Hook>,
    /// `[limits]`
    pub limits: Limits,
}

/// `[pool]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pool {
    /// Sandboxes of a kind that are kept warm.
    pub warm: usize,
    /// Warm ones that are made at once.
    pub refill: usize,
    /// A warm one that nobody took for so long goes.
    pub idle_s: u64,
    /// Sandboxes that are asked for in a minute, in the long run; 0: the backend's own number.
    pub creates_per_minute: u32,
    /// Sandboxes that are asked for at once; 0: the backend's own number.
    pub creates_burst: u32,
    /// Disk space that must be free.
    pub disk_mib: u64,
    /// Inodes that must be free.
    pub inodes: u64,
}

/// `[backends]`
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Backends {
    /// `[backends.local]`
    pub local: Local,
    /// `[backends.docker]`
    pub docker: Docker,
    /// `[backends.e2b]`
    pub e2b: E2b,
}

/// `[backends.local]`
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Local {
    /// Where sandboxes' directories lie; empty: below the system's directory for temporary files.
    pub root: PathBuf,
    /// `PATH` of commands; empty: Rollgate's own.
    pub path: String,
    /// Cores that a sandbox counts as; 0: it does not count.
    pub cpus: f64,
    /// Memory that a sandbox counts as; 0: it does not count.
    pub memory_mib: u64,
    /// Cores that all sandboxes may use together; 0: as many as they want.
    pub offer_cpus: f64,
    /// Memory that all sandboxes may use together; 0: as much as they want.
    pub offer_memory_mib: u64,
}

impl Places {
    pub(super) fn settle(path: &str, raw: Raw) -> Result<Self, ConfigError> {
        let wrong = |key: &str, message: String| ConfigError::Value {
            path: path.to_owned(),
            key: key.to_owned(),
            message,
        };
        let (pool, backends) = (pool(raw.pool, &wrong)?, backends(raw.backends, &wrong)?);
        Ok(Self { pool, backends, hooks: raw.hooks, limits: raw.limits })
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            warm: 0,
            refill: 4,
            idle_s: 300,
            creates_per_minute: 0,
            creates_burst: 0,
            disk_mib: 512,
            inodes: 10_000,
        }
    }
}

pub(super) fn pool(
    raw: RawPool,
    wrong: &impl Fn(&str, String) -> ConfigError,
) -> Result<Pool, ConfigError> {
    let default = Pool::default();
    if raw.refill == Some(0) {
        return Err(wrong("pool.refill", "must be at least 1; set pool.warm to 0 for none".into()));
    }
    Ok(Pool {
        warm: raw.warm.unwrap_or(default.warm),
        refill: raw.refill.unwrap_or(default.refill),
        idle_s: raw.idle_s.unwrap_or(default.idle_s),
        creates_per_minute: raw.creates_per_minute.unwrap_or(default.creates_per_minute),
        creates_burst: raw.creates_burst.unwrap_or(default.creates_burst),
        disk_mib: raw.disk_mib.unwrap_or(default.disk_mib),
        inodes: raw.inodes.unwrap_or(default.inodes),
    })
}

pub(super) fn backends(
    raw: RawBackends,
    wrong: &impl Fn(&str, String) -> ConfigError,
) -> Result<Backends, ConfigError> {
    Ok(Backends {
        local: local(raw.local, wrong)?,
        docker: raw.docker.check(wrong)?,
        e2b: raw.e2b.check(wrong)?,
    })
}

fn local(
    raw: RawLocal,
    wrong: &impl Fn(&str, String) -> ConfigError,
) -> Result<Local, ConfigError> {
    let cores = |key: &str, value: Option<f64>| match value {
        Some(cores) if !(cores >= 0.0 && cores.is_finite()) => {
            let message = format!("{cores} is not a number of cores");
            Err(wrong(&format!("backends.local.{key}"), message))
        }
        other => Ok(other.unwrap_or(0.0)),
    };
    Ok(Local {
        root: raw.root.map(PathBuf::from).unwrap_or_default(),
        path: raw.path.unwrap_or_default(),
        cpus: cores("cpus", raw.cpus)?,
        memory_mib: raw.memory_mib.unwrap_or(0),
        offer_cpus: cores("offer_cpus", raw.offer_cpus)?,
        offer_memory_mib: raw.offer_memory_mib.unwrap_or(0),
    })
}
