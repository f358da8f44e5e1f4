//! The table that a run prints.

use std::fmt::Write as _;

use super::expected::LeftOut;
use super::play::Judged;

/// One line a row and way, then what is wrong.
pub fn text(judged: &[Judged], left_out: &[LeftOut]) -> String {
    let mut out = String::new();
    let mut line = |cells: [&str; 9]| {
        let [id, what, dialect, form, mode, segments, expected, trained, notes] = cells;
        writeln!(
            out,
            "{id:12} {what:62} {dialect:9} {form:4} {mode:8} {segments:>8} {expected:>8} {trained:>8}  {notes}"
        )
        .expect("writing to a string");
    };
    line(["id", "what", "dialect", "form", "mode", "segments", "expected", "trained", "notes"]);
    for one in judged {
        let main = if one.way.faithful { one.expected.faithful } else { one.expected.sticky };
        let number = |main: usize, others: usize| match others {
            0 => main.to_string(),
            others => format!("{main}+{others}"),
        };
        let trained = one.found.trained as f64 * 100.0 / one.found.sampled.max(1) as f64;
        let notes = if one.problems.is_empty() { &one.expected.why } else { &one.problems[0] };
        let notes =
            if one.problems.is_empty() { notes.clone() } else { format!("FAILED: {notes}") };
        line([
            one.row.id,
            one.row.what,
            one.way.dialect.name(),
            one.way.form(),
            one.way.mode(),
            &number(one.found.counts.main, one.found.counts.others),
            &number(main, one.expected.others),
            &format!("{trained:.1}%"),
            &notes,
        ]);
    }
    for LeftOut { id, dialect, why } in left_out {
        let dialect = dialect.name();
        writeln!(out, "{id:12} not in {dialect}: {why}").expect("writing to a string");
    }
    out
}

/// All that is wrong, one thing a line.
pub fn problems(judged: &[Judged]) -> String {
    let mut out = String::new();
    for one in judged {
        for problem in &one.problems {
            writeln!(out, "{} {}: {problem}", one.row.id, one.way.name())
                .expect("writing to a string");
        }
    }
    out
}
