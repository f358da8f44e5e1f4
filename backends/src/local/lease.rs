//! Who holds a sandbox: a file in its directory that outlives a killed owner.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{io, processes};
use crate::{BackendError, Spec};

const FILE: &str = "lease.json";
const RELEASED: &str = "released.json";

/// The owner of a sandbox. A pid alone may be reused; with start time and boot id it is not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Lease {
    pub pid: i32,
    /// Clock ticks from boot to the owner's start.
    pub start_ticks: u64,
    pub boot_id: String,
    pub owner: String,
    pub attempt_id: String,
}

impl Lease {
    /// A lease of this process.
    pub fn ours(spec: &Spec) -> Result<Self, BackendError> {
        let pid = nix::unistd::getpid().as_raw();
        let start_ticks = processes::start_ticks(pid).ok_or_else(|| {
            BackendError::Unusable("/proc is not mounted; the local backend needs it".to_owned())
        })?;
        let (owner, attempt_id) = (spec.owner.clone(), spec.attempt_id.clone());
        Ok(Self { pid, start_ticks, boot_id: boot_id(), owner, attempt_id })
    }

    /// Name of the owner's n-th sandbox. No other living process makes the same one.
    pub fn sandbox_id(&self, number: u64) -> String {
        format!("sb-{}-{}-{number}", self.pid, self.start_ticks)
    }

    /// Whether the owner still lives.
    pub fn held(&self) -> bool {
        self.boot_id == boot_id() && processes::start_ticks(self.pid) == Some(self.start_ticks)
    }
}

/// Writes the lease at once or not at all.
pub(super) fn write(dir: &Path, lease: &Lease) -> Result<(), BackendError> {
    let what = || format!("write the lease of {}", dir.display());
    let bytes = serde_json::to_vec(lease).map_err(|error| io(what())(error.into()))?;
    let draft = dir.join("lease.new");
    std::fs::write(&draft, bytes).map_err(io(what()))?;
    std::fs::rename(&draft, dir.join(FILE)).map_err(io(what()))
}

/// The lease of a sandbox; `None` for a directory that is not ours to remove.
pub(super) fn read(dir: &Path) -> Option<Lease> {
    let bytes = std::fs::read(dir.join(FILE)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Whether the owner that a sandbox's name tells of lives; `None` for a directory that is not a
/// sandbox, or was released.
pub(super) fn owner_lives(dir: &Path, id: &str) -> Option<bool> {
    if dir.join(RELEASED).exists() {
        return None;
    }
    let mut parts = id.strip_prefix("sb-")?.splitn(3, '-');
    let (pid, start_ticks) = (parts.next()?.parse().ok()?, parts.next()?.parse::<u64>().ok()?);
    parts.next()?.parse::<u64>().ok()?;
    Some(processes::start_ticks(pid) == Some(start_ticks))
}

/// Turns a sandbox into a plain directory that sweeps leave alone.
pub(super) fn release(dir: &Path) -> Result<(), BackendError> {
    match std::fs::rename(dir.join(FILE), dir.join(RELEASED)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io(format!("release {}", dir.display()))(error))
        }
        _ => Ok(()),
    }
}

/// Which boot of this machine it is.
pub(super) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
