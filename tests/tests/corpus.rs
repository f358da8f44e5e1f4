//! What agents do to their own history, row by row: each sampled token is trained exactly once, in as
//! many segments as expected. `ROLLGATE_CORPUS_TABLE` names a file for the table, and
//! `ROLLGATE_CORPUS_ROWS` the rows and `ROLLGATE_CORPUS_DIALECTS` the dialects to play where not all
//! are wanted.

use rollgate_tests::corpus::dialect::Dialect;
use rollgate_tests::corpus::expected::LeftOut;
use rollgate_tests::corpus::ledger::Ledger;
use rollgate_tests::corpus::rows::Row;
use rollgate_tests::corpus::vocabulary::Vocabulary;
use rollgate_tests::corpus::{Way, expected, play, rows, table};
use rollgate_tests::gate::{Gate, Settings};
use rollgate_tests::program;
use rollgate_tests::scripted::Scripted;
use serde_json::{Value, json};

#[test]
fn every_sampled_token_is_trained_once_whatever_agents_do_to_their_history() {
    // A row that fails is told of in the table; the others go on.
    std::panic::set_hook(Box::new(|info| {
        if std::thread::current().name().is_some() {
            eprintln!("{info}");
        }
    }));
    let (expected, left_out) = expected::read();
    let all = rows::all();
    let ids: Vec<&str> = all.iter().map(|row| row.id).collect();
    assert!(
        expected.keys().all(|id| ids.contains(&id.as_str())),
        "a row of the table is not played"
    );
    let tasks = tasks(all, &left_out);

    let directory = tempfile::tempdir().unwrap();
    let model = play::roomy_model(&program::demo_model(), directory.path());
    let record = directory.path().join("calls.jsonl");
    let mut names = std::collections::BTreeSet::new();
    // The rows with the longest prompts come first, so that few marks are sought in these.
    let scripts = tasks.iter().rev().map(|(row, way)| play::script(row, *way));
    let scripts = scripts.filter(|script| names.insert(script.name.clone()));
    let replies: Vec<Value> =
        scripts.flat_map(|script| script.replies().collect::<Vec<_>>()).collect();
    let arguments = ["--model", model.to_str().unwrap(), "--record", record.to_str().unwrap()];
    let engine = Scripted::start_with(directory.path(), &json!({"replies": replies}), &arguments);
    let gate = Gate::start(
        directory.path(),
        &Settings { model: model.clone(), ..Settings::new(&engine.url) },
    );

    let played = play::all(&gate, &tasks);
    let words = Vocabulary::read(&model.join("tokenizer.json"));
    let ledger = Ledger::read(&record, &words);
    let judged: Vec<_> =
        played.iter().map(|one| play::judge(one, &ledger, &words, &expected)).collect();

    let text = table::text(&judged, &left_out);
    println!("{text}");
    if let Some(path) = std::env::var_os("ROLLGATE_CORPUS_TABLE") {
        std::fs::write(path, &text).unwrap();
    }
    let problems = table::problems(&judged);
    let failed = judged.iter().filter(|one| !one.problems.is_empty()).count();
    assert!(problems.is_empty(), "{failed} of {} fail\n{problems}", judged.len());
}

/// Every row in every way that its dialects can say.
fn tasks(rows: Vec<Row>, left_out: &[LeftOut]) -> Vec<(Row, Way)> {
    let only = |variable: &str| std::env::var(variable).ok();
    let (wanted, spoken) = (only("ROLLGATE_CORPUS_ROWS"), only("ROLLGATE_CORPUS_DIALECTS"));
    let within = |only: &Option<String>, name: &str| {
        only.as_deref().is_none_or(|only| only.split(',').any(|other| other == name))
    };
    for out in left_out {
        assert!(rows.iter().any(|row| row.id == out.id), "{} is left out and is no row", out.id);
    }
    let dialects = Dialect::ALL.into_iter().filter(|dialect| within(&spoken, dialect.name()));
    let mut tasks = Vec::new();
    for dialect in dialects {
        let said = |row: &&Row| !left_out.iter().any(|o| (&*o.id, o.dialect) == (row.id, dialect));
        let rows = rows.iter().filter(said).filter(|row| within(&wanted, row.id));
        tasks.extend(rows.flat_map(|row| Way::of(dialect).map(|way| (*row, way))));
    }
    tasks
}
