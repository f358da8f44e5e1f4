//! Which crate may know which, and where the two runtimes may be.

use std::collections::BTreeSet;
use std::process::Command;

use rollgate_tests::program::workspace;
use serde_json::Value;

use crate::none;

/// Crate, and which of ours it may depend on. The design's table; any other edge is a fault.
const EDGES: [(&str, &[&str]); 10] = [
    ("pipeline", &[]),
    ("shards", &["pipeline"]),
    ("harness", &["pipeline"]),
    ("backends", &["pipeline"]),
    ("controller", &["pipeline", "shards", "harness", "backends"]),
    ("bench", &["pipeline"]),
    ("oracles", &["pipeline"]),
    ("simulation", &["pipeline", "shards"]),
    ("rollgate", &["pipeline", "shards", "harness", "backends", "controller", "bench"]),
    ("tests", &["pipeline", "shards", "harness", "backends", "controller", "bench", "rollgate"]),
];

/// Crates in whose normal dependencies there is no tokio at all.
const WITHOUT_TOKIO: [&str; 3] = ["rollgate-pipeline", "rollgate-shards", "rollgate-harness"];

/// Crates that may name monoio.
const WITH_MONOIO: [&str; 2] = ["rollgate-shards", "rollgate-bench"];

fn cargo(arguments: &[&str]) -> String {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output = cargo.current_dir(workspace()).args(arguments).output().expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn packages() -> Vec<Value> {
    let text = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn short(name: &str) -> &str {
    name.strip_prefix("rollgate-").unwrap_or(name)
}

/// Names of a package's dependencies of every kind.
fn dependencies(package: &Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().unwrap().iter();
    all.map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn crates_know_only_whom_they_may() {
    let mut found = Vec::new();
    let packages = packages();
    assert_eq!(packages.len(), EDGES.len(), "as many crates as the table has");
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        let row = EDGES.iter().find(|(crate_name, _)| *crate_name == short(name));
        let Some((_, allowed)) = row else {
            found.push(format!("{name} is not in the table"));
            continue;
        };
        let ours = dependencies(package).into_iter().filter(|name| name.starts_with("rollgate"));
        let wrong = ours.filter(|name| !allowed.contains(&short(name)));
        found.extend(wrong.map(|other| format!("{name} -> {other}")));
    }
    none("forbidden edges", &found);
}

#[test]
fn tokio_stays_out_of_the_data_path() {
    for name in WITHOUT_TOKIO {
        let tree = cargo(&["tree", "--offline", "-p", name, "-e", "normal", "--prefix", "none"]);
        assert!(tree.starts_with(name), "{tree:.200}");
        let found = tree.lines().filter(|line| line.starts_with("tokio"));
        none(name, &found.map(str::to_owned).collect::<Vec<_>>());
    }
}

#[test]
fn monoio_stays_in_shards_and_bench() {
    let with = packages().into_iter().filter(|package| dependencies(package).contains("monoio"));
    let names = with.map(|package| package["name"].as_str().unwrap().to_owned());
    let found: Vec<_> = names.filter(|name| !WITH_MONOIO.contains(&name.as_str())).collect();
    none("crates that name monoio", &found);
}

#[test]
fn lints_are_one_table() {
    // Crates that are all tests may unwrap and print.
    let tests_only = ["rollgate-tests", "rollgate-oracles", "rollgate-simulation"];
    let ships = |package: &&Value| tests_only.iter().all(|name| package["name"] != *name);
    for package in packages().iter().filter(ships) {
        let manifest = std::fs::read_to_string(package["manifest_path"].as_str().unwrap()).unwrap();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        let shared = manifest["lints"]["workspace"].as_bool();
        assert_eq!(shared, Some(true), "{}: [lints] workspace = true", package["name"]);
    }
}
