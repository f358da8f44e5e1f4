//! What is found out about a template at load, and what is proved.
//!
//! Found out, on made-up conversations: the forms it wants, the token that closes a turn, how
//! reasoning ends, whether tools are printed only before the conversation, and its class: what it
//! does to earlier turns. Proved, for a template that leaves them alone: a stretch reads exactly as
//! the tail of a whole render. A template for which that fails is served by whole renders only,
//! each turn a segment of its own. One that leaves out what was said is refused.

mod classify;
mod forms;
mod proof;
mod talk;

use serde_json::{Map, Value};

use super::class::TemplateClass;
use super::control::Guard;
use super::conversation::Conversation;
use super::turn_end::TurnEnd;
use super::{ControlText, Model};
use crate::turn::{Message, Role, Tool};
use talk::{ANSWER, NEXT, REASONING};

/// Probes the model and fills in what it finds.
pub(super) fn run(model: &mut Model) -> Result<(), String> {
    forms::find(model);
    find_close(model)?;
    find_end_of_reasoning(model)?;
    model.turn_end.tools_in_header = proof::tools_in_header(model);
    classify::run(model)?;
    if model.class != TemplateClass::RewritesHistory
        && let Some(found) = proof::stretches_hold(model)?
    {
        model.class = TemplateClass::RewritesHistory;
        model.counterexample = Some(found);
    }
    Ok(())
}

/// A render without guards. The error is the template's reason.
fn render(
    model: &Model,
    messages: &[Message],
    tools: &[Tool],
    prompts: bool,
) -> Result<String, String> {
    let messages: Vec<&Message> = messages.iter().collect();
    let kwargs = pinned();
    let conversation =
        Conversation { messages: &messages, tools, kwargs: &kwargs, prompts, ready: None };
    let rendered = model.renderer.render(&model.constants, &conversation, &Guard::new(None, 0));
    rendered.map_err(|fault| fault.message)
}

/// Arguments that any template may need.
pub(super) fn pinned() -> Map<String, Value> {
    Map::from_iter([("now".to_owned(), Value::from(0))])
}

/// The first of a series that is met is worth a note; the same note twice is not.
fn note(model: &mut Model, text: String) {
    if !model.notes.contains(&text) {
        model.notes.push(text);
    }
}

fn find_close(model: &mut Model) -> Result<(), String> {
    let text = render(
        model,
        &[
            Message::text(Role::User, "hello"),
            Message::text(Role::Assistant, ANSWER),
            Message::text(Role::User, NEXT),
        ],
        &[],
        true,
    )?;
    let from = text.find(ANSWER).ok_or("it leaves out what the assistant said")? + ANSWER.len();
    let until = text.get(from..).and_then(|rest| rest.find(NEXT));
    let between = until.and_then(|until| text.get(from..from + until)).unwrap_or("");
    model.turn_end = TurnEnd::learn(model.family, between, &model.control)?;
    model.markers.close = model.turn_end.closers.first().map_or(0, |(_, id)| *id);
    Ok(())
}

/// The template's text between reasoning and answer, if it writes reasoning at all.
fn find_end_of_reasoning(model: &mut Model) -> Result<(), String> {
    let Some(marker) = model.markers.think_close else { return Ok(()) };
    let mut answer = Message::text(Role::Assistant, ANSWER);
    answer.reasoning = Some(REASONING.to_owned());
    let text = render(model, &[Message::text(Role::User, "hello"), answer], &[], false)?;
    let between = text.split_once(REASONING).and_then(|(_, rest)| rest.split_once(ANSWER));
    let mut ids = Vec::new();
    if let Some((between, _)) = between {
        model.tokenizer.encode(between, ControlText::Match, &mut ids)?;
    }
    model.turn_end.end_of_reasoning = if ids.contains(&marker) { ids } else { vec![marker] };
    Ok(())
}
