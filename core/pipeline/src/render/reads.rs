//! Whether an agent's copy of an answer is the answer as the engine would read it.

use super::Model;
use super::control::Marks;
use super::conversation::Conversation;
use super::probe::pinned;
use crate::fault::Fault;
use crate::id::TokenId;
use crate::turn::{Message, Role};

impl Model {
    /// Whether the template writes this assistant message as the text that `sampled` spells, the
    /// token that ends the turn aside. Then the engine would read the same, whatever the JSON of the
    /// message looks like.
    ///
    /// The message is put behind a user's, once with what would follow it (results of its calls, or
    /// the user's next message) and once as the last of the conversation: a template that drops the
    /// reasoning of earlier turns keeps it there.
    pub fn reads_as(&self, sent: &Message, sampled: &[TokenId]) -> bool {
        if sent.role != Role::Assistant {
            return false;
        }
        let ended = sampled
            .last()
            .is_some_and(|id| self.turn_end.closes(Some(*id)) || self.markers.ends.contains(id));
        let sampled = &sampled[..sampled.len() - usize::from(ended)];
        let mut spelled = Vec::new();
        self.detokenize(sampled, &mut spelled);
        let follows = what_follows(sent);
        let reads = |new: &[Message]| {
            let Ok(Some(answer)) = self.answer(sent, new) else { return false };
            if !answer.marks.placed() {
                return answer.text.as_bytes() == spelled;
            }
            // Text that spells markers reads as the same letters, but is not the same.
            let mut ids = Vec::new();
            self.encode(&answer.text, answer.marks, &mut ids).is_ok() && ids == sampled
        };
        reads(&follows) || reads(&[])
    }

    /// What the template writes for this message in the place of an answer, the close token and
    /// what follows (`new`) aside; guards are still in it.
    pub(super) fn answer(&self, sent: &Message, new: &[Message]) -> Result<Option<Written>, Fault> {
        let user = Message::text(Role::User, "go on");
        let mut messages = vec![&user];
        let (tools, kwargs) = (&[][..], &pinned());
        let asked = Conversation { messages: &messages, tools, kwargs, prompts: true, ready: None };
        let (prompt, _) = self.render(&asked)?;
        messages.push(sent);
        messages.extend(new);
        let prompts = !new.is_empty();
        let whole = Conversation { messages: &messages, tools, kwargs, prompts, ready: None };
        let (text, guard) = self.render(&whole)?;
        let Some(answer) = text.strip_prefix(prompt.as_str()) else { return Ok(None) };
        let behind = match new {
            [] => None,
            new => Some(self.after_turn(&sent.tool_calls, new, tools, kwargs)?),
        };
        let answer = match &behind {
            None => Some(answer),
            Some(behind) => answer.strip_suffix(behind.text()),
        };
        let Some(answer) = answer else { return Ok(None) };
        // Where nothing follows, there may be a separator behind the close token, or no close token.
        let closed = if behind.is_none() { answer.trim_end() } else { answer };
        let without = |(close, id): &(String, TokenId)| {
            Some((closed.strip_suffix(close.as_str())?, Some(*id)))
        };
        let closers = self.turn_end.closers.iter().filter(|_| !self.turn_end.begins_next());
        let (text, close) = closers.into_iter().find_map(without).unwrap_or((answer, None));
        Ok(Some(Written { text: text.to_owned(), marks: guard.marks(), close }))
    }
}

/// An answer as the template writes it.
pub(super) struct Written {
    /// Its text, guards still in it.
    pub text: String,
    pub marks: Marks,
    /// The token that the template closes it with, where it does.
    pub close: Option<TokenId>,
}

/// What an agent sends next: results of the calls, or the user's next message.
pub(super) fn what_follows(sent: &Message) -> Vec<Message> {
    if sent.tool_calls.is_empty() {
        return vec![Message::text(Role::User, "go on")];
    }
    let result = |id: &str| {
        let mut message = Message::text(Role::Tool, "done");
        message.tool_call_id = Some(id.to_owned());
        message
    };
    sent.tool_calls.iter().map(|call| result(&call.id)).collect()
}
