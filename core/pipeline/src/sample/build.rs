//! From a session's records to samples: one segment, one sample.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Health, Provenance, Sample, SampledSpan, check, columns_blake3};
use crate::record::{Opened, Record, TurnRecord};
use crate::scene::Scene;
use crate::turn::{Finish, Message};

/// Label of tokens whose weight version the engine did not report.
pub const UNREPORTED_VERSION: &str = "unreported";

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
pub fn build(records: &[Record], attempt: &Attempt) -> Vec<Sample> {
    let Some(Record::Opened(opened)) = records.first() else { return Vec::new() };
    let turns: Vec<&TurnRecord> = records
        .iter()
        .filter_map(|record| match record {
            Record::Turn(turn) => Some(turn.as_ref()),
            _ => None,
        })
        .collect();
    let branches = branches(&turns);
    let owners = owners(&turns, &branches);
    let trained: Vec<(usize, &Vec<usize>)> = branches
        .iter()
        .enumerate()
        .filter(|(at, branch)| branch.iter().any(|turn| owners.get(turn) == Some(at)))
        .collect();
    let segments = trained.len() as u32;
    let mut samples = Vec::with_capacity(trained.len());
    for (segment, (at, branch)) in (0..).zip(trained) {
        let path: Vec<_> =
            branch.iter().map(|turn| (turns[*turn], owners.get(turn) == Some(&at))).collect();
        let mut sample = empty_sample(opened, attempt, (segment, segments));
        end_of_session(&mut sample, records, attempt);
        fill(&mut sample, &path);
        let asked_again = path.iter().map(|(turn, _)| same_prompt(&turns, turn)).sum();
        sample.counts.insert("same_prompt_turns".to_owned(), asked_again);
        sample.provenance.columns_blake3 = columns_blake3(&sample);
        let reasons: BTreeSet<_> =
            check(&sample).into_iter().map(|violation| violation.code.to_owned()).collect();
        sample.health = Health::from_reasons(reasons.into_iter().collect());
        samples.push(sample);
    }
    samples
}

/// Root-to-leaf paths as turn numbers, in the order of their leaves.
fn branches(turns: &[&TurnRecord]) -> Vec<Vec<usize>> {
    let parents: BTreeSet<usize> =
        turns.iter().filter_map(|turn| turn.parent).map(|parent| parent.0 as usize).collect();
    (0..turns.len())
        .filter(|turn| !parents.contains(turn))
        .map(|leaf| {
            let parent = |turn: &usize| turns[*turn].parent.map(|parent| parent.0 as usize);
            let mut path: Vec<_> = std::iter::successors(Some(leaf), parent).collect();
            path.reverse();
            path
        })
        .collect()
}

/// Which branch trains which turn: the final main branch where it has the turn, else the earliest.
/// So every trained span is trained exactly once.
fn owners(turns: &[&TurnRecord], branches: &[Vec<usize>]) -> BTreeMap<usize, usize> {
    let is_main = |branch: &Vec<usize>| {
        branch.last().is_some_and(|leaf| turns[*leaf].verdict.scene == Scene::Main)
    };
    let final_main = (0..branches.len()).rev().find(|at| is_main(&branches[*at]));
    let mut owners = BTreeMap::new();
    for at in final_main.into_iter().chain(0..branches.len()) {
        for turn in branches[at].iter().filter(|turn| trainable(turns[**turn])) {
            owners.entry(*turn).or_insert(at);
        }
    }
    owners
}

/// How many other turns had the very same prompt: repetitions of a request, whose answers may not
/// all have reached the agent, or siblings that it asked for.
fn same_prompt(turns: &[&TurnRecord], turn: &TurnRecord) -> u64 {
    let same = |other: &&&TurnRecord| {
        other.turn != turn.turn && other.parent == turn.parent && other.stretch == turn.stretch
    };
    turns.iter().filter(same).count() as u64
}

fn trainable(turn: &TurnRecord) -> bool {
    turn.verdict.scene.trained() && turn.finish != Finish::Abort && !turn.ids.is_empty()
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

fn fill(sample: &mut Sample, path: &[(&TurnRecord, bool)]) {
    let mut counts = BTreeMap::from(
        ["foreign_context_tokens", "media_dropped", "ill_formed_turns", "trained_elsewhere_tokens"]
            .map(|name| (name.to_owned(), 0_u64)),
    );
    let mut count = |name: &str, by: u64| {
        if let Some(slot) = counts.get_mut(name) {
            *slot += by;
        }
    };
    for (turn, owned) in path {
        if turn.parent.is_none() {
            sample.tools.clone_from(&turn.tools);
        }
        count("foreign_context_tokens", u64::from(turn.foreign_tokens));
        count("media_dropped", turn.messages.iter().map(|m| u64::from(m.media_dropped)).sum());
        count("ill_formed_turns", u64::from(turn.reply.ill_formed));
        if trainable(turn) && !owned {
            count("trained_elsewhere_tokens", turn.ids.len() as u64);
        }
        add_turn(sample, turn, *owned);
    }
    sample.counts = counts;
    sample.prompt_len = sample.turns.first().map_or(sample.tokens.len() as u32, |span| span.start);
    if let Some((last, _)) = path.last() {
        sample.scene = last.verdict.scene.name().to_owned();
    }
}

fn add_turn(sample: &mut Sample, turn: &TurnRecord, owned: bool) {
    sample.messages.extend(turn.messages.iter().map(message_json));
    sample.messages.push(answer_json(turn));
    sample.tokens.extend_from_slice(&turn.stretch);
    sample.loss_mask.resize(sample.tokens.len(), 0);
    sample.logprobs.resize(sample.tokens.len(), 0.0);
    let start = sample.tokens.len() as u32;
    sample.tokens.extend_from_slice(&turn.ids);
    sample.loss_mask.resize(sample.tokens.len(), u8::from(owned));
    sample.logprobs.extend_from_slice(&turn.logprobs);
    if turn.ids.is_empty() {
        return;
    }
    sample.turns.push(SampledSpan {
        turn: turn.turn,
        start,
        end: sample.tokens.len() as u32,
        scene: turn.verdict.scene.name().to_owned(),
        finish_reason: turn.finish.name().to_owned(),
        ill_formed: turn.reply.ill_formed,
        sampling: turn.sampling.clone(),
        rule: None,
    });
    let reported = turn.versions.iter().map(|span| (start + span.start, span.version.clone()));
    let unreported = turn.versions.is_empty().then(|| (start, UNREPORTED_VERSION.to_owned()));
    for (at, version) in reported.chain(unreported) {
        match sample.weight_versions.last() {
            None => sample.weight_versions.push((0, version)),
            Some((_, current)) if *current == version => {}
            Some(_) => sample.weight_versions.push((at, version)),
        }
    }
}

/// A message in Chat form.
fn message_json(message: &Message) -> Value {
    let mut json = json!({"role": message.role.name(), "content": message.content});
    if let Some(reasoning) = &message.reasoning {
        json["reasoning_content"] = reasoning.as_str().into();
    }
    if !message.tool_calls.is_empty() {
        json["tool_calls"] = message.tool_calls.iter().map(call_json).collect();
    }
    if let Some(id) = &message.tool_call_id {
        json["tool_call_id"] = id.as_str().into();
    }
    json
}

fn answer_json(turn: &TurnRecord) -> Value {
    let mut message = Message::text(crate::turn::Role::Assistant, turn.reply.content.as_str());
    message.reasoning.clone_from(&turn.reply.reasoning);
    message.tool_calls.clone_from(&turn.reply.tool_calls);
    message_json(&message)
}

fn call_json(call: &crate::turn::ToolCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}
