//! What no compiler checks: sizes, names, edges between crates, and that documents tell the truth.

#[path = "tidy/cases.rs"]
mod cases;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/edges.rs"]
mod edges;
#[path = "tidy/figures.rs"]
mod figures;
#[path = "tidy/sources.rs"]
mod sources;

use std::path::{Path, PathBuf};
use std::process::Command;

use rollgate_tests::program::workspace;

/// Every file of the project: tracked, or new and not ignored.
fn project_files() -> Vec<PathBuf> {
    let mut git = Command::new("git");
    git.current_dir(workspace()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "-z",
    ]);
    let output = git.output().expect("git lists the project's files");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let paths = names.map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned()));
    let files: Vec<_> = paths.filter(|path| workspace().join(path).is_file()).collect();
    assert!(files.len() > 50, "only {} files are listed", files.len());
    files
}

/// The text of a file of the project; `None` where it is not text.
fn text_of(path: &Path) -> Option<String> {
    let bytes = std::fs::read(workspace().join(path)).expect("a file of the project can be read");
    String::from_utf8(bytes).ok()
}

/// Rust sources with their texts.
fn rust_files() -> Vec<(PathBuf, String)> {
    let files =
        project_files().into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
    files.filter_map(|path| text_of(&path).map(|text| (path, text))).collect()
}

/// Fails with all that was found.
#[track_caller]
fn none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}
