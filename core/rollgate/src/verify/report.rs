//! What `verify` found, for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::rescore::Scores;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Stable code.
    pub code: String,
    /// Which file, line or sample; empty for the whole.
    pub location: String,
    /// What was found.
    pub found: String,
}

/// One sample, in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which sample.
    pub sample_id: String,
    /// Sampled spans.
    pub turns: usize,
    /// Tool calls in its messages.
    pub tool_calls: usize,
    /// Length.
    pub tokens: usize,
    /// Tokens with loss mask 1.
    pub trained: usize,
    /// Sampled spans that differ from the tokenizer's own split; `None` without a tokenizer.
    pub non_canonical: Option<usize>,
    /// How the attempt ended.
    pub outcome: String,
    /// Its reward.
    pub reward: Option<f64>,
    /// `clean`, or reasons.
    pub health: String,
}

/// The whole report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// One row per readable sample.
    pub rows: Vec<Row>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Differences of log-probabilities, where an engine was asked.
    pub scores: Option<Scores>,
}

const SHOWN_FINDINGS: usize = 50;

impl Report {
    /// Adds a finding.
    pub fn find(&mut self, code: &str, location: &str, found: impl Into<String>) {
        self.findings.push(Finding {
            code: code.to_owned(),
            location: location.to_owned(),
            found: found.into(),
        });
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_text(&mut text);
        text.truncate(text.trim_end().len());
        text
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "{:<44} {:>5} {:>5} {:>7} {:>7} {:>9} {:>7}  {:<14} health",
            "sample", "turns", "calls", "tokens", "trained", "non-canon", "reward", "outcome"
        )?;
        for row in &self.rows {
            let non_canonical =
                row.non_canonical.map_or_else(|| "-".to_owned(), |spans| spans.to_string());
            let reward = row.reward.map_or_else(|| "-".to_owned(), |reward| format!("{reward:.3}"));
            writeln!(
                out,
                "{:<44} {:>5} {:>5} {:>7} {:>7} {:>9} {:>7}  {:<14} {}",
                row.sample_id,
                row.turns,
                row.tool_calls,
                row.tokens,
                row.trained,
                non_canonical,
                reward,
                row.outcome,
                row.health
            )?;
        }
        if let Some(scores) = &self.scores {
            writeln!(
                out,
                "\nlog-probabilities of {} sampled tokens against the engine's: mean difference \
                 {:.3e}, max {:.3e}",
                scores.tokens, scores.mean, scores.max
            )?;
        }
        if !self.findings.is_empty() {
            writeln!(out)?;
        }
        for finding in self.findings.iter().take(SHOWN_FINDINGS) {
            writeln!(out, "FAULT {} {}: {}", finding.code, finding.location, finding.found)?;
        }
        if self.findings.len() > SHOWN_FINDINGS {
            writeln!(out, "… and {} more", self.findings.len() - SHOWN_FINDINGS)?;
        }
        let clean = self.rows.iter().filter(|row| row.health == "clean").count();
        let (rows, faults) = (self.rows.len(), self.findings.len());
        writeln!(out, "\n{rows} samples, {clean} clean, {faults} faults")
    }
}
