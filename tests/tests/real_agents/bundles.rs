//! The agents' bundles, installed where they are missing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rollgate_tests::program;
use serde_json::Value;

use crate::case::Case;

/// Where the bundles are, and the version of each.
pub struct Bundles {
    /// The directory, for `--agents`.
    pub dir: PathBuf,
    versions: BTreeMap<&'static str, String>,
}

impl Bundles {
    /// The agent's version; empty when it has no bundle.
    pub fn version(&self, agent: &str) -> &str {
        self.versions.get(agent).map_or("", String::as_str)
    }
}

/// Installs what the cases need; panics with the installer's words when it cannot.
pub fn install(cases: &[Case]) -> Bundles {
    let dir = directory();
    let mut versions = BTreeMap::new();
    for case in cases.iter().filter(|case| case.bundled) {
        versions.entry(case.agent).or_insert_with(|| one(case.agent, &dir).0);
    }
    Bundles { dir, versions }
}

/// The program of an agent's bundle, installed if it is missing; panics as [`install`].
pub fn program(agent: &str) -> PathBuf {
    one(agent, &directory()).1.join("bin").join(agent)
}

/// Where bundles are, and stay from one run to the next.
fn directory() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let cache = std::env::var_os("ROLLGATE_CACHE")
        .map_or_else(|| home().join(".cache/rollgate"), PathBuf::from);
    let dir = cache.join("agents");
    std::fs::create_dir_all(&dir).expect("the cache can be written");
    dir
}

/// The bundle's version and path.
fn one(agent: &str, dir: &Path) -> (String, PathBuf) {
    let into = dir.to_str().expect("the cache's path is text");
    let begun = std::time::Instant::now();
    let arguments = ["agents", "install", agent, "--into", into, "--json"];
    let ended = program::run(dir, &arguments);
    assert_eq!(ended.code, Some(0), "{agent} cannot be installed:\n{}", ended.stderr);
    let bundle: Value = serde_json::from_str(&ended.stdout).expect("the installer prints JSON");
    let path = PathBuf::from(bundle["path"].as_str().expect("a bundle has a path"));
    if bundle["installed_now"] == true {
        let took = begun.elapsed().as_secs();
        let megabytes = bundle["bytes"].as_u64().unwrap_or_default() >> 20;
        println!("installed {agent} in {took} s: {}, {megabytes} MB", path.display());
    }
    (bundle["version"].as_str().expect("a bundle has a version").to_owned(), path)
}
