//! The rows: what the model says in each, and what the agent does to its history.

mod edits;
mod engine;
mod forms;
mod lines;
mod rules;

use rollgate_pipeline::sample::Sample;
use serde_json::{Value, json};

use super::agent::Agent;
use super::ledger::Generation;
use super::links::Link;
use super::script::Script;
use super::vocabulary::Vocabulary;

/// What a row's own check is given.
#[derive(Debug)]
pub struct Seen<'a> {
    /// The samples.
    pub samples: &'a [Sample],
    /// What the engine sampled.
    pub all: &'a [Generation],
    /// The vocabulary.
    pub words: &'a Vocabulary,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// As in the table of what each row must give.
    pub id: &'static str,
    /// What the agent does.
    pub what: &'static str,
    /// What the agent is called, for rules that come with one.
    pub agent: Option<&'static str>,
    /// The session's `retention` is `template`.
    pub template: bool,
    /// The engine counts calls, so each way needs replies of its own.
    pub counts_calls: bool,
    /// What the model says, given what marks begin with.
    pub script: fn(&str) -> Script,
    /// What the agent does.
    pub play: fn(&mut Agent),
    /// Links that must be there.
    pub links: &'static [Link],
    /// What else must hold; what does not.
    pub also: Option<fn(&Seen<'_>) -> Vec<String>>,
}

impl Row {
    /// A row with the usual script and no more.
    const fn new(id: &'static str, what: &'static str, play: fn(&mut Agent)) -> Self {
        Self {
            id,
            what,
            agent: None,
            template: false,
            counts_calls: false,
            script: Script::usual,
            play,
            links: &[],
            also: None,
        }
    }

    const fn says(self, script: fn(&str) -> Script) -> Self {
        Self { script, ..self }
    }

    const fn of(self, agent: &'static str) -> Self {
        Self { agent: Some(agent), ..self }
    }

    const fn linked(self, links: &'static [Link]) -> Self {
        Self { links, ..self }
    }

    const fn also(self, also: fn(&Seen<'_>) -> Vec<String>) -> Self {
        Self { also: Some(also), ..self }
    }

    /// The session's options.
    pub fn options(&self, mode: &str) -> Value {
        let mut options = json!({"history": mode, "metadata": {"row": self.id}});
        if let Some(agent) = self.agent {
            options["agent"] = json!(agent);
        }
        if self.template {
            options["retention"] = json!("template");
        }
        options
    }
}

/// All rows.
pub fn all() -> Vec<Row> {
    [forms::ROWS, rules::ROWS, edits::ROWS, lines::ROWS, engine::ROWS].concat()
}
