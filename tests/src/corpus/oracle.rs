//! How many samples there must be, from a plain list of what follows what. It knows no product code.
//!
//! A forest is a list of turns, each with its scene and the turn that it continues. A leaf is a
//! trained turn with none behind it. Each leaf makes a sample; a trained turn falls to the last leaf of
//! the main line if that lies behind it, else to the first leaf that does.

use serde_json::Value;

use super::agent::Asked;
use super::dialect::DELIVERED;
use super::script::{content_of, written};

/// A turn and what it continues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// What for.
    pub scene: &'static str,
    /// The turn that it continues.
    pub parent: Option<usize>,
}

/// Numbers of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// With a trained turn of the main line.
    pub main: usize,
    /// With other trained turns only.
    pub others: usize,
}

/// Whether turns of a scene are trained.
pub fn trained(scene: &str) -> bool {
    matches!(scene, "main" | "subagent" | "compaction")
}

/// Counts the samples of a forest.
pub fn counts(forest: &[Node]) -> Counts {
    let counts = |at: &usize| trained(forest[*at].scene);
    let inner: Vec<usize> =
        (0..forest.len()).filter(counts).flat_map(|at| path(forest, at).split_off(1)).collect();
    let leaves: Vec<usize> =
        (0..forest.len()).filter(counts).filter(|at| !inner.contains(at)).collect();
    let last_main = leaves.iter().rev().find(|at| forest[**at].scene == "main").copied();
    let mut samples: Vec<(bool, bool)> = vec![(false, false); leaves.len()];
    for (at, node) in forest.iter().enumerate().filter(|(_, node)| trained(node.scene)) {
        let behind = |leaf: usize| path(forest, leaf).contains(&at);
        let last = last_main.filter(|leaf| behind(*leaf));
        let leaf = last.or_else(|| leaves.iter().copied().find(|leaf| behind(*leaf)));
        let place = leaves.iter().position(|other| Some(*other) == leaf).expect("a leaf is behind");
        samples[place].0 |= node.scene == "main";
        samples[place].1 = true;
    }
    let main = samples.iter().filter(|(main, _)| *main).count();
    Counts { main, others: samples.iter().filter(|(_, any)| *any).count() - main }
}

fn path(forest: &[Node], leaf: usize) -> Vec<usize> {
    let mut path = vec![leaf];
    while let Some(parent) = forest[path[path.len() - 1]].parent {
        path.push(parent);
    }
    path
}

/// As the row means it: what `sticky` must make of the requests.
pub fn meant(log: &[Asked]) -> Vec<Node> {
    log.iter().map(|asked| Node { scene: asked.scene, parent: asked.parent }).collect()
}

/// As the texts say: what `faithful` must make of them. `drops`: reasoning before the last message
/// of a person is left out by the template, and the session says that so it shall be.
pub fn read(log: &[Asked], drops: bool) -> Vec<Node> {
    let mut forest: Vec<Node> = Vec::new();
    for (at, asked) in log.iter().enumerate() {
        let continued = (0..at).filter(|earlier| continues(&log[*earlier], asked, drops));
        let longest = continued.clone().map(|earlier| log[earlier].messages.len()).max();
        let children = |at: usize| forest.iter().filter(|node| node.parent == Some(at)).count();
        let parent = continued
            .filter(|earlier| Some(log[*earlier].messages.len()) == longest)
            .min_by_key(|earlier| children(*earlier));
        forest.push(Node { scene: asked.scene, parent });
    }
    forest
}

/// Whether `next` is the earlier request, its answer, and more.
fn continues(earlier: &Asked, next: &Asked, drops: bool) -> bool {
    let count = earlier.messages.len();
    if earlier.tools != next.tools || next.messages.len() <= count {
        return false;
    }
    let person =
        |asked: &Asked| asked.messages.iter().rposition(|message| message["role"] == "user");
    let (before, now) = (person(earlier), person(next));
    let gone = |at: usize, person: Option<usize>| drops && person.is_some_and(|last| at < last);
    let same = (0..count).all(|at| {
        let (old, new) = (&earlier.messages[at], &next.messages[at]);
        let thought =
            |message: &Value| message["reasoning_content"].as_str().is_some_and(|t| !t.is_empty());
        let dropped = gone(at, before) != gone(at, now) && (thought(old) || thought(new));
        reads(old) == reads(new) && !dropped
    });
    let replay = &next.messages[count];
    let verbatim = !earlier.answer.is_null() && plain(replay) == plain(&delivered(&earlier.answer));
    let as_said = replay["role"] == "assistant" && written(replay) == earlier.said;
    let dropped = gone(count, now) && earlier.said.contains("</think>");
    same && (verbatim || as_said) && !dropped
}

/// What the template writes of a message: who speaks, and what.
fn reads(message: &Value) -> (String, String) {
    let role = message["role"].as_str().unwrap_or_default().to_owned();
    let strip = |text: &str| {
        // The one thing that a rule hides from model and matching alike.
        let kept = text.lines().filter(|line| !line.starts_with("x-anthropic-billing-header:"));
        kept.collect::<Vec<_>>().join("\n")
    };
    match role.as_str() {
        "assistant" => (role, written(message)),
        "system" => (role, strip(&content_of(message))),
        _ => (role, content_of(message)),
    }
}

/// An answer as it came, where its client spells the calls' arguments anew.
fn delivered(answer: &Value) -> Value {
    let mut answer = answer.clone();
    for call in answer["tool_calls"].as_array_mut().into_iter().flatten() {
        let spelled = call["function"].as_object_mut().and_then(|call| call.remove(DELIVERED));
        if let Some(spelled) = spelled {
            call["function"]["arguments"] = spelled;
        }
    }
    answer
}

/// A message without what no template shows.
fn plain(message: &Value) -> (String, String) {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls: String = calls
        .map(|call| format!("{}{}", call["function"]["name"], call["function"]["arguments"]))
        .collect();
    let reasoning = message["reasoning_content"].as_str().unwrap_or_default();
    (format!("{reasoning}\n{}", content_of(message)), calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(forest: &[(&'static str, Option<usize>)], main: usize, others: usize) {
        let forest: Vec<Node> =
            forest.iter().map(|(scene, parent)| Node { scene, parent: *parent }).collect();
        assert_eq!(counts(&forest), Counts { main, others }, "{forest:?}");
    }

    #[test]
    fn leaves_are_counted_by_what_falls_to_them() {
        check(&[("main", None), ("main", Some(0))], 1, 0);
        check(&[("main", None), ("main", Some(0)), ("main", Some(0))], 2, 0);
        check(&[("main", None), ("subagent", None), ("title", None)], 1, 1);
        // A review is never trained, and a leaf of its own adds nothing.
        check(&[("main", None), ("review", Some(0)), ("main", Some(0))], 1, 0);
        check(&[("main", None), ("review", Some(0))], 1, 0);
        check(&[("main", None), ("review", Some(0)), ("main", Some(0)), ("review", Some(2))], 1, 0);
        // A summary that extends the main line takes it along, unless the main line goes on.
        check(&[("main", None), ("compaction", Some(0)), ("main", None)], 2, 0);
        check(&[("main", None), ("compaction", Some(0)), ("main", Some(0))], 1, 1);
    }
}
