//! The columns, text and counts of one segment.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::branches::Session;
use super::{Sample, SampledSpan};
use crate::planted::{self, Bug};
use crate::record::TurnRecord;
use crate::scene::Scene;
use crate::turn::{Message, Role, ToolCall};

/// Label of tokens whose weight version the engine did not report.
const UNREPORTED_VERSION: &str = "unreported";

/// Lays the turns of a path behind one another. `owned`: whether this segment trains a turn.
pub(super) fn fill(
    sample: &mut Sample,
    session: &Session<'_>,
    path: &[usize],
    owned: impl Fn(usize) -> bool,
) {
    let tokens: usize =
        path.iter().map(|turn| session.turns[*turn]).map(|t| t.stretch.len() + t.ids.len()).sum();
    sample.tokens.reserve_exact(tokens);
    sample.loss_mask.reserve_exact(tokens);
    sample.logprobs.reserve_exact(tokens);
    for turn in path {
        add_turn(sample, session.turns[*turn], owned(*turn));
    }
    if planted::on(Bug::MaskShifted) {
        sample.loss_mask.rotate_right(1);
    }
    sample.prompt_len = sample.turns.first().map_or(sample.tokens.len() as u32, |span| span.start);
    sample.counts = counts(session, path, owned);
    if let Some(first) = path.first() {
        sample.tools = session.turns[*first].tools.to_vec();
    }
    if let Some(last) = path.last() {
        sample.scene = session.scene(*last).name().to_owned();
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
        rule: (!turn.rules.is_empty()).then(|| turn.rules.join("+")),
        resumed_at: turn.resumed_at.iter().map(|at| start + at).collect(),
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

/// What is not exact, was left out, or did not go straight, each under its name, 0 included.
fn counts(
    session: &Session<'_>,
    path: &[usize],
    owned: impl Fn(usize) -> bool,
) -> BTreeMap<String, u64> {
    let sum = |of: &dyn Fn(usize, &TurnRecord) -> u64| -> u64 {
        path.iter().map(|turn| of(*turn, session.turns[*turn])).sum()
    };
    let last = path.last().map(|turn| session.turns[*turn]);
    let elsewhere = |turn: usize| session.trainable(turn) && !owned(turn);
    let media = |turn: &TurnRecord| turn.messages.iter().map(|m| u64::from(m.media_dropped)).sum();
    // Each turn counts what its whole request had, so the last one has it all.
    let skipped = last.map_or(0, |turn| turn.skipped.values().map(|n| u64::from(*n)).sum());
    let counts = [
        ("parts_skipped", skipped),
        ("context_diff_tokens", last.map_or(0, |turn| u64::from(turn.context_diff_tokens))),
        ("foreign_context_tokens", sum(&|_, turn| u64::from(turn.foreign_tokens))),
        ("ill_formed_turns", sum(&|_, turn| u64::from(turn.reply.ill_formed))),
        ("media_dropped", sum(&|_, turn| media(turn))),
        ("marker_conflicts", sum(&|_, turn| u64::from(turn.marker_conflicts))),
        ("wrapped_instructions", sum(&|_, turn| u64::from(turn.wrapped_instructions))),
        ("overlay_tokens", sum(&|_, turn| u64::from(turn.overlay_tokens))),
        ("rendered_anew_turns", sum(&|_, turn| u64::from(turn.anew.is_some()))),
        ("resumed_turns", sum(&|_, turn| u64::from(!turn.resumed_at.is_empty()))),
        ("same_prompt_turns", sum(&|at, _| session.same_prompt(at).len().saturating_sub(1) as u64)),
        (
            "trained_elsewhere_tokens",
            sum(&|at, turn| if elsewhere(at) { turn.ids.len() as u64 } else { 0 }),
        ),
        ("unknown_turns", sum(&|_, turn| u64::from(turn.verdict.scene == Scene::Unknown))),
        ("undelivered_turns", sum(&|at, _| u64::from(session.undelivered(at)))),
    ];
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
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
    let mut message = Message::text(Role::Assistant, turn.reply.content.as_str());
    message.reasoning.clone_from(&turn.reply.reasoning);
    message.tool_calls.clone_from(&turn.reply.tool_calls);
    message_json(&message)
}

fn call_json(call: &ToolCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}
