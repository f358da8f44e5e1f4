//! Plays one row in one way, and judges it.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::agent::{Agent, Asked};
use super::check::{self, Findings};
use super::expected::{self, Expected};
use super::ledger::{self, Ledger};
use super::oracle::{self, Counts};
use super::rows::{Row, Seen};
use super::script::Script;
use super::vocabulary::Vocabulary;
use super::wire::Wire;
use super::{Way, links};
use crate::gate::{Gate, Session};
use crate::samples;

/// Agents at work at the same time.
const AGENTS: usize = 4;

/// A row that was played.
#[derive(Debug)]
pub struct Played {
    /// The row.
    pub row: Row,
    /// The way.
    pub way: Way,
    script: Script,
    session: String,
    log: Vec<Asked>,
    samples: String,
    /// Why it did not come to its end.
    failed: Option<String>,
}

/// A row that was judged.
#[derive(Debug)]
pub struct Judged {
    /// The row.
    pub row: Row,
    /// The way.
    pub way: Way,
    /// What it must give.
    pub expected: Expected,
    /// What it gave.
    pub found: Findings,
    /// What is wrong; empty: nothing.
    pub problems: Vec<String>,
}

/// The script of a row in a way.
pub fn script(row: &Row, way: Way) -> Script {
    let name = if row.counts_calls {
        format!("{}-{}", row.id, way.name().replace(' ', "-"))
    } else {
        row.id.to_owned()
    };
    (row.script)(&name)
}

/// Plays rows in these ways, several at a time.
pub fn all(gate: &Gate, tasks: &[(Row, Way)]) -> Vec<Played> {
    let next = AtomicUsize::new(0);
    let played = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AGENTS {
            scope.spawn(|| {
                while let Some((row, way)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = play(gate, *row, *way);
                    played.lock().expect("no thread panics with it").push(one);
                }
            });
        }
    });
    let mut played = played.into_inner().expect("no thread panicked with it");
    played.sort_by_key(|one| (one.row.id, one.way));
    played
}

fn play(gate: &Gate, row: Row, way: Way) -> Played {
    let script = script(&row, way);
    let words = format!("{} {}", row.id, way.name());
    let mut log = Vec::new();
    let whole = catch_unwind(AssertUnwindSafe(|| {
        let session = gate.create(&row.options(way.mode()));
        let (agents, key) = (gate.agents.clone(), session.key.clone());
        let tells_scene = row.agent.is_some();
        let wire = Wire { agents, key, dialect: way.dialect, stream: way.stream, tells_scene };
        let mut agent = Agent::new(way, script.clone(), wire, format!("session {words}"));
        let end = catch_unwind(AssertUnwindSafe(|| (row.play)(&mut agent)));
        log = std::mem::take(&mut agent.log);
        (finish(gate, &session), end.err().map(|panic| told(&*panic)))
    }));
    let (samples, failed) = whole.unwrap_or_else(|panic| (String::new(), Some(told(&*panic))));
    Played { row, way, script, session: words, log, samples, failed }
}

fn finish(gate: &Gate, session: &Session) -> String {
    gate.close(session);
    gate.samples(session)
}

fn told(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("did not end: {}", text.unwrap_or("a panic"))
}

/// Judges a row by the table, by the oracle, and by the engine's ledger.
pub fn judge(played: &Played, ledger: &Ledger, words: &Vocabulary, table: &toml::Table) -> Judged {
    let Played { row, way, script, .. } = played;
    let expected = expected::of(table, row.id, way.dialect);
    let main = if way.faithful { expected.faithful } else { expected.sticky };
    let wanted = Counts { main, others: expected.others };
    let mut problems: Vec<String> = played.failed.clone().into_iter().collect();
    let scene = |step: &str| {
        let asked = played.log.iter().find(|asked| asked.step == step);
        asked.map_or("main", |asked| asked.scene)
    };
    let all = ledger.generations(&played.session, script, words);
    let samples = samples::parse(&played.samples);
    let found = check::check(&samples, &all, words, scene);
    if played.failed.is_none() {
        let meant = match way.faithful {
            true => oracle::read(&played.log, row.drops(true)),
            false => oracle::meant(&played.log),
        };
        let told = [
            ("the oracle's list", oracle::counts(&meant)),
            ("the engine's ledger", oracle::counts(&ledger::forest(&all, scene))),
            ("the samples", found.counts),
        ];
        for (who, counts) in told.into_iter().filter(|(_, counts)| *counts != wanted) {
            let others = |counts: Counts| format!("{}+{}", counts.main, counts.others);
            problems.push(format!("{who}: {} segments, not {}", others(counts), others(wanted)));
        }
    }
    problems.extend(found.problems.iter().cloned());
    problems.extend(links::missing(row.links, &samples, &all, &found));
    let kinds: BTreeSet<&str> = row.links.iter().map(|link| link.kind).collect();
    let wanted_kinds: BTreeSet<&str> = expected.links.iter().map(String::as_str).collect();
    assert_eq!(kinds, wanted_kinds, "{}: kinds of links", row.id);
    if let Some(also) = row.also.filter(|_| played.failed.is_none()) {
        problems.extend(also(&Seen { samples: &samples, all: &all, words }));
    }
    if played.failed.is_none() && played.log.len() < 6 {
        problems.push("fewer than six turns".to_owned());
    }
    Judged { row: *row, way: *way, expected, found, problems }
}

/// Where a directory for the model is made: the demo's files and room for a line of 1 MB.
pub fn roomy_model(demo: &Path, directory: &Path) -> std::path::PathBuf {
    let model = directory.join("model");
    std::fs::create_dir(&model).expect("a directory can be made");
    for entry in std::fs::read_dir(demo).expect("the demo model can be read") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name");
        std::fs::copy(&path, model.join(name)).expect("a file can be copied");
    }
    let file = model.join("config.json");
    let text = std::fs::read_to_string(&file).expect("the model has a configuration");
    let roomy = text.replace("32768", "1048576");
    assert_ne!(text, roomy, "the configuration names its context");
    std::fs::write(&file, roomy).expect("it can be written");
    model
}
