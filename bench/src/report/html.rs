//! The report as one page that loads nothing: bars of CPU time, curves of latency, memory over time.

use std::fmt::Write as _;

use super::plot::{Axis, Line, curves};
use super::{Cell, Report, Run};

const STYLE: &str = "
body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1100px;padding:0 1rem;color:#1c2127;background:#fff}
h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2.2rem 0 .3rem}p{margin:.3rem 0}
table{border-collapse:collapse;width:100%;font-size:13px}td,th{padding:.25rem .5rem;text-align:right;border-bottom:1px solid #e3e6ea}
td:first-child,th:first-child{text-align:left}.ours td{background:#eef6ff}.bad{color:#b3261e;font-weight:600}
.note{color:#5b6570}.warn{background:#fff4d6;border-left:4px solid #e0a100;padding:.4rem .7rem}
.wrong{background:#fdeaea;border-left:4px solid #b3261e;padding:.4rem .7rem;white-space:pre-wrap;overflow-wrap:anywhere}
svg{max-width:100%;height:auto;display:block;margin:.5rem 0}svg text{font:12px system-ui,sans-serif;fill:#1c2127}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:1rem}@media(max-width:800px){.pair{grid-template-columns:1fr}}
";
const OURS: &str = "#1769c5";
const PEERS: [&str; 6] = ["#c2571a", "#5d8a2b", "#8a4fb0", "#b0336b", "#2a8c8c", "#7a6a3a"];

/// The page.
pub fn page(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_page(report, &mut out);
    out
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn write_page(report: &Report, out: &mut String) -> std::fmt::Result {
    let header = &report.header;
    write!(
        out,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>rollgate bench</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\
         <h1>rollgate bench</h1><p class=\"note\">rollgate {} ({}), commit {}, {} build · {}, {} cores, \
         Linux {} · gateway on cores {:?}, load and engine on core {} · model {} · {} shards · seed {}</p>",
        escaped(&header.version),
        escaped(&header.driver),
        escaped(header.commit.as_deref().unwrap_or("unknown")),
        header.build,
        escaped(&header.processor),
        header.cores,
        escaped(&header.kernel),
        header.gateway_cores,
        header.load_core,
        escaped(&header.model),
        header.shards,
        header.seed,
    )?;
    for warning in &header.warnings {
        write!(out, "<p class=\"warn\">{}</p>", escaped(warning))?;
    }
    let wrong = report.cells.iter().filter(|cell| cell.is_wrong());
    for cell in wrong {
        let words: Vec<&str> =
            cell.runs.iter().flat_map(|run| run.words.iter().map(String::as_str)).collect();
        write!(
            out,
            "<p class=\"wrong\">{} {} x {}: something was not as scripted\n{}</p>",
            escaped(&cell.gateway),
            cell.shape,
            cell.sessions,
            escaped(&words.join("\n"))
        )?;
    }
    bars(report, out)?;
    table(report, out)?;
    for loads in loads(report) {
        details(&loads, out)?;
    }
    out.push_str("</body></html>\n");
    Ok(())
}

/// Cells under the same load, ours first.
fn loads(report: &Report) -> Vec<Vec<&Cell>> {
    let mut all: Vec<Vec<&Cell>> = Vec::new();
    for cell in &report.cells {
        let same = |group: &&mut Vec<&Cell>| {
            let load = |cell: &Cell| (cell.shape.clone(), cell.sessions, cell.stream);
            !cell.is_ours() && group.first().is_some_and(|first| load(first) == load(cell))
        };
        match all.iter_mut().find(same) {
            Some(group) => group.push(cell),
            None => all.push(vec![cell]),
        }
    }
    all
}

/// A colour each, the same all over the page.
fn colour(name: &str) -> &'static str {
    if name == super::OURS {
        return OURS;
    }
    let sum: usize = name.bytes().map(usize::from).sum();
    PEERS[sum % PEERS.len()]
}

fn name(cell: &Cell) -> String {
    let stream = if cell.stream { " SSE" } else { "" };
    format!("{} · {}{stream} · {} sessions", cell.shape, cell.dialect, cell.sessions)
}

/// Bars of CPU time, each with least and most, and the limit as a line.
fn bars(report: &Report, out: &mut String) -> std::fmt::Result {
    const ROW: f64 = 26.0;
    const LEFT: f64 = 330.0;
    const WIDE: f64 = 620.0;
    let most = report.cells.iter().map(|cell| cell.over_runs(|run| run.cpu_us).most);
    let limits = report.cells.iter().filter_map(|cell| cell.limit_us);
    let most = most.chain(limits).fold(1.0, f64::max);
    let x = |us: f64| LEFT + us / most * WIDE;
    let high = ROW * report.cells.len() as f64 + 20.0;
    write!(
        out,
        "<h2>CPU time of a turn, in microseconds</h2><p class=\"note\">User and kernel, all threads and \
         processes of the gateway. Bars are medians of the repeats, thin lines least and most; the \
         red line is the limit. Light: in the kernel.</p><svg id=\"cpu\" viewBox=\"0 0 1060 {high}\">"
    )?;
    for (n, cell) in report.cells.iter().enumerate() {
        let y = ROW * n as f64 + 6.0;
        let spread = cell.over_runs(|run| run.cpu_us);
        let user = cell.over_runs(|run| run.user_us).median.min(spread.median);
        let fill = colour(&cell.gateway);
        let (middle, text) = (y + 9.0, y + 13.0);
        let wide = (x(spread.median) - LEFT).max(0.0);
        write!(
            out,
            "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{} · {}</text>\
             <rect class=\"bar\" x=\"{LEFT}\" y=\"{y}\" width=\"{wide:.1}\" height=\"18\" fill=\"{fill}\" opacity=\".45\"/>\
             <rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"18\" fill=\"{fill}\"/>\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" y2=\"{middle}\" stroke=\"#1c2127\"/>",
            LEFT - 8.0,
            escaped(&cell.gateway),
            name(cell),
            (x(user) - LEFT).max(0.0),
            x(spread.least),
            x(spread.most),
        )?;
        if let Some(limit) = cell.limit_us {
            write!(
                out,
                "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#b3261e\" stroke-width=\"2\"/>",
                x(limit),
                y - 3.0,
                y + 21.0
            )?;
        }
        let ratio =
            report.ratio(cell).map_or_else(String::new, |ratio| format!(" ({ratio:.2} x ours)"));
        let at = x(spread.most.max(cell.limit_us.unwrap_or_default())) + 6.0;
        write!(out, "<text x=\"{at:.1}\" y=\"{text}\">{:.0}{ratio}</text>", spread.median)?;
    }
    out.push_str("</svg>");
    Ok(())
}

fn table(report: &Report, out: &mut String) -> std::fmt::Result {
    out.push_str(
        "<h2>Figures</h2><table><tr><th>gateway</th><th>load</th><th>CPU µs</th><th>least–most</th>\
         <th>user</th><th>kernel</th><th>limit</th><th>turns/s</th><th>busy</th><th>p50 ms</th>\
         <th>p99 ms</th><th>p99.9 ms</th><th>added p50</th><th>added p99</th><th>RSS MiB</th>\
         <th>KB/session</th></tr>",
    );
    for cell in &report.cells {
        let run = |number: fn(&Run) -> f64| cell.over_runs(number).median;
        let cpu = cell.over_runs(|run| run.cpu_us);
        let (p50, p99) = (run(|run| run.latency.p50_us), run(|run| run.latency.p99_us));
        let added = |of: f64, direct: Option<f64>| {
            direct.map_or_else(|| "–".to_owned(), |direct| format!("{:.2}", (of - direct) / 1e3))
        };
        let direct = cell.direct.as_ref();
        write!(
            out,
            "<tr class=\"{}\"><td>{}</td><td>{}</td><td class=\"{}\">{:.1}</td><td>{:.1}–{:.1}</td>\
             <td>{:.1}</td><td>{:.1}</td><td>{}</td><td>{:.0}</td><td>{:.2}</td><td>{:.2}</td><td>{:.2}</td>\
             <td>{:.2}</td><td>{}</td><td>{}</td><td>{:.1}</td><td>{:.1}</td></tr>",
            if cell.is_ours() { "ours" } else { "" },
            escaped(&cell.gateway),
            name(cell),
            if cell.is_over_limit() { "bad" } else { "" },
            cpu.median,
            cpu.least,
            cpu.most,
            run(|run| run.user_us),
            run(|run| run.system_us),
            cell.limit_us.map_or_else(|| "–".to_owned(), |limit| format!("{limit:.0}")),
            run(|run| run.turns_per_s),
            run(|run| run.busy),
            p50 / 1e3,
            p99 / 1e3,
            run(|run| run.latency.p999_us) / 1e3,
            added(p50, direct.map(|direct| direct.p50_us)),
            added(p99, direct.map(|direct| direct.p99_us)),
            run(|run| run.rss_after as f64) / 1024.0 / 1024.0,
            run(|run| run.rss_per_session) / 1024.0,
        )?;
    }
    out.push_str("</table>");
    Ok(())
}

/// Latency and memory of the gateways under one load.
fn details(cells: &[&Cell], out: &mut String) -> std::fmt::Result {
    let Some(first) = cells.first() else { return Ok(()) };
    let run = |number: fn(&Run) -> f64| first.over_runs(number).median;
    write!(
        out,
        "<h2>{}</h2><p class=\"note\">Requests of {:.1} KB, of which {:.1} KB are new; {} turns; samples of {} \
         sessions compared with what was sampled.</p><div class=\"pair\">",
        name(first),
        run(|run| run.request_bytes) / 1024.0,
        run(|run| run.new_bytes) / 1024.0,
        cells.iter().flat_map(|cell| &cell.runs).map(|run| run.turns).sum::<u64>(),
        cells.iter().flat_map(|cell| &cell.runs).map(|run| run.checked_sessions).sum::<usize>(),
    )?;
    let (mut latency, mut memory) = (Vec::new(), Vec::new());
    for cell in cells {
        let Some(run) = cell.runs.first() else { continue };
        let line =
            |points| Line { name: cell.gateway.clone(), colour: colour(&cell.gateway), points };
        latency.push(line(by_nines(&run.latency.curve)));
        let memory_mib =
            run.rss_over_time.iter().map(|(at, bytes)| (*at, *bytes as f64 / 1048576.0));
        memory.push(line(memory_mib.collect()));
    }
    if let Some(direct) = &first.direct {
        let points = by_nines(&direct.curve);
        latency.push(Line { name: "the engine itself".to_owned(), colour: "#8b949e", points });
    }
    let nines = [(0.0, "0"), (1.0, "90 %"), (2.0, "99 %"), (3.0, "99.9 %"), (4.0, "99.99 %")];
    let x = Axis {
        title: "share of turns",
        marks: nines.map(|(at, text)| (at, text.to_owned())).into(),
    };
    curves("Latency of a turn, ms (first repeat)", &x, &latency, out)?;
    let last = memory.iter().flat_map(|line| line.points.last()).map(|point| point.0);
    let last = last.fold(0.0, f64::max);
    let marks =
        (0..5).map(|n| (last * f64::from(n) / 4.0, format!("{:.1}", last * f64::from(n) / 4.0)));
    let x = Axis { title: "seconds measured", marks: marks.collect() };
    curves("Resident memory, MiB (first repeat)", &x, &memory, out)?;
    out.push_str("</div>");
    Ok(())
}

/// Shares as numbers of nines, latencies in milliseconds.
fn by_nines(curve: &[(f64, f64)]) -> Vec<(f64, f64)> {
    curve.iter().map(|(share, us)| (-(1.0 - share).log10(), us / 1e3)).collect()
}
