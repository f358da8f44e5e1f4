//! What local sandboxes leave on the machine: directories, and processes with their marker.

use std::path::{Path, PathBuf};

/// Where a run whose `TMPDIR` is this keeps its sandboxes.
pub fn root(tmp: &Path) -> PathBuf {
    tmp.join(format!("rollgate-{}", nix::unistd::getuid())).join("sandboxes")
}

/// Directories of sandboxes that are there.
pub fn left(tmp: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root(tmp)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Processes that run in a sandbox below this `TMPDIR`, by their number.
pub fn processes(tmp: &Path) -> Vec<u32> {
    let marks = format!("HOME={}/", root(tmp).display());
    let entries = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let runs = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(marks.as_bytes()))
    };
    numbers.filter(runs).collect()
}
