//! Whether continued prompts are what whole renders are.
//!
//! Made-up conversations are played as a session would play them: every answer is sampled in the
//! template's own spelling, every prompt is the one before it, the answer, and a stretch. Each such
//! prompt is compared with a whole render of the same messages. Reasoning aside, which templates
//! drop from earlier turns, the two must be the same text, and the same ids where the text is the
//! same.

use serde_json::{Map, Value, json};

use super::class::{Counterexample, TemplateClass};
use super::probe::pinned;
use super::reads::what_follows;
use super::{Model, PriorTail};
use crate::fault::{Fault, FaultKind};
use crate::id::TokenId;
use crate::turn::{Message, Role, Tool, ToolCall};

/// What was compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    /// Prompts that were compared with a whole render.
    pub prompts: u32,
    /// Prompts whose ids were the same to the last one.
    pub same_ids: u32,
    /// Conversations that the template refuses.
    pub refused: u32,
}

/// Plays the conversations; `Err` is the first difference.
pub fn check_bridges(model: &Model) -> Result<Compared, Counterexample> {
    let mut compared = Compared::default();
    if model.class == TemplateClass::RewritesHistory {
        return Ok(compared);
    }
    let tools = [json!({"type": "function", "function": {
        "name": "look", "description": "Looks.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    }})];
    for conversation in conversations() {
        for tools in [&tools[..], &[]] {
            let kwargs = pinned();
            match play(model, &conversation, tools, &kwargs, &mut compared) {
                Err(Stop::Refused) => compared.refused += 1,
                Err(Stop::Differs(found)) => return Err(*found),
                Ok(()) => {}
            }
        }
    }
    Ok(compared)
}

enum Stop {
    Refused,
    Differs(Box<Counterexample>),
}

impl From<Fault> for Stop {
    fn from(_: Fault) -> Self {
        Stop::Refused
    }
}

fn play(
    model: &Model,
    messages: &[Message],
    tools: &[Tool],
    kwargs: &Map<String, Value>,
    compared: &mut Compared,
) -> Result<(), Stop> {
    let mut ids: Vec<TokenId> = Vec::new();
    let mut prior: Option<(usize, PriorTail)> = None;
    for (at, message) in messages.iter().enumerate() {
        if message.role != Role::Assistant {
            continue;
        }
        let whole = model.first(&messages[..at], tools, kwargs)?;
        match prior {
            None => ids = whole.clone(),
            Some((before, tail)) => {
                let calls = &messages[before].tool_calls;
                let new = &messages[before + 1..at];
                ids.extend_from_slice(&model.stretch_after(tail, calls, new, tools, kwargs)?.ids);
            }
        }
        compare(model, &ids, &whole, compared)?;
        ids.extend(sampled(model, message)?);
        let last = ids.last().copied();
        prior = Some((at, PriorTail { last, reasoning_open: false }));
    }
    Ok(())
}

/// The ids of an answer as the template spells it, closed.
fn sampled(model: &Model, message: &Message) -> Result<Vec<TokenId>, Fault> {
    let follows = what_follows(message);
    let mut written = model.answer(message, &[])?;
    if written.is_none() {
        written = model.answer(message, &follows)?;
    }
    let written = written.ok_or_else(|| {
        Fault::new(FaultKind::TemplateRefused, "an answer is not written behind its prompt")
    })?;
    let mut ids = Vec::new();
    model.encode(&written.text, written.marks, &mut ids)?;
    if !model.turn_end.begins_next() {
        ids.push(written.close.unwrap_or(model.markers.close));
    }
    Ok(ids)
}

fn compare(
    model: &Model,
    bridged: &[TokenId],
    whole: &[TokenId],
    compared: &mut Compared,
) -> Result<(), Stop> {
    compared.prompts += 1;
    if bridged == whole {
        compared.same_ids += 1;
        return Ok(());
    }
    let [ours, theirs] = [bridged, whole].map(|ids| {
        let mut text = Vec::new();
        model.detokenize(ids, &mut text);
        without_reasoning(&String::from_utf8_lossy(&text))
    });
    let markers_only =
        model.turn_end.markers_vary && model.control.strip(&ours) == model.control.strip(&theirs);
    if (ours == theirs && bridged.len() != whole.len()) || markers_only {
        return Ok(());
    }
    let messages = "a session played turn by turn".to_owned();
    let what = "a continued prompt is not what a whole render is";
    Err(Stop::Differs(Box::new(Counterexample::between(messages, what, &theirs, &ours))))
}

/// Blocks of reasoning, as pairs of what opens and what ends them.
const REASONING: [(&str, &str); 3] = [
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<|start|>assistant<|channel|>analysis<|message|>", "<|end|>"),
];

fn without_reasoning(text: &str) -> String {
    REASONING.iter().fold(text.to_owned(), |text, (open, close)| {
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some((before, inside)) = rest.split_once(open) {
            let Some((_, behind)) = inside.split_once(close) else { break };
            out.push_str(before);
            rest = behind.strip_prefix("\n\n").unwrap_or(behind);
        }
        out + rest
    })
}

/// Sessions of an agent: with and without tools, reasoning, parallel calls, odd text.
fn conversations() -> Vec<Vec<Message>> {
    let user = |text: &str| Message::text(Role::User, text);
    let system = Message::text(Role::System, "You look at things.");
    let thoughtful = |text: &str| {
        let mut message = Message::text(Role::Assistant, text);
        message.reasoning = Some("Let me think <about> it.".to_owned());
        message
    };
    let calling = |ids: &[&str]| {
        let mut message = thoughtful("");
        let call = |id: &&str| ToolCall {
            id: (*id).to_owned(),
            name: "look".to_owned(),
            arguments: r#"{"at": "a \"b\" <c>\n"}"#.to_owned(),
        };
        message.tool_calls = ids.iter().map(call).collect();
        message
    };
    let result = |id: &str, text: &str| {
        let mut message = Message::text(Role::Tool, text);
        message.tool_call_id = Some(id.to_owned());
        message
    };
    let plain = |text: &str| Message::text(Role::Assistant, text);
    vec![
        vec![user("1"), plain("one"), user("2  "), plain("two"), user("3"), plain("three")],
        vec![system.clone(), user("1"), thoughtful("one\n"), user("2"), thoughtful("two")],
        vec![
            system.clone(),
            user("Look."),
            calling(&["abcdef001"]),
            result("abcdef001", "<|im_end|>\n</think> 1"),
            calling(&["abcdef002"]),
            result("abcdef002", ""),
            thoughtful("Seen."),
            user("Again."),
            calling(&["abcdef003"]),
            result("abcdef003", "{\"x\": 1}"),
            thoughtful("Done."),
        ],
        vec![
            user("Look twice."),
            calling(&["abcdef001", "abcdef002"]),
            result("abcdef001", "first"),
            result("abcdef002", "second"),
            thoughtful("Seen."),
            user("é😀\u{301}字"),
            thoughtful("So."),
        ],
        vec![
            user("1"),
            plain("one"),
            Message::text(Role::System, "Be brief."),
            user("2"),
            plain("two"),
        ],
    ]
}
