//! What people see of a run: a bar with live counts, and a table at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rollgate_controller::job::{Progress, Summary};
use rollgate_controller::outcome::Outcome;

/// The bar.
pub(super) struct Bar {
    bar: ProgressBar,
    shown: bool,
    running: u64,
    outcomes: BTreeMap<Outcome, u64>,
    rewards: (f64, u64),
    turns: u64,
    groups: u64,
}

impl Bar {
    pub(super) fn new(shown: bool) -> Self {
        let bar = if shown { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let style = "{elapsed_precise} [{bar:30}] {pos}/{len} attempts  {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(250));
        let (outcomes, rewards) = (BTreeMap::new(), (0.0, 0));
        Self { bar, shown, running: 0, outcomes, rewards, turns: 0, groups: 0 }
    }

    /// A line above the bar.
    pub(super) fn say(&self, line: &str) {
        if self.shown {
            // Asking the bar anything in here would wait for its own lock.
            self.bar.suspend(|| eprintln!("{line}"));
        }
    }

    pub(super) fn show(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Planned { attempts, settled } => {
                self.bar.set_length(*attempts as u64);
                self.bar.set_position(*settled as u64);
                if *settled > 0 {
                    self.say(&format!("{settled} attempts were made by an earlier run"));
                }
            }
            Progress::Started { .. } => self.running += 1,
            Progress::Retrying { attempt_id, reason } => {
                self.running = self.running.saturating_sub(1);
                let reason = reason.map_or_else(String::new, ToString::to_string);
                self.say(&format!("{attempt_id} is tried again: {reason}"));
            }
            Progress::Ended(line) => {
                self.running = self.running.saturating_sub(1);
                *self.outcomes.entry(line.outcome).or_default() += 1;
                self.turns += u64::from(line.turns);
                if let Some(reward) = line.reward {
                    self.rewards = (self.rewards.0 + reward, self.rewards.1 + 1);
                }
                if line.outcome != Outcome::Done {
                    let reason = line.reason.as_ref().map_or_else(String::new, ToString::to_string);
                    self.say(&format!("{}: {}: {reason}", line.attempt_id, line.outcome));
                }
                self.bar.inc(1);
            }
            Progress::Forgotten { .. } => self.bar.inc(1),
            Progress::Group { group, .. } => {
                self.groups += u64::from(group.settled == group.attempts);
            }
            Progress::Held(Some(why)) => self.say(&format!("starts nothing for now: {why}")),
            Progress::Held(None) => self.say("goes on"),
            Progress::Stopping(why) => self.say(&format!("stops: {why}")),
        }
        self.bar.set_message(self.message());
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn message(&self) -> String {
        let mut message = format!("{} running", self.running);
        for (outcome, count) in &self.outcomes {
            // Writing to a string does not fail.
            let _ = write!(message, "  {count} {outcome}");
        }
        if self.rewards.1 > 0 {
            let _ = write!(message, "  reward {:.2}", self.rewards.0 / self.rewards.1 as f64);
        }
        let _ = write!(message, "  {} turns  {} groups complete", self.turns, self.groups);
        message
    }
}

/// The summary for people.
pub(super) fn table(summary: &Summary, out: &Path) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<24} {value}");
    };
    row("attempts", summary.attempts.to_string());
    if summary.settled_earlier > 0 {
        row("made earlier", summary.settled_earlier.to_string());
    }
    for (outcome, count) in &summary.outcomes {
        row(outcome.name(), count.to_string());
    }
    if summary.not_started > 0 {
        row("not started", summary.not_started.to_string());
    }
    if let Some(mean) = summary.mean_reward {
        row("mean reward", format!("{mean:.3} over {} attempts", summary.rewarded));
    }
    let scenes: Vec<_> =
        summary.scenes.iter().map(|(scene, count)| format!("{scene} {count}")).collect();
    let scenes = if scenes.is_empty() { String::new() } else { format!(": {}", scenes.join(", ")) };
    row("turns", format!("{}{scenes}", summary.turns));
    row("sampled tokens", summary.sampled_tokens.to_string());
    let groups = (summary.groups_complete, summary.groups_partial);
    row("groups", format!("{} complete, {} lack attempts", groups.0, groups.1));
    let warm = match summary.sandboxes.warm {
        0 => String::new(),
        warm => format!(", {warm} of them warm when they were wanted"),
    };
    row("sandboxes", format!("{} made{warm}", summary.sandboxes.made));
    row("time", time(summary));
    let unhealthy: Vec<_> =
        summary.unhealthy.iter().map(|(code, count)| format!("{code} x{count}")).collect();
    let health = match summary.samples {
        0 => "nothing was trained".to_owned(),
        _ if unhealthy.is_empty() => "all clean".to_owned(),
        _ => unhealthy.join(", "),
    };
    let made = if summary.settled_earlier > 0 { "new " } else { "" };
    row("samples", format!("{} {made}in {}, {health}", summary.samples, out.display()));
    for failure in &summary.failures {
        let reason = failure.reason.as_ref().map_or_else(String::new, ToString::to_string);
        row(&failure.attempt_id, format!("{}: {reason}", failure.outcome));
    }
    for warning in &summary.warnings {
        row("warning", warning.clone());
    }
    if let Some(stopped) = &summary.stopped {
        row("stopped", stopped.clone());
    }
    text.truncate(text.trim_end().len());
    text
}

/// How long the run took, and how much came of it in a second.
fn time(summary: &Summary) -> String {
    let seconds = summary.took_ms as f64 / 1_000.0;
    let each = |count: u64| count as f64 / seconds.max(0.001);
    let (turns, tokens) = (each(summary.turns), each(summary.sampled_tokens));
    format!("{seconds:.1} s: {turns:.1} turns and {tokens:.0} sampled tokens a second")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_scenes_and_warnings() {
        let scenes = [("main", 8), ("unknown", 2)].map(|(scene, n)| (scene.to_owned(), n)).into();
        let warnings = vec!["2 of 10 turns are of no known scene".to_owned()];
        let mut summary = Summary::default();
        summary.turns = 10;
        summary.scenes = scenes;
        summary.warnings = warnings;
        (summary.took_ms, summary.sampled_tokens) = (2_500, 500);
        let text = table(&summary, Path::new("out"));
        let has = |name: &str, value: &str| {
            let line = format!("{name:<24} {value}");
            assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line}: {text}");
        };
        has("turns", "10: main 8, unknown 2");
        has("time", "2.5 s: 4.0 turns and 200 sampled tokens a second");
        has("warning", "2 of 10 turns are of no known scene");
        assert!(!table(&Summary::default(), Path::new("out")).contains("warning"));
    }
}
