//! What a request adds to the prompt: rendered and encoded, in the words that the engine has seen.

use std::borrow::Cow;

use super::Session;
use super::counts::Counts;
use crate::fault::{Fault, FaultKind};
use crate::id::TokenId;
use crate::render::{Draft, Heads, Model, PriorTail};
use crate::trajectory::{Resume, Trajectory};
use crate::turn::{Asked, Message, Role, ToolCall};

/// The context between the parent's answer and the generation, not encoded yet.
pub(super) fn draft(
    session: &Session,
    heads: &mut Heads,
    model: &Model,
    asked: &Asked,
    resume: &Resume,
    from: usize,
) -> Result<Draft, Fault> {
    let trajectory = &session.trajectory;
    // Templates that print the date get the session's, so that a turn can be rendered again.
    let mut kwargs = asked.template_kwargs.clone();
    kwargs.entry("now").or_insert_with(|| (session.opened_at_ms() / 1_000).into());
    let (messages, tools) = (&asked.messages, &asked.tools);
    let Some(parent) = resume.parent else {
        return model.draft_first(heads, messages, tools, &kwargs);
    };
    let (last, reasoning_open) = trajectory.tail(parent);
    let tail = PriorTail { last, reasoning_open };
    let (past, new) = messages.split_at(from);
    let shown = calls_before(past);
    let sampled = trajectory.calls_through(parent);
    match sampled.len() == shown.len() {
        true => {
            let new = named_as_sampled(new, &shown, &sampled);
            model.draft_after(heads, tail, &sampled, &new, tools, &kwargs)
        }
        false => model.draft_after(heads, tail, &shown, new, tools, &kwargs),
    }
}

/// That context, where it is known: the prompt of another turn is sent again.
pub(super) fn sent_before(trajectory: &Trajectory, resume: &Resume) -> Option<Vec<TokenId>> {
    resume.same_prompt.map(|turn| trajectory.stretch_ids(turn))
}

/// Results with the ids of the calls as they stand in the prompt. Agents make up ids of their own;
/// where a template prints ids, a result must go by the one that was sampled.
fn named_as_sampled<'a>(
    new: &'a [Message],
    shown: &[ToolCall],
    sampled: &[ToolCall],
) -> Cow<'a, [Message]> {
    let mut named = Cow::Borrowed(new);
    for (at, message) in new.iter().enumerate().take_while(|(_, m)| m.role == Role::Tool) {
        let place = shown.iter().position(|call| Some(&call.id) == message.tool_call_id.as_ref());
        let id = place.and_then(|place| sampled.get(place)).map(|call| &call.id);
        if id.is_some() && id != message.tool_call_id.as_ref() {
            named.to_mut()[at].tool_call_id = id.cloned();
        }
    }
    named
}

/// The calls of the answer that the new messages follow, as the agent shows them.
fn calls_before(past: &[Message]) -> Vec<ToolCall> {
    let run = past.iter().rev().take_while(|message| message.role == Role::Assistant).count();
    past[past.len() - run..].iter().flat_map(|message| message.tool_calls.iter().cloned()).collect()
}

/// About how many context ids stand for assistant text that was not sampled here.
pub(super) fn foreign_tokens(
    model: &Model,
    counts: &Counts,
    messages: &[Message],
) -> Result<u32, Fault> {
    let mut tokens = 0;
    for message in messages.iter().filter(|message| message.role == Role::Assistant) {
        let calls = message.tool_calls.iter().flat_map(|call| [&call.name, &call.arguments]);
        for text in std::iter::once(&message.content).chain(&message.reasoning).chain(calls) {
            tokens += counts
                .tokens(model, text)
                .map_err(|error| Fault::new(FaultKind::Internal, error))?;
        }
    }
    Ok(tokens)
}
