//! Links between segments, as the rows with subagents and compactions must have them.

use rollgate_pipeline::sample::Sample;
use serde_json::Value;

use super::check::Findings;
use super::ledger::Generation;

/// What a row says of its links: from the segment that trains a step to where another is trained.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Its kind.
    pub kind: &'static str,
    /// A step of the segment that has it.
    pub from: &'static str,
    /// The step that it leads to.
    pub to: &'static str,
    /// Whether it names the very turn.
    pub turn: bool,
}

/// What is missing.
pub fn missing(
    wanted: &[Link],
    samples: &[Sample],
    all: &[Generation],
    found: &Findings,
) -> Vec<String> {
    let place = |step: &str| {
        let at = all.iter().position(|generation| generation.step == step)?;
        found.places[at]
    };
    let holds = |link: &&Link| {
        let (Some((from, _)), Some((to, turn))) = (place(link.from), place(link.to)) else {
            return false;
        };
        let of = samples.iter().filter(|sample| sample.segment == from);
        of.flat_map(told).any(|value| {
            value["kind"] == link.kind
                && value["to"]["segment"] == to
                && (!link.turn || value["to"]["turn"] == turn)
        })
    };
    let text = |link: &Link| {
        let (from, to) = (place(link.from), place(link.to));
        let there: Vec<String> = samples
            .iter()
            .map(|sample| format!("{}: {}", sample.segment, Value::from(told(sample))))
            .collect();
        format!(
            "no link {} from step {} ({from:?}) to step {} ({to:?}); there are {there:?}",
            link.kind, link.from, link.to
        )
    };
    wanted.iter().filter(|link| !holds(link)).map(text).collect()
}

/// The links of a sample as JSON, as trainers read them.
fn told(sample: &Sample) -> Vec<Value> {
    let json = |link| serde_json::to_value(link).expect("a link is JSON");
    sample.links.iter().map(json).collect()
}
