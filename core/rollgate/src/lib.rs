//! The program: arguments, configuration, composition.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "people read what it prints")]

pub mod agent;
pub mod agents;
pub mod bench;
pub mod cli;
pub mod config;
pub mod demo;
pub mod engine;
pub mod exit;
pub mod inspect;
pub mod logging;
pub mod model_check;
pub mod model_dir;
pub mod node;
pub mod probe;
pub mod run;
pub mod serve;
pub mod verify;

use std::process::ExitCode;

/// Reads the arguments, runs the command, and ends with its code.
pub fn main() -> ExitCode {
    match cli::run() {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("rollgate: {error:#}");
            exit::of_error(&error).into()
        }
    }
}
