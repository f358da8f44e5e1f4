//! The `rollgate` binary under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace")
}

/// The demo model's directory: the text side of what a scripted engine serves by default.
pub fn demo_model() -> PathBuf {
    workspace().join("core/rollgate/assets/demo")
}

/// The binary: `ROLLGATE_BIN` if set, else built by cargo in this test's profile.
pub fn rollgate() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| std::env::var_os("ROLLGATE_BIN").map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace());
    cargo.args(["build", "-p", "rollgate", "--message-format=json-render-diagnostics"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let built = cargo.output().expect("cargo can be run");
    let stderr = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "rollgate does not build:\n{stderr}");
    let lines = built.stdout.split(|byte| *byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let mut programs = messages.filter_map(|message| {
        (message["target"]["name"] == "rollgate")
            .then(|| message["executable"].as_str().map(PathBuf::from))?
    });
    programs.next().expect("cargo says where the program lies")
}

/// A command of the program, free of the caller's settings and in an empty working directory.
pub fn command(directory: &Path) -> Command {
    let mut command = Command::new(rollgate());
    command.current_dir(directory);
    for (name, _) in std::env::vars_os() {
        let own = name.to_string_lossy().starts_with("ROLLGATE_");
        if own {
            command.env_remove(name);
        }
    }
    command
}

/// How a finished command ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs a command of the program to its end.
pub fn run(directory: &Path, arguments: &[&str]) -> Ended {
    let output = command(directory).args(arguments).output().expect("the program starts");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// `rollgate verify --json` with these arguments: its exit code and report.
pub fn verify(directory: &Path, arguments: &[&str]) -> (Option<i32>, Value) {
    let ended = run(directory, &[&["verify", "--json"], arguments].concat());
    let report = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("verify printed no report ({error}): {ended:#?}"));
    (ended.code, report)
}
