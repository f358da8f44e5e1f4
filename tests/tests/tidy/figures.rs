//! The README's tables of measurements are what the newest results file says.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{project_files, text_of};

/// The results file whose run began last, with its path.
fn newest() -> (PathBuf, Value) {
    let results = project_files().into_iter().filter(|path| path.starts_with("bench/results"));
    let read =
        results.filter(|path| path.extension().is_some_and(|end| end == "json")).map(|path| {
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

/// CPU time of a turn, with its spread.
fn cpu(cell: &Value) -> String {
    let figures = sorted(cell, "/cpu_us");
    let (least, most) = (figures.first().unwrap_or(&f64::NAN), figures.last().unwrap_or(&f64::NAN));
    format!("{:.0} ({least:.0}-{most:.0})", median(&figures))
}

fn p99_ms(cell: &Value) -> String {
    format!("{:.0}", median(&sorted(cell, "/latency/p99_us")) / 1_000.0)
}

/// One line for each load, one column for each gateway.
fn table(results: &Value, figure: fn(&Value) -> String) -> String {
    let cells = results["cells"].as_array().expect("results have cells");
    let (mut gateways, mut loads) = (Vec::new(), Vec::<(&Value, &Value)>::new());
    for cell in cells {
        let load = (&cell["shape"], &cell["sessions"]);
        gateways.extend((!gateways.contains(&&cell["gateway"])).then_some(&cell["gateway"]));
        loads.extend((!loads.contains(&load)).then_some(load));
    }
    let name = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let named: Vec<_> = gateways.iter().map(|gateway| name(gateway)).collect();
    let head = format!("| shape | sessions | {} |\n", named.join(" | "));
    let rows = loads.iter().map(|(shape, sessions)| {
        let told = gateways.iter().map(|gateway| {
            let mut same = cells.iter().filter(|cell| {
                (&cell["gateway"], &cell["shape"], &cell["sessions"])
                    == (*gateway, *shape, *sessions)
            });
            let cell = same.next().expect("every gateway has every load");
            assert!(
                same.next().is_none(),
                "one dialect and form: {shape} x {sessions} is there twice"
            );
            let bad =
                ["/wrong", "/errors"].iter().flat_map(|key| sorted(cell, key)).any(|n| n > 0.0);
            if bad { "fails".to_owned() } else { figure(cell) }
        });
        let told: Vec<_> = told.collect();
        format!("| {} | {sessions} | {} |\n", name(shape), told.join(" | "))
    });
    format!("{head}|---|---|{}\n{}", "---|".repeat(gateways.len()), rows.collect::<String>())
}

#[test]
fn the_readmes_figures_are_those_of_the_newest_results_file() {
    let (path, results) = newest();
    let readme = text_of(Path::new("README.md")).expect("README.md is text");
    for expected in [table(&results, cpu), table(&results, p99_ms)] {
        assert!(
            readme.contains(&expected),
            "README.md lacks this table of {path:?}:\n\n{expected}"
        );
    }
    let header = &results["header"];
    for key in ["commit", "processor", "kernel"] {
        let said = header[key].as_str().unwrap_or("?");
        assert!(readme.contains(said), "README.md does not name the run's {key}, {said}");
    }
    assert!(readme.contains(&path.display().to_string()), "README.md does not name {path:?}");
}
