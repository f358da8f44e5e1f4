//! Curves as inline SVG.

use std::fmt::Write as _;

/// One curve.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) colour: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

/// The axis below.
pub(super) struct Axis {
    pub(super) title: &'static str,
    pub(super) marks: Vec<(f64, String)>,
}

const WIDE: f64 = 520.0;
const HIGH: f64 = 300.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 26.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 44.0;

/// A plot with its legend; nothing where there is no point.
pub(super) fn curves(
    title: &str,
    axis: &Axis,
    lines: &[Line],
    out: &mut String,
) -> std::fmt::Result {
    let points = || lines.iter().flat_map(|line| &line.points);
    if points().next().is_none() {
        return Ok(());
    }
    let right = points().map(|point| point.0).fold(0.001, f64::max);
    let top = round_up(points().map(|point| point.1).fold(0.0, f64::max));
    let x = |at: f64| LEFT + at / right * (WIDE - LEFT - RIGHT);
    let y = |at: f64| HIGH - BOTTOM - at / top * (HIGH - TOP - BOTTOM);
    let legend = 18.0 * lines.len() as f64;
    write!(
        out,
        "<svg class=\"plot\" viewBox=\"0 0 {WIDE} {}\"><text x=\"{LEFT}\" y=\"16\" font-weight=\"600\">{title}</text>",
        HIGH + legend
    )?;
    for n in 0..=4 {
        let value = top * f64::from(n) / 4.0;
        let at = y(value);
        write!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#e3e6ea\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDE - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            short(value)
        )?;
    }
    for (at, text) in axis.marks.iter().filter(|(at, _)| *at <= right * 1.001) {
        write!(
            out,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
            x(*at),
            HIGH - BOTTOM + 18.0
        )?;
    }
    write!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#5b6570\">{}</text>",
        (LEFT + WIDE - RIGHT) / 2.0,
        HIGH - 8.0,
        axis.title
    )?;
    for (n, line) in lines.iter().enumerate() {
        let points: Vec<String> = line
            .points
            .iter()
            .map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value)))
            .collect();
        let at = HIGH + 18.0 * n as f64 + 8.0;
        write!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\
             <rect x=\"{LEFT}\" y=\"{}\" width=\"14\" height=\"4\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>",
            points.join(" "),
            line.colour,
            at - 6.0,
            line.colour,
            LEFT + 22.0,
            at,
            super::html::escaped(&line.name)
        )?;
    }
    out.push_str("</svg>");
    Ok(())
}

/// The next 1, 2, 4, 5 or 8 with zeros behind.
fn round_up(most: f64) -> f64 {
    let ten = 10f64.powf(most.max(1e-6).log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
    steps.iter().map(|step| step * ten).find(|step| *step >= most).unwrap_or(ten * 10.0)
}

fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 || value == 0.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
