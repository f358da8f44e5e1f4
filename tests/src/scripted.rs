//! `rollgate engine` as a process.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::process::Process;
use crate::program;

/// A running scripted engine.
#[derive(Debug)]
pub struct Scripted {
    /// The process.
    pub process: Process,
    /// Its base URL.
    pub url: String,
}

impl Scripted {
    /// Starts vLLM's shape with this script on a free port.
    pub fn start(directory: &Path, script: &Value) -> Self {
        Self::start_with(directory, script, &[])
    }

    /// The same with more arguments.
    pub fn start_with(directory: &Path, script: &Value, arguments: &[&str]) -> Self {
        let file = directory.join("script.json");
        std::fs::write(&file, script.to_string()).expect("the script can be written");
        let mut command = program::command(directory);
        command.args(["engine", "--json", "--port", "0", "--script"]).arg(&file).args(arguments);
        let mut process = Process::start("engine", command, directory);
        let line = process.wait_for(Duration::from_secs(60), Process::first_line);
        let ready: Value = serde_json::from_str(&line).expect("the engine's first line is JSON");
        let url = ready["engine"].as_str().expect("it has the engine's address").to_owned();
        Self { process, url }
    }
}
