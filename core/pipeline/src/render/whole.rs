//! Whole renders: first turns, and turns of templates that change their past.

use serde_json::{Map, Value};

use super::conversation::{self, Conversation};
use super::draft::{Draft, HeadUse};
use super::heads::Heads;
use super::model::Model;
use crate::fault::Fault;
use crate::id::TokenId;
use crate::turn::{Message, Tool, Tools};

impl Model {
    /// Ids of a whole conversation, generation prompt included.
    pub fn first(
        &self,
        messages: &[Message],
        tools: &[Tool],
        kwargs: &Map<String, Value>,
    ) -> Result<Vec<TokenId>, Fault> {
        let messages: Vec<&Message> = messages.iter().collect();
        let conversation =
            Conversation { messages: &messages, tools, kwargs, prompts: true, ready: None };
        let (text, guard) = self.render(&conversation)?;
        let mut ids = Vec::new();
        self.encode(&text, guard.marks(), &mut ids)?;
        Ok(ids)
    }

    /// The same, with the ids of the conversation's head (tools and standing instructions) from
    /// `heads`, which keeps them where they are new.
    pub fn draft_first(
        &self,
        heads: &mut Heads,
        messages: &[Message],
        tools: &Tools,
        kwargs: &Map<String, Value>,
    ) -> Result<Draft, Fault> {
        let ready = match tools[..] {
            [] => None,
            _ => heads.ready(tools, || self.ready(tools)),
        };
        let ready = ready.as_deref();
        let list: Vec<&Message> = messages.iter().collect();
        let conversation = Conversation { messages: &list, tools, kwargs, prompts: true, ready };
        let (text, guard) = self.render(&conversation)?;
        let marks = guard.marks();
        let mut draft = Draft::of(text, 0, marks);
        if !guard.is_first() {
            return Ok(draft);
        }
        let leading = messages.iter().take_while(|message| conversation::instructs(message));
        let own = &messages[leading.count()..];
        let text = draft.text.as_str();
        let known = heads.find(&self.control, text, marks.placed());
        let at = known.as_ref().map_or(0, |(at, _)| *at);
        let mut found = known;
        if found.is_some() {
            draft.head = HeadUse::Known;
        }
        if text.len() - at > SLACK + own.iter().map(length).sum::<usize>() {
            let until = own.first().and_then(|first| place_of(text, &first.content));
            let learned = heads.learn(
                (&self.control, &self.cutter),
                (text, marks),
                (at, until.unwrap_or(text.len())),
                |part, ids| self.encode(part, marks, ids),
            )?;
            if learned.is_some() {
                draft.head = HeadUse::New;
            }
            found = learned.or(found);
        }
        if let Some((at, ids)) = found {
            (draft.start, draft.before) = (at, ids);
        }
        Ok(draft)
    }
}

/// What a template may write around messages before a head is looked for, in bytes.
const SLACK: usize = 512;

/// Text of a message, in bytes.
fn length(message: &Message) -> usize {
    let calls = message.tool_calls.iter().map(|call| call.arguments.len() + call.name.len());
    message.content.len() + message.reasoning.as_ref().map_or(0, String::len) + calls.sum::<usize>()
}

/// About where in a render this message's text is. A wrong answer costs time only.
fn place_of(text: &str, content: &str) -> Option<usize> {
    const ENOUGH: usize = 64;
    let content = content.trim();
    let mut end = content.len().min(ENOUGH);
    while !content.is_char_boundary(end) {
        end -= 1;
    }
    let sought = content.get(..end).filter(|sought| !sought.is_empty())?;
    memchr::memmem::rfind(text.as_bytes(), sought.as_bytes())
}
