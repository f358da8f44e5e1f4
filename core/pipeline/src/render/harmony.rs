//! The format of gpt-oss: messages with channels, tools as TypeScript.
//!
//! Its rules are not a template's: instructions and tools share one developer message, a tool
//! result is spoken by the tool, and the reasoning of a turn vanishes once it is answered: only
//! what follows the last final answer keeps it, so the class is `append_only_in_tool_cycle`.
//!
//! Decisions: a history's turns end with `<|end|>` (with `<|call|>` for a call), as the format asks,
//! but what was sampled stays: a turn that ended with `<|return|>` keeps it in a continued prompt.
//! The date is the session's (`now`); the effort is `reasoning_effort`, medium by default.
//! Instructions behind the beginning are developer messages where they stand.

mod typescript;

use std::fmt::Write as _;

use serde_json::Value;

use super::control::Guard;
use super::conversation::{Conversation, instructs};
use super::ready::ReadyTools;
use super::strftime;
use crate::fault::{Fault, FaultKind};
use crate::turn::{Message, Role, Tool, ToolCall};

/// Writes a conversation.
pub(super) fn render(conversation: &Conversation<'_>, guard: &Guard<'_>) -> Result<String, Fault> {
    let leading = conversation.messages.iter().take_while(|message| instructs(message)).count();
    let (instructions, messages) = conversation.messages.split_at(leading);
    let mut out = String::new();
    system(conversation, guard, &mut out)?;
    developer(instructions, conversation.tools, conversation.ready, guard, &mut out);
    let answered = messages.iter().rposition(|message| is_final(message));
    let mut calls: Vec<&ToolCall> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let text = guard.apply(&message.content);
        match message.role {
            Role::User => write_message(&mut out, "user", &text, "<|end|>"),
            Role::System | Role::Developer => {
                developer(&[message], &[], None, guard, &mut out);
            }
            Role::Assistant => {
                // A final answer that still is the last message keeps its reasoning: nothing has
                // been asked since.
                let asked_since = messages[at..].iter().any(|later| later.role == Role::User);
                let keeps = answered
                    .is_none_or(|answered| at > answered || (at == answered && !asked_since));
                assistant(message, keeps, guard, &mut out);
                calls.extend(&message.tool_calls);
            }
            Role::Tool => {
                let name = name_of(message, &calls, conversation.tools)?;
                let header =
                    format!("functions.{} to=assistant<|channel|>commentary", guard.apply(&name));
                write_message(&mut out, &header, &text, "<|end|>");
            }
        }
    }
    if conversation.prompts {
        out.push_str("<|start|>assistant");
    }
    Ok(out)
}

fn write_message(out: &mut String, header: &str, text: &str, end: &str) {
    out.extend(["<|start|>", header, "<|message|>", text, end]);
}

/// An answer without calls: what comes before it keeps no reasoning.
fn is_final(message: &Message) -> bool {
    message.role == Role::Assistant && message.tool_calls.is_empty()
}

fn system(
    conversation: &Conversation<'_>,
    guard: &Guard<'_>,
    out: &mut String,
) -> Result<(), Fault> {
    let argument = |name: &str| conversation.kwargs.get(name).and_then(Value::as_str);
    let identity = argument("model_identity")
        .unwrap_or("You are ChatGPT, a large language model trained by OpenAI.");
    let effort = argument("reasoning_effort").unwrap_or("medium");
    let refused = |reason: String| Fault::new(FaultKind::TemplateRefused, reason);
    let now = conversation.kwargs.get("now").and_then(Value::as_i64).ok_or_else(|| {
        refused(
            "a prompt of gpt-oss has the date: pin it with the template argument `now`, in \
                 seconds since 1970"
                .to_owned(),
        )
    })?;
    let date = strftime::format(now, "%Y-%m-%d").map_err(refused)?;
    let mut text = format!(
        "{}\nKnowledge cutoff: 2024-06\nCurrent date: {date}\n\nReasoning: {}\n\n# Valid channels: \
         analysis, commentary, final. Channel must be included for every message.",
        guard.apply(identity),
        guard.apply(effort),
    );
    if !conversation.tools.is_empty() {
        text.push_str("\nCalls to these tools must go to the commentary channel: 'functions'.");
    }
    write_message(out, "system", &text, "<|end|>");
    Ok(())
}

/// The `functions` namespace of these tools.
pub(super) fn namespace(tools: &[Tool], guard: &Guard<'_>) -> String {
    typescript::namespace(tools, guard)
}

fn developer(
    instructions: &[&Message],
    tools: &[Tool],
    ready: Option<&ReadyTools>,
    guard: &Guard<'_>,
    out: &mut String,
) {
    let mut sections = Vec::new();
    if !instructions.is_empty() {
        let texts: Vec<&str> =
            instructions.iter().map(|message| message.content.as_str()).collect();
        sections.push(format!("# Instructions\n\n{}", guard.apply(&texts.join("\n\n"))));
    }
    if !tools.is_empty() {
        sections.push(match ready.and_then(|ready| ready.namespace(guard)) {
            Some(known) => format!("# Tools\n\n{known}"),
            None => format!("# Tools\n\n{}", namespace(tools, guard)),
        });
    }
    if !sections.is_empty() {
        write_message(out, "developer", &sections.join("\n\n"), "<|end|>");
    }
}

/// One turn: reasoning, then text and calls. Text beside calls is a preamble for the user.
fn assistant(message: &Message, keeps_reasoning: bool, guard: &Guard<'_>, out: &mut String) {
    let reasoning = message.reasoning.as_deref().filter(|text| keeps_reasoning && !text.is_empty());
    if let Some(reasoning) = reasoning {
        let header = "assistant<|channel|>analysis";
        write_message(out, header, &guard.apply(reasoning), "<|end|>");
    }
    let text = guard.apply(&message.content);
    if message.tool_calls.is_empty() {
        write_message(out, "assistant<|channel|>final", &text, "<|end|>");
    } else if !text.is_empty() {
        write_message(out, "assistant<|channel|>commentary", &text, "<|end|>");
    }
    for call in &message.tool_calls {
        let mut header = "assistant<|channel|>commentary to=functions.".to_owned();
        let _ = write!(header, "{} <|constrain|>json", guard.apply(&call.name));
        write_message(out, &header, &guard.apply(&call.arguments), "<|call|>");
    }
}

/// A result is spoken by the function that was called. Where the call is not at hand, the only tool
/// on offer is meant.
fn name_of(message: &Message, calls: &[&ToolCall], tools: &[Tool]) -> Result<String, Fault> {
    let id = message.tool_call_id.as_deref().unwrap_or("");
    if let Some(call) = calls.iter().rev().find(|call| call.id == id) {
        return Ok(call.name.clone());
    }
    match tools {
        [only] if only["function"]["name"].is_string() => {
            Ok(only["function"]["name"].as_str().unwrap_or("").to_owned())
        }
        _ => Err(Fault::new(
            FaultKind::BadRequest,
            format!("tool result for the call {id:?}: the conversation has no such call"),
        )
        .at("messages")),
    }
}
