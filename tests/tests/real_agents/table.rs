//! The table at the end.

use std::fmt::Write as _;

use crate::case::Case;

/// What came of a case.
#[derive(Debug)]
pub struct Row {
    agent: &'static str,
    name: &'static str,
    /// The agent's version.
    pub version: String,
    /// Calls that sampled tokens.
    pub turns: usize,
    /// How many of each scene.
    pub scenes: String,
    /// Samples, which are segments.
    pub samples: usize,
    /// How many links of each kind.
    pub links: String,
    /// Sampled tokens of trained scenes.
    pub sampled: u64,
    /// Of these, trained exactly once.
    pub trained_once: u64,
    /// How long it took.
    pub seconds: u64,
    /// What is not as it must be.
    pub problems: Vec<String>,
}

impl Row {
    /// A row in which nothing is known yet.
    pub fn new(case: &Case, version: &str) -> Self {
        Self {
            agent: case.agent,
            name: case.name,
            version: version.to_owned(),
            turns: 0,
            scenes: String::new(),
            samples: 0,
            links: String::new(),
            sampled: 0,
            trained_once: 0,
            seconds: 0,
            problems: Vec::new(),
        }
    }

    /// Its problems with its name before each.
    pub fn told(&self) -> Vec<String> {
        let told = |problem: &String| format!("{}/{}: {problem}", self.agent, self.name);
        self.problems.iter().map(told).collect()
    }

    fn cells(&self) -> [String; 10] {
        let share = match self.sampled {
            0 => "-".to_owned(),
            all => format!("{:.1} %", self.trained_once as f64 * 100.0 / all as f64),
        };
        let links = if self.links.is_empty() { "-" } else { &self.links };
        [
            self.agent.to_owned(),
            self.name.to_owned(),
            self.version.clone(),
            self.turns.to_string(),
            self.scenes.clone(),
            self.samples.to_string(),
            links.to_owned(),
            share,
            format!("{} s", self.seconds),
            if self.problems.is_empty() { "ok".to_owned() } else { "DIFFERS".to_owned() },
        ]
    }
}

const HEAD: [&str; 10] =
    ["agent", "case", "version", "turns", "scenes", "samples", "links", "trained once", "time", ""];

/// All rows.
pub fn table(rows: &[Row]) -> String {
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEAD.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::from("\n");
    for line in &lines {
        for (cell, width) in line.iter().zip(&widths) {
            write!(text, "{cell:<width$}  ").expect("writing to a string");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}
