//! The context between two generations.
//!
//! It is cut out of the render of a short conversation made up for it: a user turn, an assistant
//! turn that ends in a sentinel, then the new messages. What follows the token that closes the
//! sentinel's turn is what follows any generation; [`super::probe`] proves that at load.

use serde_json::{Map, Value, json};

use super::Model;
use super::control::Marks;
use super::conversation::Conversation;
use super::draft::Draft;
use super::heads::Heads;
use super::ready::{Offer, SENTINEL};
use super::renderer::Renderer;
use crate::fault::{Fault, FaultKind};
use crate::id::TokenId;
use crate::id_text::Spelled;
use crate::planted::{self, Bug};
use crate::turn::{Message, Role, Tool, ToolCall, Tools};

/// How the sampled ids before a stretch end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PriorTail {
    /// The last sampled id; none where nothing was sampled.
    pub last: Option<TokenId>,
    /// Whether reasoning was still open there.
    pub reasoning_open: bool,
}

/// The context between two generations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Its ids.
    pub ids: Spelled,
    /// How many tokens that ended the sampled turn stand beside the one that the template writes in
    /// their place: what was sampled stays, and both are in the prompt.
    pub marker_conflicts: u32,
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
        self.stretch_after(tail, &[], new, tools, kwargs).map(|stretch| stretch.ids.ids)
    }

    /// As [`Model::stretch`], told the calls of the generation before it: some formats write a
    /// result with the name of the function that was called.
    pub fn stretch_after(
        &self,
        tail: PriorTail,
        prior: &[ToolCall],
        new: &[Message],
        tools: &[Tool],
        kwargs: &Map<String, Value>,
    ) -> Result<Stretch, Fault> {
        self.draft(tail, self.after_turn(prior, new, tools, kwargs)?).encode(self)
    }

    /// As [`Model::stretch_after`], not encoded yet, with tools that `heads` keeps ready.
    pub fn draft_after(
        &self,
        heads: &mut Heads,
        tail: PriorTail,
        prior: &[ToolCall],
        new: &[Message],
        tools: &Tools,
        kwargs: &Map<String, Value>,
    ) -> Result<Draft, Fault> {
        let ready = match tools[..] {
            [_, ..] if !self.turn_end.tools_in_header => heads.ready(tools, || self.ready(tools)),
            _ => None,
        };
        let offer = Offer { tools, ready: ready.as_deref() };
        Ok(self.draft(tail, self.after_turn_offered(prior, new, offer, kwargs)?))
    }

    fn draft(&self, tail: PriorTail, after: AfterTurn) -> Draft {
        let AfterTurn { rendered, mut start, marks } = after;
        if planted::on(Bug::DroppedSeparator) {
            let text = rendered.get(start..).unwrap_or("");
            start += text.len() - text.trim_start().len();
        }
        let mut draft = Draft::of(rendered, start, marks);
        if self.turn_end.closes(tail.last) {
            // The sampled token is the one that begins the next turn, or stands beside it.
            draft.joins = tail.last.filter(|_| self.turn_end.begins_next());
            return draft;
        }
        if tail.reasoning_open {
            draft.before.ids.extend_from_slice(&self.turn_end.end_of_reasoning);
        }
        draft.marker_conflicts +=
            u32::from(tail.last.is_some_and(|id| self.markers.ends.contains(&id)));
        if !self.turn_end.begins_next() && !planted::on(Bug::CloseForgotten) {
            draft.before.ids.push(self.markers.close);
        }
        draft
    }

    /// Renders what follows the close token of the turn before `new`.
    pub(super) fn after_turn(
        &self,
        prior: &[ToolCall],
        new: &[Message],
        tools: &[Tool],
        kwargs: &Map<String, Value>,
    ) -> Result<AfterTurn, Fault> {
        self.after_turn_offered(prior, new, Offer::of(tools), kwargs)
    }

    fn after_turn_offered(
        &self,
        prior: &[ToolCall],
        new: &[Message],
        offer: Offer<'_>,
        kwargs: &Map<String, Value>,
    ) -> Result<AfterTurn, Fault> {
        if matches!(self.renderer, Renderer::Harmony) {
            return self.after_turn_in_code(prior, new, offer.tools, kwargs);
        }
        // Where the template prints tools in the header only, any tool stands for all of them.
        let stub;
        let offer = match offer.tools {
            [_, ..] if self.turn_end.tools_in_header => {
                stub = [self::stub()];
                Offer { tools: &stub, ready: self.stub.as_ref() }
            }
            _ => offer,
        };
        // Where ids are made of names, a result whose call is unknown keeps its id.
        let unknown = if self.constants.forms.function_ids { "" } else { "f" };
        let calls = calls_answered_by(prior, new, unknown);
        let written = self.cut_out(&calls, new, offer, kwargs);
        match (&written, calls.get(..1)) {
            // Some templates refuse two calls in one turn; the results are written alike.
            (Err(fault), Some(first))
                if calls.len() > 1 && fault.kind == FaultKind::TemplateRefused =>
            {
                self.cut_out(first, new, offer, kwargs).or(written)
            }
            _ => written,
        }
    }

    fn cut_out(
        &self,
        calls: &[ToolCall],
        new: &[Message],
        offer: Offer<'_>,
        kwargs: &Map<String, Value>,
    ) -> Result<AfterTurn, Fault> {
        let Offer { tools, ready } = offer;
        let unheard = ready.is_some_and(|ready| !ready.mentions_sentinel());
        let looked_at = if unheard { &[] } else { tools };
        let user = Message::text(Role::User, "go on");
        for attempt in 0..SENTINELS {
            let sentinel = format!("{SENTINEL}{attempt:03}");
            if holds(new, looked_at, kwargs, &sentinel) {
                continue;
            }
            // Where there are calls some templates leave out the text, others the calls.
            let mut prior = Message::text(Role::Assistant, sentinel.as_str());
            prior.tool_calls = calls.to_vec();
            if let Some(last) = prior.tool_calls.last_mut() {
                last.arguments = json!({"end": sentinel}).to_string();
            }
            let messages: Vec<&Message> = [&user, &prior].into_iter().chain(new).collect();
            let conversation =
                Conversation { messages: &messages, tools, kwargs, prompts: true, ready };
            let (text, guard) = self.render(&conversation)?;
            let start = self.turn_end.after(&text, &sentinel).ok_or_else(|| {
                Fault::new(
                    FaultKind::TemplateRefused,
                    "the chat template leaves out the turn before the new messages",
                )
            })?;
            return Ok(AfterTurn { rendered: text, start, marks: guard.marks() });
        }
        Err(Fault::new(
            FaultKind::BadRequest,
            "the new messages hold every sentinel of a turn's end",
        ))
    }

    /// A format in code writes what is behind a turn with nothing before it; the length of what it
    /// writes for the turn alone says where that begins.
    fn after_turn_in_code(
        &self,
        prior: &[ToolCall],
        new: &[Message],
        tools: &[Tool],
        kwargs: &Map<String, Value>,
    ) -> Result<AfterTurn, Fault> {
        // Tools are in the header; a single one tells whose result it is where no call does.
        let tools = if tools.len() == 1 { tools } else { &[] };
        let user = Message::text(Role::User, "go on");
        let mut turn = Message::text(Role::Assistant, "");
        turn.tool_calls = prior.to_vec();
        let messages: Vec<&Message> = [&user, &turn].into_iter().chain(new).collect();
        let mut conversation =
            Conversation { messages: &messages, tools, kwargs, prompts: true, ready: None };
        let (rendered, guard) = self.render(&conversation)?;
        conversation.messages = &messages[..2];
        conversation.prompts = false;
        let before = self.renderer.render(&self.constants, &conversation, &guard)?;
        Ok(AfterTurn { rendered, start: before.len(), marks: guard.marks() })
    }
}

/// Whether any text that may be rendered behind a turn has this in it.
fn holds(new: &[Message], tools: &[Tool], kwargs: &Map<String, Value>, text: &str) -> bool {
    let message = |message: &Message| {
        let calls =
            message.tool_calls.iter().flat_map(|call| [&call.id, &call.name, &call.arguments]);
        let others = message.reasoning.iter().chain(&message.tool_call_id).chain(calls);
        std::iter::once(&message.content).chain(others).any(|part| part.contains(text))
    };
    new.iter().any(message)
        || tools.iter().chain(kwargs.values()).any(|value| value.to_string().contains(text))
}

/// The tool that stands for all.
pub(super) fn stub() -> Tool {
    json!({"type": "function", "function": {"name": "f", "parameters": {}}})
}

/// How many sentinels are tried.
const SENTINELS: u32 = 100;

/// The part of a render behind a turn's close token.
pub(super) struct AfterTurn {
    rendered: String,
    start: usize,
    marks: Marks,
}

impl AfterTurn {
    /// The text, guards still in it.
    pub fn text(&self) -> &str {
        self.rendered.get(self.start..).unwrap_or("")
    }

    /// The text, guards removed.
    pub fn plain_text(&self) -> String {
        self.marks.remove(self.text()).into_owned()
    }
}

/// Templates that pair results with calls want the calls that the leading results answer.
fn calls_answered_by(prior: &[ToolCall], new: &[Message], unknown: &str) -> Vec<ToolCall> {
    let answered = new.iter().take_while(|message| message.role == Role::Tool);
    let stub = |message: &Message| {
        let id = message.tool_call_id.clone().unwrap_or_default();
        let name = prior.iter().find(|call| call.id == id).map_or(unknown, |call| &call.name);
        ToolCall { name: name.to_owned(), arguments: "{}".to_owned(), id }
    };
    answered.map(stub).collect()
}
