//! The mutation corpus: what agents do to their own history, played through a real gateway.
//!
//! A row is a scripted session in which the agent changes its history in one way. It is played in each
//! dialect that can say so, as JSON and as events, with both history modes. Four counts of samples must agree: what is written
//! in `expected.toml`, what the [`oracle`] says of the texts, what the engine's own ledger says of
//! the ids, and the samples themselves.

pub mod agent;
pub mod check;
pub mod dialect;
pub mod expected;
pub mod ledger;
pub mod links;
pub mod oracle;
pub mod play;
pub mod rows;
pub mod script;
pub mod table;
pub mod vocabulary;
pub mod wire;

use dialect::Dialect;

/// How a row is played.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Way {
    /// What the agent speaks.
    pub dialect: Dialect,
    /// As events, or as one JSON body.
    pub stream: bool,
    /// The session's `history`: `faithful`, or `sticky`.
    pub faithful: bool,
}

impl Way {
    /// The ways of a dialect.
    pub fn of(dialect: Dialect) -> [Way; 4] {
        let way = |stream, faithful| Way { dialect, stream, faithful };
        [way(false, false), way(false, true), way(true, false), way(true, true)]
    }

    /// `json` or `sse`.
    pub fn form(self) -> &'static str {
        if self.stream { "sse" } else { "json" }
    }

    /// `sticky` or `faithful`.
    pub fn mode(self) -> &'static str {
        if self.faithful { "faithful" } else { "sticky" }
    }

    /// All of it in words.
    pub fn name(self) -> String {
        format!("{} {} {}", self.dialect.name(), self.form(), self.mode())
    }
}
