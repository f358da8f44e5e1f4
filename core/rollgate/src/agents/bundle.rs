//! Bundles on disk: where they are, and what each says of itself.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::Stop;

/// Environment variable that names the directory of bundles.
pub const DIR_ENV: &str = "ROLLGATE_AGENTS";

/// The file in which a bundle says what it is.
const FILE: &str = "bundle.json";

/// What a bundle is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// Name of the agent.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it depends on is as it was at the end of this day; `None`: as it was when installed.
    pub as_of: Option<String>,
    /// What was asked of which registry, such as `npm:@scope/name@1.2.3`.
    pub packages: Vec<String>,
    /// What runs it.
    pub runtime: Runtime,
    /// Operating system and architecture.
    pub platform: String,
    /// Bytes of all files.
    pub bytes: u64,
    /// BLAKE3 of the list of everything that was installed, in hexadecimal digits.
    pub lock_digest: String,
    /// First line of what the agent prints when asked for its version.
    pub says: String,
    /// Milliseconds since the epoch.
    pub created_at_ms: u64,
    /// Version of the Rollgate that made it.
    pub rollgate: String,
}

/// What runs an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// Nothing: it is a native program.
    Native,
    /// The Node in the bundle, of this version.
    Node(String),
    /// A Python of the system, which must have this version, such as `3.11`.
    Python(String),
}

impl Bundle {
    /// Name of its directory.
    pub fn label(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Reads a bundle's own file; `None` when there is no bundle.
    pub fn read(dir: &Path) -> Option<Self> {
        let bytes = std::fs::read(dir.join(FILE)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Writes it.
    pub(super) fn write(&self, dir: &Path) -> anyhow::Result<()> {
        std::fs::write(dir.join(FILE), serde_json::to_string_pretty(self)? + "\n")?;
        Ok(())
    }
}

/// The program of a bundle.
pub fn program(dir: &Path, name: &str) -> PathBuf {
    dir.join("bin").join(name)
}

/// The program of `NAME@VERSION` in a directory of bundles, absolute; `None` when it is not there.
pub fn find(dir: &Path, name: &str, version: &str) -> Option<PathBuf> {
    let bundle = std::path::absolute(dir).ok()?.join(format!("{name}@{version}"));
    Bundle::read(&bundle)?;
    Some(program(&bundle, name)).filter(|program| program.is_file())
}

/// All bundles of a directory, by name and version.
pub fn installed(dir: &Path) -> Vec<Bundle> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut found: Vec<Bundle> =
        entries.flatten().filter_map(|entry| Bundle::read(&entry.path())).collect();
    found.sort_by_key(Bundle::label);
    found
}

/// The directory of bundles: the one that is given, else the environment's, else the user's.
pub fn dir(given: Option<&Path>) -> Result<PathBuf, Stop> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = variable(DIR_ENV) {
        return Ok(dir.into());
    }
    let data = variable("XDG_DATA_HOME").map(PathBuf::from);
    let data = data.or_else(|| Some(Path::new(&variable("HOME")?).join(".local/share")));
    let data = data.ok_or_else(|| {
        Stop::wrong_use(format!(
            "there is no HOME to keep agents in: name a directory, or set {DIR_ENV}"
        ))
    })?;
    Ok(data.join("rollgate/agents"))
}
