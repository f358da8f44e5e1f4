//! Items folded into messages.
//!
//! Consecutive items of the model are one assistant message: reasoning, text, calls. A new one begins
//! where an item of another exchange follows, reasoning follows text or calls, or text follows calls:
//! a message holds them in that order only. Calls of one answer whose results stand between them are
//! still one message's.
//!
//! Our ids and opaque texts bring back what the agent did not send: referenced items, reasoning of
//! which only the opaque text is left, arguments as the model wrote them. An opaque text counts once
//! in an input, and only in the turn that it was given out for; anything else contributes nothing and
//! is counted.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use super::content::Content;
use super::ids::{Mark, Part, number};
use super::output::custom_input;
use super::pool::Pool;
use crate::fault::{Fault, FaultKind};
use crate::protocol::{Past, media};
use crate::turn::{Message, Reply, Role, ToolCall};

/// Under which name reasoning is counted that contributes nothing.
const REASONING: &str = "reasoning";

/// The messages so far.
pub(super) struct Conversation<'p> {
    past: &'p dyn Past,
    fold: Fold,
    /// Indices of messages that are not the model's and were made here.
    made: Vec<usize>,
}

/// How far a conversation is: more items can follow.
#[derive(Clone, Default)]
pub(super) struct Fold {
    pub(super) messages: Vec<Message>,
    skipped: BTreeMap<String, u32>,
    turn: Option<Turn>,
    /// Exchanges whose reasoning was there.
    thought: HashSet<u128>,
    /// Exchanges that were named and not known.
    missed: Vec<String>,
}

impl Fold {
    /// Whether it would be another one by now: an exchange that was not known then is.
    pub(super) fn stale(&self, past: &dyn Past) -> bool {
        self.missed.iter().any(|exchange| past.reply(exchange).is_some())
    }
}

/// The latest turn of the model.
#[derive(Clone)]
struct Turn {
    /// Index of its message.
    at: usize,
    /// Whether the message is the last one, and more of it may follow.
    open: bool,
    exchange: Option<String>,
    reply: Option<Rc<Reply>>,
    /// Whether its reasoning is from our records and not from the request.
    restored: bool,
}

impl<'p> Conversation<'p> {
    /// Goes on from there.
    pub(super) fn new(past: &'p dyn Past, fold: Fold) -> Self {
        Self { past, fold, made: Vec::new() }
    }

    /// How far it is.
    pub(super) fn into_fold(self) -> Fold {
        self.fold
    }

    /// Equal messages that are made of items share one handle. `before`: how far it was when it went on.
    pub(super) fn share(&mut self, pool: &mut Pool, before: Option<&Fold>) {
        let before = before.map_or(&[][..], |fold| &fold.messages);
        for (at, message) in self.fold.messages.iter_mut().enumerate() {
            let same = before.get(at).is_some_and(|old| message.is_copy_of(old));
            if !same && (message.role == Role::Assistant || self.made.contains(&at)) {
                pool.share(message);
            }
        }
        pool.bound(&self.fold.messages);
    }

    /// The messages, and what was left out by type.
    pub(super) fn finish(mut self) -> (Vec<Message>, BTreeMap<String, u32>) {
        self.close();
        (self.fold.messages, self.fold.skipped)
    }

    fn reply(&mut self, exchange: &str) -> Option<Rc<Reply>> {
        let reply = self.past.reply(exchange);
        if reply.is_none() && !self.fold.missed.iter().any(|missed| missed == exchange) {
            self.fold.missed.push(exchange.to_owned());
        }
        reply
    }

    /// Counts something of this type that no model can use.
    pub(super) fn skip(&mut self, kind: &str) {
        media::skip(&mut self.fold.skipped, kind);
    }

    /// A message that is not the model's, and the types of its parts that were left out.
    pub(super) fn say(&mut self, message: Message, skipped: &[String]) {
        self.close();
        media::skip_all(&mut self.fold.skipped, skipped);
        self.fold.messages.push(message);
    }

    /// A message that is not the model's and that the item does not have ready.
    pub(super) fn say_made(&mut self, message: Message) {
        self.say(message, &[]);
        self.made.push(self.fold.messages.len() - 1);
    }

    /// Text of the model.
    pub(super) fn text(&mut self, mark: Option<Mark<'_>>, content: &Content) {
        media::skip_all(&mut self.fold.skipped, &content.skipped);
        let exchange = mark.map(|mark| mark.exchange);
        if self.open(exchange).is_some_and(|message| !message.tool_calls.is_empty()) {
            if content.text.trim().is_empty() {
                return;
            }
            self.close();
        }
        let at = self.assistant(exchange);
        let message = &mut *self.fold.messages[at];
        message.media_dropped += content.media;
        message.content.push_str(&content.text);
    }

    /// Reasoning of the model: of this exchange, where it names one of ours, and its text, where it
    /// shows any.
    pub(super) fn reasoning(&mut self, exchange: Option<&str>, text: Option<&str>) {
        if let Some(exchange) = exchange
            && !self.fold.thought.insert(number(exchange))
        {
            return self.skip(REASONING);
        }
        let restored = text.is_none();
        let known = exchange.filter(|_| restored).and_then(|exchange| self.reply(exchange));
        let text = text.or_else(|| known.as_ref()?.reasoning.as_deref());
        let Some(text) = text.filter(|text| !text.is_empty()) else { return self.skip(REASONING) };
        let spoke =
            |message: &Message| !message.content.is_empty() || !message.tool_calls.is_empty();
        if self.open(exchange).is_some_and(spoke) {
            self.close();
        }
        let at = self.assistant(exchange);
        match &mut self.fold.messages[at].reasoning {
            Some(reasoning) => {
                reasoning.push_str("\n\n");
                reasoning.push_str(text);
            }
            none => *none = Some(text.to_owned()),
        }
        if let Some(turn) = &mut self.fold.turn {
            turn.restored = restored;
        }
    }

    /// A call of the model. With `rewritten`, the arguments are made from a form that has no place
    /// for how the model wrote them.
    pub(super) fn call(
        &mut self,
        mark: Option<Mark<'_>>,
        id: String,
        name: String,
        arguments: String,
        rewritten: bool,
    ) {
        let mut call = ToolCall { id, name, arguments };
        let at = match self.spread(mark, &call.id) {
            Some(at) => at,
            None => self.assistant(mark.map(|mark| mark.exchange)),
        };
        let reply = self.fold.turn.as_ref().and_then(|turn| turn.reply.as_ref());
        let written = reply.filter(|_| rewritten).and_then(|reply| {
            let same = |own: &&ToolCall| own.id == call.id && own.name == call.name;
            reply.tool_calls.iter().find(same)
        });
        if let Some(written) = written
            && same_input(&written.arguments, &call.arguments)
        {
            call.arguments.clone_from(&written.arguments);
        }
        self.fold.messages[at].tool_calls.push(call);
    }

    /// The message of the latest turn, where only results came after it and this call is its too.
    fn spread(&self, mark: Option<Mark<'_>>, id: &str) -> Option<usize> {
        let turn = self.fold.turn.as_ref().filter(|turn| !turn.open)?;
        let own = match mark {
            Some(mark) => turn.exchange.as_deref() == Some(mark.exchange),
            None => turn.reply.as_ref()?.tool_calls.iter().any(|call| call.id == id),
        };
        let later = self.fold.messages.get(turn.at + 1..)?;
        (own && later.iter().all(|message| message.role == Role::Tool)).then_some(turn.at)
    }

    /// An item that the request only names.
    pub(super) fn reference(&mut self, index: usize, id: &str) -> Result<(), Fault> {
        let unknown = || {
            let why = format!(
                "input[{index}] refers to an item of an earlier answer that is not known to this \
                 session; send the item itself"
            );
            Fault::new(FaultKind::UnknownItem, why).at(format!("input[{index}].id"))
        };
        let mark = Mark::read(id).ok_or_else(unknown)?;
        let reply = self.past.reply(mark.exchange).ok_or_else(unknown)?;
        match mark.part {
            Part::Reasoning => self.reasoning(Some(mark.exchange), reply.reasoning.as_deref()),
            Part::Message => {
                self.text(Some(mark), &reply.content.clone().into());
            }
            Part::Call(place) => {
                let call = reply.tool_calls.get(place).ok_or_else(unknown)?.clone();
                self.call(Some(mark), call.id, call.name, call.arguments, false);
            }
        }
        Ok(())
    }

    /// The message of the open turn, unless it is known to be this exchange's: what that one said is
    /// its own in any order.
    fn open(&self, exchange: Option<&str>) -> Option<&Message> {
        let another = |turn: &&Turn| exchange.is_none() || turn.exchange.as_deref() != exchange;
        let turn = self.fold.turn.as_ref().filter(|turn| turn.open).filter(another)?;
        self.fold.messages.get(turn.at)
    }

    /// Index of the message that items of this exchange belong to.
    fn assistant(&mut self, exchange: Option<&str>) -> usize {
        let apart = |turn: &Turn| {
            let differ = |own: &String| exchange.is_some_and(|exchange| exchange != own);
            !turn.open || turn.exchange.as_ref().is_some_and(differ)
        };
        if self.fold.turn.as_ref().is_none_or(apart) {
            self.close();
            let at = self.fold.messages.len();
            self.fold.messages.push(Message::text(Role::Assistant, String::new()));
            let turn = Turn { at, open: true, exchange: None, reply: None, restored: false };
            self.fold.turn = Some(turn);
        }
        let (mut at, mut named) = (self.fold.messages.len() - 1, None);
        if let Some(turn) = &mut self.fold.turn {
            at = turn.at;
            if let (None, Some(exchange)) = (&turn.exchange, exchange) {
                turn.exchange = Some(exchange.to_owned());
                named = Some(exchange);
            }
        }
        if let Some(exchange) = named {
            let reply = self.reply(exchange);
            if let Some(turn) = &mut self.fold.turn {
                turn.reply = reply;
            }
        }
        at
    }

    /// Ends the open turn, if there is one.
    fn close(&mut self) {
        let Some(turn) = self.fold.turn.as_mut().filter(|turn| turn.open) else { return };
        turn.open = false;
        let message = &mut self.fold.messages[turn.at];
        if turn.restored && turn.reply.as_ref().is_none_or(|reply| !is_of(message, reply)) {
            message.reasoning = None;
            media::skip(&mut self.fold.skipped, REASONING);
        }
        if let Some(reply) = &turn.reply
            && message.content.is_empty()
            && reply.content.trim().is_empty()
        {
            // No item stands for mere white space, but the model wrote it.
            message.content.clone_from(&reply.content);
        }
    }
}

/// Whether a message is what an agent keeps of this reply.
fn is_of(message: &Message, reply: &Reply) -> bool {
    let known = |call: &ToolCall| {
        let same = |own: &ToolCall| {
            own.id == call.id || (own.name == call.name && own.arguments == call.arguments)
        };
        reply.tool_calls.iter().any(same)
    };
    message.content.trim() == reply.content.trim()
        && message.tool_calls.is_empty() == reply.tool_calls.is_empty()
        && message.tool_calls.iter().all(known)
}

/// Whether both give a tool the same input: as a custom tool's text, or as JSON.
fn same_input(written: &str, sent: &str) -> bool {
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    custom_input(written) == custom_input(sent)
        || json(written).is_some_and(|written| Some(written) == json(sent))
}
