//! The context between two generations.
//!
//! It is cut out of the render of a short conversation made up for it: a user turn, an assistant
//! turn that ends in a sentinel, then the new messages. What follows the token that closes the
//! sentinel's turn is what follows any generation; [`super::probe`] proves that at load.

use serde_json::{Map, Value, json};

use super::Model;
use super::control::Guard;
use crate::fault::{Fault, FaultKind};
use crate::id::TokenId;
use crate::turn::{Message, Role, Tool, ToolCall};

/// How the sampled ids before a stretch end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PriorTail {
    /// The last sampled id; none where nothing was sampled.
    pub last: Option<TokenId>,
    /// Whether reasoning was still open there.
    pub reasoning_open: bool,
}

impl Model {
    /// Ids between a generation and the next: boundary repair, `new`, generation prompt.
    ///
    /// A generation that was cut off gets what it lacks: the end of its reasoning, and the token
    /// that closes its turn. A turn that was closed inside open reasoning stays as it was sampled.
    pub fn stretch(
        &self,
        tail: PriorTail,
        new: &[Message],
        tools: &[Tool],
        kwargs: &Map<String, Value>,
    ) -> Result<Vec<TokenId>, Fault> {
        let mut ids = Vec::new();
        if tail.last != Some(self.markers.close) {
            if tail.reasoning_open {
                ids.extend_from_slice(&self.turn_end.end_of_reasoning);
            }
            ids.push(self.markers.close);
        }
        let after = self.after_turn(new, tools, kwargs)?;
        self.encode(after.text(), &after.guard, &mut ids)?;
        Ok(ids)
    }

    /// Renders what follows the close token of the turn before `new`.
    pub(super) fn after_turn(
        &self,
        new: &[Message],
        tools: &[Tool],
        kwargs: &Map<String, Value>,
    ) -> Result<AfterTurn<'_>, Fault> {
        // Where the template prints tools in the header only, any tool stands for all of them.
        let stub = [json!({"type": "function", "function": {"name": "f", "parameters": {}}})];
        let tools = match tools {
            [_, ..] if self.turn_end.tools_in_header => &stub,
            tools => tools,
        };
        let user = Message::text(Role::User, "go on");
        for attempt in 0..SENTINELS {
            let sentinel = format!("end-of-turn-{attempt:03}");
            let mut prior = Message::text(Role::Assistant, sentinel.as_str());
            prior.tool_calls = calls_answered_by(new);
            let messages: Vec<&Message> = [&user, &prior].into_iter().chain(new).collect();
            let (text, guard) = self.render(&messages, tools, kwargs)?;
            if text.matches(&sentinel).nth(1).is_some() {
                continue;
            }
            let start = self.turn_end.after(&text, &sentinel).ok_or_else(|| {
                Fault::new(
                    FaultKind::TemplateRefused,
                    "the chat template leaves out the turn before the new messages",
                )
            })?;
            return Ok(AfterTurn { rendered: text, start, guard });
        }
        Err(Fault::new(
            FaultKind::BadRequest,
            "the new messages hold every sentinel of a turn's end",
        ))
    }
}

/// How many sentinels are tried.
const SENTINELS: u32 = 100;

/// The part of a render behind a turn's close token.
pub(super) struct AfterTurn<'a> {
    rendered: String,
    start: usize,
    guard: Guard<'a>,
}

impl AfterTurn<'_> {
    /// The text, guards still in it.
    pub fn text(&self) -> &str {
        self.rendered.get(self.start..).unwrap_or("")
    }

    /// The text, guards removed.
    pub fn plain_text(&self) -> String {
        self.guard.remove(self.text()).into_owned()
    }
}

/// Templates that pair results with calls want the calls that the leading results answer.
fn calls_answered_by(new: &[Message]) -> Vec<ToolCall> {
    new.iter()
        .take_while(|message| message.role == Role::Tool)
        .map(|message| ToolCall {
            id: message.tool_call_id.clone().unwrap_or_default(),
            name: "f".to_owned(),
            arguments: "{}".to_owned(),
        })
        .collect()
}
