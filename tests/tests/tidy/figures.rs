//! The README's table of measurements is what the newest results file says.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{project_files, text_of};

const HEAD: &str = "\
| shape | sessions | gateway | CPU µs a turn (least-most) | x rollgate | p99 ms | RSS MiB |
|---|---|---|---|---|---|---|
";

/// The results file whose run began last, with its path.
fn newest() -> (PathBuf, Value) {
    let results = project_files().into_iter().filter(|path| path.starts_with("bench/results"));
    let read = results.filter(|path| path.extension().is_some_and(|end| end == "json")).map(|path| {
        let text = text_of(&path).expect("results are text");
        let value = serde_json::from_str::<Value>(&text);
        let value = value.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, value)
    });
    let began = |value: &Value| value["header"]["started_at_ms"].as_u64();
    read.max_by_key(|(_, value)| began(value)).expect("bench/results has a results file")
}

/// A figure of all repeats of a cell, in order.
fn sorted(cell: &Value, pointer: &str) -> Vec<f64> {
    let runs = cell["runs"].as_array().into_iter().flatten();
    let mut figures: Vec<f64> =
        runs.filter_map(|run| run.pointer(pointer).and_then(Value::as_f64)).collect();
    figures.sort_by(f64::total_cmp);
    figures
}

fn median(figures: &[f64]) -> f64 {
    match figures.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => figures[count / 2],
        count => f64::midpoint(figures[count / 2 - 1], figures[count / 2]),
    }
}

fn row(cell: &Value, ours_us: f64) -> String {
    let name = |key: &str| cell[key].as_str().unwrap_or("?").to_owned();
    let wrong = sorted(cell, "/wrong").iter().chain(&sorted(cell, "/errors")).any(|n| *n > 0.0);
    let start = format!("| {} | {} | {} |", name("shape"), cell["sessions"], name("gateway"));
    if wrong {
        return format!("{start} fails | | | |\n");
    }
    let cpu = sorted(cell, "/cpu_us");
    let (least, most) = (cpu.first().unwrap_or(&f64::NAN), cpu.last().unwrap_or(&f64::NAN));
    let middle = median(&cpu);
    let p99_ms = median(&sorted(cell, "/latency/p99_us")) / 1_000.0;
    let rss_mib = median(&sorted(cell, "/rss_after")) / (1 << 20) as f64;
    format!(
        "{start} {middle:.0} ({least:.0}-{most:.0}) | {:.2} | {p99_ms:.0} | {rss_mib:.0} |\n",
        middle / ours_us
    )
}

fn table(results: &Value) -> String {
    let cells = results["cells"].as_array().expect("results have cells");
    let same = |one: &Value, other: &Value| {
        ["shape", "sessions", "stream"].iter().all(|key| one[*key] == other[*key])
    };
    let rows = cells.iter().map(|cell| {
        let ours = cells.iter().find(|other| other["gateway"] == "rollgate" && same(cell, other));
        row(cell, ours.map_or(f64::NAN, |ours| median(&sorted(ours, "/cpu_us"))))
    });
    format!("{HEAD}{}", rows.collect::<String>())
}

#[test]
fn the_readmes_figures_are_those_of_the_newest_results_file() {
    let (path, results) = newest();
    let readme = text_of(Path::new("README.md")).expect("README.md is text");
    let expected = table(&results);
    assert!(readme.contains(&expected), "README.md's table is not that of {path:?}:\n\n{expected}");
    let header = &results["header"];
    for key in ["commit", "processor", "kernel"] {
        let said = header[key].as_str().unwrap_or("?");
        assert!(readme.contains(said), "README.md does not name the run's {key}, {said}");
    }
    assert!(readme.contains(&path.display().to_string()), "README.md does not name {path:?}");
}
