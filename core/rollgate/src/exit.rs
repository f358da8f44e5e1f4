//! Exit codes.

use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All well.
    Well,
    /// Some attempts failed, or a check found something.
    Failed,
    /// Wrong use or configuration.
    WrongUse,
    /// Engine, sandbox, port: the surroundings do not allow it.
    Environment,
    /// Interrupted.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Well => 0,
            Exit::Failed => 1,
            Exit::WrongUse => 2,
            Exit::Environment => 3,
            Exit::Interrupted => 130,
        })
    }
}

/// An error whose exit code is not 1. Wraps a message for people.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Stop {
    /// The code to end with.
    pub exit: Exit,
    /// What happened and what to do.
    pub message: String,
}

impl Stop {
    /// Wrong use or configuration.
    pub fn wrong_use(message: impl std::fmt::Display) -> Self {
        Self { exit: Exit::WrongUse, message: format!("{message:#}") }
    }

    /// The surroundings do not allow it.
    pub fn environment(message: impl std::fmt::Display) -> Self {
        Self { exit: Exit::Environment, message: format!("{message:#}") }
    }
}

/// The exit code for an error that reached the top.
pub fn of_error(error: &anyhow::Error) -> Exit {
    error.downcast_ref::<Stop>().map_or(Exit::Failed, |stop| stop.exit)
}
