//! What `verify` found, for people and for programs.

use std::collections::BTreeMap;
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

/// Sampled tokens of the scenes that are trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trained {
    /// All of them; a token that several samples have counts once.
    pub tokens: u64,
    /// Those that are trained in exactly one sample.
    pub once: u64,
}

/// The whole report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// One row per readable sample.
    pub rows: Vec<Row>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// How many of the tokens to be trained are trained exactly once.
    pub trained: Trained,
    /// Differences of log-probabilities, where an engine was asked.
    pub scores: Option<Scores>,
}

const SHOWN_FINDINGS: usize = 50;

/// How often a code was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Reason {
    times: u64,
    /// Samples, files or sessions.
    places: usize,
}

impl Report {
    /// Adds a finding.
    pub fn find(&mut self, code: &str, location: &str, found: impl Into<String>) {
        self.findings.push(Finding {
            code: code.to_owned(),
            location: location.to_owned(),
            found: found.into(),
        });
    }

    /// How often each code was found, and in how many places.
    fn reasons(&self) -> BTreeMap<&str, Reason> {
        let mut places: BTreeMap<&str, (u64, BTreeMap<&str, ()>)> = BTreeMap::new();
        for finding in &self.findings {
            let (times, places) = places.entry(&finding.code).or_default();
            *times += 1;
            places.insert(&finding.location, ());
        }
        let reason =
            |(times, places): (u64, BTreeMap<&str, ()>)| Reason { times, places: places.len() };
        places.into_iter().map(|(code, found)| (code, reason(found))).collect()
    }

    /// For programs: the report, and under `reasons` how often each code was found.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Told<'a> {
            #[serde(flatten)]
            report: &'a Report,
            reasons: BTreeMap<&'a str, Reason>,
        }
        let told = Told { report: self, reasons: self.reasons() };
        serde_json::to_string(&told).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
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
        let reasons = self.reasons();
        if !reasons.is_empty() {
            writeln!(out, "\n{:<16} {:>6} {:>7}", "reason", "times", "places")?;
        }
        for (code, Reason { times, places }) in reasons {
            writeln!(out, "{code:<16} {times:>6} {places:>7}")?;
        }
        let Trained { tokens, once } = self.trained;
        // Rounded down: 100 % means all.
        let share = (once * 10_000).checked_div(tokens).map_or(0.0, |share| share as f64 / 100.0);
        writeln!(out, "\n{once} of {tokens} tokens to be trained are trained once ({share:.2} %)")?;
        let clean = self.rows.iter().filter(|row| row.health == "clean").count();
        let (rows, faults) = (self.rows.len(), self.findings.len());
        writeln!(out, "{rows} samples, {clean} clean, {faults} faults")
    }
}
