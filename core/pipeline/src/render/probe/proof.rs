//! The proof that a stretch reads as the tail of a whole render.

use super::talk::{ANSWER, in_short, past, stretches, tool};
use super::{note, pinned, render};
use crate::render::Model;
use crate::render::class::Counterexample;
use crate::turn::{Message, Role, Tool, ToolCall};

/// Whether the tools never show behind a turn's end.
pub(super) fn tools_in_header(model: &Model) -> bool {
    let other = [tool("g"), tool("h")];
    stretches().iter().all(|new| {
        let calls = calls_before(&past(new));
        let tail = |tools: &[Tool]| {
            model.after_turn(&calls, new, tools, &pinned()).map(|after| after.plain_text()).ok()
        };
        tail(&[tool("f")]) == tail(&other)
    })
}

fn calls_before(past: &[Message]) -> Vec<ToolCall> {
    past.last().map(|answer| answer.tool_calls.clone()).unwrap_or_default()
}

/// Compares stretches with whole conversations: the first that differs.
///
/// What the template refuses is noted, and refused again when an agent sends it. A difference in
/// markers and white space alone is noted too: it comes from flags of the template that earlier
/// turns set and that nothing resets, and the stretch has the markers of a first turn.
pub(super) fn stretches_hold(model: &mut Model) -> Result<Option<Counterexample>, String> {
    for new in stretches() {
        for tools in [&[][..], &[tool("f"), tool("g")][..]] {
            let mut messages = past(&new);
            let calls = calls_before(&messages);
            messages.extend(new.iter().cloned());
            let full = match render(model, &messages, tools, true) {
                Ok(full) => full,
                Err(reason) => {
                    refused(model, &new, &reason)?;
                    continue;
                }
            };
            let start = model.turn_end.after(&full, ANSWER);
            let expected = start.and_then(|start| full.get(start..)).unwrap_or("");
            let stretch = model.after_turn(&calls, &new, tools, &pinned());
            let stretch = stretch.map_err(|fault| fault.message)?.plain_text();
            if expected == stretch {
                continue;
            }
            let found = Counterexample::between(
                format!("an answer, then: {}", in_short(&new)),
                "behind an answer, these messages read otherwise in a whole conversation than by \
                 themselves",
                expected,
                &stretch,
            );
            if model.control.strip(expected) != model.control.strip(&stretch) {
                return Ok(Some(found));
            }
            if !model.turn_end.markers_vary {
                model.turn_end.markers_vary = true;
                let text = format!(
                    "the markers around messages depend on what came long before ({:?} or {:?}): \
                     they are written as after a first turn",
                    found.expected, found.got
                );
                note(model, text);
            }
        }
    }
    Ok(None)
}

/// A refusal of what every agent sends is a reason not to serve.
fn refused(model: &mut Model, new: &[Message], reason: &str) -> Result<(), String> {
    if matches!(new, [message] if message.role == Role::User) {
        return Err(reason.to_owned());
    }
    note(model, format!("refused: an answer, then: {} ({reason})", in_short(new)));
    Ok(())
}
