//! The report for people, as text.

use std::fmt::Write as _;

use super::{Cell, Report, Run, Spread};

/// Header and table.
pub fn table(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = head(report, &mut out);
    let _ = rows(report, &mut out);
    out
}

fn head(report: &Report, out: &mut String) -> std::fmt::Result {
    let header = &report.header;
    let commit = header.commit.as_deref().unwrap_or("unknown");
    writeln!(
        out,
        "rollgate {} ({}), commit {commit}, {} build",
        header.version, header.driver, header.build
    )?;
    writeln!(
        out,
        "machine  {}, {} cores, Linux {}; gateway on {:?}, load and engine on core {}",
        header.processor, header.cores, header.kernel, header.gateway_cores, header.load_core
    )?;
    writeln!(
        out,
        "model    {}; {} shards; seed {}; fresh text every turn; every answer checked",
        header.model, header.shards, header.seed
    )?;
    for warning in &header.warnings {
        writeln!(out, "WARNING  {warning}")?;
    }
    writeln!(out)
}

fn rows(report: &Report, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "{:<18} {:<7} {:<14} {:>8} {:>9} {:>15} {:>7} {:>7} {:>6} {:>6} {:>9} {:>5}  {:>29} {:>9} {:>9} {:>8}",
        "gateway",
        "shape",
        "dialect",
        "sessions",
        "CPU us",
        "(least-most)",
        "user",
        "system",
        "limit",
        "x ours",
        "turns/s",
        "busy",
        "ms p50 / p90 / p99 / p99.9",
        "added p50",
        "RSS MiB",
        "KB/sess"
    )?;
    for cell in &report.cells {
        row(report, cell, out)?;
    }
    writeln!(out)?;
    for cell in &report.cells {
        let run = |number: fn(&Run) -> f64| cell.over_runs(number).median;
        writeln!(
            out,
            "{} {} {} x {}: requests of {:.1} KB, {:.1} KB new; {} turns, {} sessions' samples compared",
            cell.gateway,
            cell.shape,
            cell.dialect,
            cell.sessions,
            run(|run| run.request_bytes) / 1024.0,
            run(|run| run.new_bytes) / 1024.0,
            cell.runs.iter().map(|run| run.turns).sum::<u64>(),
            cell.runs.iter().map(|run| run.checked_sessions).sum::<usize>(),
        )?;
        for run in &cell.runs {
            for words in &run.words {
                writeln!(out, "  WRONG: {words}")?;
            }
        }
    }
    Ok(())
}

fn row(report: &Report, cell: &Cell, out: &mut String) -> std::fmt::Result {
    let run = |number: fn(&Run) -> f64| cell.over_runs(number).median;
    let Spread { median, least, most } = cell.over_runs(|run| run.cpu_us);
    let ms = |number: fn(&Run) -> f64| run(number) / 1e3;
    let latency = format!(
        "{:.2} / {:.2} / {:.2} / {:.2}",
        ms(|run| run.latency.p50_us),
        ms(|run| run.latency.p90_us),
        ms(|run| run.latency.p99_us),
        ms(|run| run.latency.p999_us),
    );
    let added = cell.direct.as_ref().map_or_else(
        || "-".to_owned(),
        |direct| format!("{:.3}", ms(|run| run.latency.p50_us) - direct.p50_us / 1e3),
    );
    let limit = cell.limit_us.map_or_else(|| "-".to_owned(), |limit| format!("{limit:.0}"));
    let ratio = report.ratio(cell).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
    writeln!(
        out,
        "{:<18} {:<7} {:<14} {:>8} {:>9.1} {:>15} {:>7.1} {:>7.1} {:>6} {:>6} {:>9.0} {:>5.2}  {:>29} {:>9} {:>9.1} {:>8.1}{}",
        cell.gateway,
        cell.shape,
        format!("{}{}", cell.dialect, if cell.stream { " SSE" } else { "" }),
        cell.sessions,
        median,
        format!("({least:.1}-{most:.1})"),
        run(|run| run.user_us),
        run(|run| run.system_us),
        limit,
        ratio,
        run(|run| run.turns_per_s),
        run(|run| run.busy),
        latency,
        added,
        run(|run| run.rss_after as f64) / 1024.0 / 1024.0,
        run(|run| run.rss_per_session) / 1024.0,
        match (cell.is_wrong(), cell.is_over_limit()) {
            (true, _) => "  WRONG",
            (false, true) => "  OVER THE LIMIT",
            (false, false) => "",
        }
    )
}
