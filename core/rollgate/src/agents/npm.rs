//! Bundles of packages from npm.

use std::path::Path;
use std::process::Command;

use super::bundle::Runtime;
use super::install::Made;
use super::wanted::{Wanted, end_of};
use super::{launcher, platform, tool};
use crate::exit::Stop;

const NEED: &str = "install Node.js with npm; only for installing, the agents bring their own Node";

/// Installs into `dir`, which is empty.
pub(super) fn make(
    wanted: &Wanted,
    package: &str,
    entry: &str,
    node: Option<&str>,
    dir: &Path,
) -> anyhow::Result<Made> {
    let mut specs = vec![format!("{package}@{}", wanted.version)];
    let node_package = format!("node-{}", platform::npm());
    specs.extend(node.map(|version| format!("{node_package}@{version}")));
    install(wanted, &specs, dir)?;
    if node.is_some() {
        settle_node(&dir.join("node_modules").join(&node_package), &dir.join("node"))?;
    }
    let entry = Wanted::on_this_platform(entry);
    if !dir.join("node_modules").join(&entry).is_file() {
        let (label, platform) = (wanted.label(), platform::npm());
        return Err(Stop::environment(format!(
            "{label} has no {entry}: either it does not exist for {platform}, or this version is \
             laid out in another way than {}, which this Rollgate knows",
            wanted.package.version
        ))
        .into());
    }
    let entry = format!("node_modules/{entry}");
    let name = wanted.harness.name();
    let (text, runtime) = match node {
        Some(version) => {
            (launcher::node("node/bin/node", &entry), Runtime::Node(version.to_owned()))
        }
        None => {
            executable(&dir.join(&entry))?;
            (launcher::native(&entry), Runtime::Native)
        }
    };
    launcher::write(dir, name, &text)?;
    let lock = std::fs::read(dir.join("package-lock.json"))?;
    let packages = specs.into_iter().map(|spec| format!("npm:{spec}")).collect();
    Ok(Made { packages, runtime, lock })
}

fn install(wanted: &Wanted, specs: &[String], dir: &Path) -> Result<(), Stop> {
    // An own root, so that no project around it is taken for it.
    let manifest = "{\"private\": true}\n";
    std::fs::write(dir.join("package.json"), manifest).map_err(Stop::environment)?;
    let cache = dir.join(".npm-cache");
    let mut npm = Command::new("npm");
    npm.arg("install").arg("--prefix").arg(dir).arg("--cache").arg(&cache);
    npm.args(["--save-exact", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    npm.args(["--no-global", "--include=optional", "--engine-strict=false"]);
    npm.arg("--update-notifier=false");
    if let Some(day) = wanted.as_of() {
        npm.arg(format!("--before={}", end_of(&day)));
    }
    tool::run(npm.args(specs).current_dir(dir), NEED)?;
    super::place::remove(&cache)
}

/// Keeps the program of npm's Node package, and its licence.
fn settle_node(package: &Path, node: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(node.join("bin"))?;
    std::fs::rename(package.join("bin/node"), node.join("bin/node"))?;
    std::fs::rename(package.join("LICENSE"), node.join("LICENSE"))?;
    super::place::remove(package)?;
    executable(&node.join("bin/node"))
}

fn executable(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}
