//! What agents there are, and what is installed of them.

use std::path::Path;

use rollgate_harness::{Package, Source, by_name};
use serde_json::{Value, json};

use super::bundle::{self, Bundle};
use super::wanted::packaged;

/// Prints the list.
pub(super) fn run(dir: &Path, json: bool) -> anyhow::Result<()> {
    let installed = bundle::installed(dir);
    if json {
        println!("{}", as_json(dir, &installed));
        return Ok(());
    }
    println!("{:<16} {:<12} {:<44} installed in {}", "agent", "proven with", "from", dir.display());
    for (name, package) in packages() {
        let here = installed.iter().filter(|bundle| bundle.name == name);
        let here: Vec<String> =
            here.map(|bundle| format!("{} ({} MB)", bundle.version, bundle.bytes >> 20)).collect();
        let here = if here.is_empty() { "-".to_owned() } else { here.join(", ") };
        println!("{name:<16} {:<12} {:<44} {here}", package.version, from(&package.source));
    }
    Ok(())
}

fn packages() -> Vec<(&'static str, Package)> {
    let package = |name: &'static str| Some((name, by_name(name).ok()?.package()?));
    packaged().into_iter().filter_map(package).collect()
}

fn from(source: &Source) -> String {
    match source {
        Source::Npm { package, .. } => format!("npm {package}"),
        Source::Pypi { package, .. } => format!("PyPI {package}"),
    }
}

fn as_json(dir: &Path, installed: &[Bundle]) -> Value {
    let agents = packages().into_iter().map(|(name, package)| {
        let here = installed.iter().filter(|bundle| bundle.name == name);
        json!({
            "agent": name,
            "version": package.version,
            "as_of": package.as_of,
            "from": from(&package.source),
            "installed": here.collect::<Vec<_>>(),
        })
    });
    json!({ "dir": dir, "agents": agents.collect::<Vec<_>>() })
}
