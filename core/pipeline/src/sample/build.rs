//! From a session's records to samples: one segment, one sample.

use std::collections::{BTreeMap, BTreeSet};

use super::branches::{Branches, Session};
use super::links::links;
use super::{Health, Provenance, Sample, check, check_session, columns_blake3, fill};
use crate::record::{Opened, Record, TurnRecord};

/// What the controller knows of an attempt and the journal does not.
#[derive(Clone, PartialEq, Debug)]
pub struct Attempt {
    /// The task.
    pub task_id: String,
    /// The group.
    pub group_id: String,
    /// Which attempt of the group, from 0.
    pub attempt: u32,
    /// How many attempts the group has.
    pub siblings: u32,
    /// Agent and version.
    pub agent: String,
    /// How it ended; `None`: as the journal says (`done` when sealed, else `open`).
    pub outcome: Option<String>,
}

/// The samples of a session, from its records as [`crate::record::Frames`] reads them: in order.
/// Without a trained turn there is none.
///
/// Which segment trains a span that several have is settled once the session is sealed; until then a
/// later turn can move it, and the outcome says `open`.
pub fn build(records: &[Record], attempt: &Attempt) -> Vec<Sample> {
    let Some(session) = Session::new(records) else { return Vec::new() };
    let branches = Branches::of(&session);
    let mut links = links(&session, &branches);
    let segments = branches.paths.len() as u32;
    let mut samples = Vec::with_capacity(branches.paths.len());
    let mut reasons: Vec<BTreeSet<&'static str>> = Vec::with_capacity(branches.paths.len());
    for (at, path) in branches.paths.iter().enumerate() {
        let mut sample = empty_sample(session.opened, attempt, (at as u32, segments));
        end_of_session(&mut sample, records, attempt);
        let owned = |turn| branches.trains(at, turn);
        fill::fill(&mut sample, &session, path, owned);
        sample.links = links.remove(&at).unwrap_or_default();
        sample.provenance.columns_blake3 = columns_blake3(&sample);
        let mut found: BTreeSet<&'static str> =
            check(&sample).into_iter().map(|violation| violation.code).collect();
        found.extend(path.iter().filter_map(|turn| unsound(session.turns[*turn])));
        found.extend(prompts_differ(&session, &sample));
        found.extend(session.broken.then_some("parents"));
        reasons.push(found);
        samples.push(sample);
    }
    for (at, violation) in check_session(&samples) {
        reasons[at].insert(violation.code);
    }
    for (sample, reasons) in samples.iter_mut().zip(reasons) {
        sample.health = Health::from_reasons(reasons.into_iter().map(str::to_owned).collect());
    }
    samples
}

/// What is wrong with a record by itself. Errors of two turns could cancel out in a sample.
fn unsound(turn: &TurnRecord) -> Option<&'static str> {
    if turn.ids.len() != turn.logprobs.len()
        || turn.usage.completion_tokens as usize != turn.ids.len()
    {
        return Some("length");
    }
    let starts = || turn.versions.iter().map(|span| span.start);
    let ascend = starts().is_sorted_by(|one, next| one < next);
    let inside = starts().all(|start| (start as usize) < turn.ids.len().max(1));
    if !ascend || !inside || starts().next().is_some_and(|first| first != 0) {
        return Some("version");
    }
    None
}

/// Whether a turn's prompt, put together again, is not as long as the one that the engine was sent.
fn prompts_differ(session: &Session<'_>, sample: &Sample) -> Option<&'static str> {
    let differs = sample
        .turns
        .iter()
        .any(|span| session.turns[span.turn.0 as usize].usage.prompt_tokens != span.start);
    differs.then_some("prompt")
}

fn empty_sample(opened: &Opened, attempt: &Attempt, (segment, segments): (u32, u32)) -> Sample {
    Sample {
        format: 1,
        sample_id: format!("{}-{segment}", opened.session_id),
        task_id: attempt.task_id.clone(),
        group_id: attempt.group_id.clone(),
        attempt: attempt.attempt,
        session_id: opened.session_id.clone(),
        segment,
        segments,
        siblings: attempt.siblings,
        tokens: Vec::new(),
        prompt_len: 0,
        loss_mask: Vec::new(),
        logprobs: Vec::new(),
        turns: Vec::new(),
        weight_versions: Vec::new(),
        links: Vec::new(),
        messages: Vec::new(),
        tools: Vec::new(),
        scene: String::new(),
        reward: None,
        reward_parts: BTreeMap::new(),
        outcome: String::new(),
        health: Health::from_reasons(Vec::new()),
        counts: BTreeMap::new(),
        provenance: Provenance {
            agent: attempt.agent.clone(),
            model: opened.model.clone(),
            engine: opened.engine.clone(),
            tokenizer: opened.tokenizer_digest.clone(),
            template: opened.template_digest.clone(),
            parser: opened.parser.clone(),
            rollgate: opened.rollgate.clone(),
            metadata: opened.options.metadata.clone(),
            columns_blake3: String::new(),
        },
    }
}

fn end_of_session(sample: &mut Sample, records: &[Record], attempt: &Attempt) {
    let mut outcome = "open";
    for record in records {
        match record {
            Record::Reward(reward) => {
                sample.reward = reward.reward;
                sample.reward_parts.clone_from(&reward.parts);
            }
            Record::Sealed(_) => outcome = "done",
            Record::Opened(_) | Record::Turn(_) | Record::Delivery(_) => {}
        }
    }
    sample.outcome = attempt.outcome.clone().unwrap_or_else(|| outcome.to_owned());
}
