//! The samples of a session against the engine's ledger.

use rollgate_pipeline::sample::Sample;

use super::ledger::Generation;
use super::oracle::{Counts, trained};
use super::vocabulary::Vocabulary;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Samples by what they train.
    pub counts: Counts,
    /// Sampled tokens of trained scenes.
    pub sampled: usize,
    /// Of these, trained exactly once.
    pub trained: usize,
    /// What is wrong.
    pub problems: Vec<String>,
    /// Where each generation is trained: segment and turn.
    pub places: Vec<Option<(u32, u32)>>,
}

/// Compares samples with generations. `scene` tells a step's scene; `health` are reasons that are
/// allowed.
pub fn check(
    samples: &[Sample],
    all: &[Generation],
    words: &Vocabulary,
    scene: impl Fn(&str) -> &'static str,
) -> Findings {
    let mut found = Findings { places: vec![None; all.len()], ..Findings::default() };
    let mut times = vec![0_usize; all.len()];
    for sample in samples {
        let reasons = sample.health.reasons();
        if !reasons.is_empty() {
            found.problems.push(format!("segment {} is unhealthy: {reasons:?}", sample.segment));
        }
        let mut scenes = Vec::new();
        let mut masked = 0;
        for span in &sample.turns {
            let (start, end) = (span.start as usize, span.end as usize);
            let mask = &sample.loss_mask[start..end];
            let on = mask.iter().filter(|bit| **bit == 1).count();
            masked += on;
            let Some(at) = place(sample, start, end, all, &times) else {
                found.problems.push(unknown(sample, start, end, all, words));
                continue;
            };
            let scene = scene(&all[at].step);
            if on == 0 {
                continue;
            }
            if on < mask.len() || !trained(scene) {
                let what = format!("{on} of {} ids of step {} ({scene})", mask.len(), all[at].step);
                found.problems.push(format!("{what} are trained in segment {}", sample.segment));
            }
            if !same_bits(&sample.logprobs[start..end], &all[at].logprobs) {
                found.problems.push(format!("other log-probs at step {}", all[at].step));
            }
            times[at] += 1;
            found.places[at] = Some((sample.segment, span.turn.0));
            scenes.push(scene);
        }
        let all_masked = sample.loss_mask.iter().filter(|bit| **bit == 1).count();
        if all_masked != masked {
            found.problems.push(format!("{} ids outside turns are trained", all_masked - masked));
        }
        match (scenes.contains(&"main"), scenes.is_empty()) {
            (true, _) => found.counts.main += 1,
            (false, false) => found.counts.others += 1,
            (false, true) => {
                found.problems.push(format!("segment {} trains nothing", sample.segment));
            }
        }
    }
    for (generation, times) in all.iter().zip(times) {
        if !trained(scene(&generation.step)) {
            continue;
        }
        found.sampled += generation.ids.len();
        match times {
            1 => found.trained += generation.ids.len(),
            _ => found.problems.push(format!("step {} is trained {times} times", generation.step)),
        }
    }
    found
}

/// The generation that this span is: same prompt, same ids. Of equal ones, the least trained.
fn place(
    sample: &Sample,
    start: usize,
    end: usize,
    all: &[Generation],
    times: &[usize],
) -> Option<usize> {
    let same =
        |g: &Generation| sample.tokens[..start] == g.prompt && sample.tokens[start..end] == g.ids;
    let equal = (0..all.len()).filter(|at| same(&all[*at]));
    equal.min_by_key(|at| times[*at])
}

/// Says how a span differs from what the engine saw.
fn unknown(
    sample: &Sample,
    start: usize,
    end: usize,
    all: &[Generation],
    words: &Vocabulary,
) -> String {
    let segment = sample.segment;
    let ids = &sample.tokens[start..end];
    let prompt = &sample.tokens[..start];
    let common = |g: &&Generation| g.prompt.iter().zip(prompt).take_while(|(a, b)| a == b).count();
    let Some(near) = all.iter().filter(|g| g.ids == ids).max_by_key(common) else {
        return format!("segment {segment}: ids {start}..{end} were never sampled");
    };
    let at = common(&near);
    let around = |ids: &[u32]| words.text(&ids[at.saturating_sub(6)..ids.len().min(at + 10)]);
    format!(
        "segment {segment}: before step {} the sample has {start} ids and the engine saw {}; they \
         part at {at}: sample {:?}, engine {:?}",
        near.step,
        near.prompt.len(),
        around(prompt),
        around(&near.prompt)
    )
}

fn same_bits(left: &[f32], right: &[f32]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(a, b)| a.to_bits() == b.to_bits())
}
