//! From an engine's reply to a record, and then to the agent's answer.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;

use super::park;
use super::prepare::Prepared;
use super::ticket::{Kept, Said};
use super::{Context, Exchange, Gatehouse, Stage, Want};
use crate::fault::{Fault, FaultKind, Overflow};
use crate::http::{self, ReplyReader};
use crate::id::TokenId;
use crate::parse::{Parsed, parse};
use crate::protocol::{Dialect, ReplyMeta};
use crate::record::{TurnRecord, TurnTimes};
use crate::trajectory::answer_digest;
use crate::turn::{Finish, Generated, Reply, ReplyForm, ToolChoice, Usage};

/// What the agent gets once the record is durable.
pub(super) struct Answer {
    reply: Reply,
    meta: ReplyMeta,
    form: ReplyForm,
}

impl Answer {
    /// Why the agent is given a fault instead.
    pub(super) fn refusal(&self, dialect: Dialect) -> Option<Fault> {
        dialect.refusal(&self.reply, &self.meta)
    }
}

/// What an engine's reply comes to.
enum Heard {
    Generated(Generated),
    Paused(Fault),
}

impl Exchange {
    /// The engine's reply is whole: makes the record, waits, or refuses.
    pub(super) fn answer(&mut self, cx: &mut Context<'_>) -> Want {
        let Stage::Engine { mut prepared, reply } = std::mem::replace(&mut self.stage, Stage::Over)
        else {
            return self.misuse("answer");
        };
        match self.read(reply, &prepared, cx) {
            Ok(Heard::Generated(generated)) if generated.finish == Finish::Abort => {
                self.engine_gave_up(cx, prepared, generated)
            }
            Ok(Heard::Generated(generated)) => {
                let generated = prepared.parked.with(generated);
                self.record_turn(cx, prepared, generated, &[])
            }
            Ok(Heard::Paused(fault)) if !self.given_up => self.park(cx, prepared, fault),
            Ok(Heard::Paused(fault)) => self.engine_fault(cx, prepared, fault),
            Err(fault) => {
                self.reply_fault = Some(fault.clone());
                self.engine_fault(cx, prepared, fault)
            }
        }
    }

    /// The call came to nothing.
    pub(super) fn engine_fault(
        &mut self,
        cx: &mut Context<'_>,
        mut prepared: Box<Prepared>,
        fault: Fault,
    ) -> Want {
        if self.tries_again(&cx.gatehouse.limits, cx.now.mono_ms, &fault) {
            // An id of its own: the engine may still be at work on the call before.
            prepared.call_id = format!("{:032x}", cx.random);
            return self.call_engine(cx, prepared);
        }
        match !self.given_up && !prepared.parked.ids().is_empty() && park::waits_out(&fault) {
            true => self.park(cx, prepared, fault),
            false => self.torso(cx, prepared, fault),
        }
    }

    /// The generation is over: makes the record. `remarks` are added to the parser's.
    pub(super) fn record_turn(
        &mut self,
        cx: &mut Context<'_>,
        prepared: Box<Prepared>,
        generated: Generated,
        remarks: &[&str],
    ) -> Want {
        let mut parsed = parse_generated(&prepared, &generated, cx);
        let unmet = unmet(&prepared, &parsed.reply);
        let remarks = remarks.iter().chain(&unmet);
        parsed.reply.remarks.extend(remarks.map(|&remark| remark.to_owned()));
        let usage = Usage {
            prompt_tokens: prepared.prompt_tokens,
            completion_tokens: generated.ids.len() as u32,
            cached_tokens: generated.cached_tokens,
        };
        let mut prepared = *prepared;
        let form = prepared.form;
        let meta = ReplyMeta {
            id: prepared.request_id.clone(),
            created_s: self.started.wall_ms / 1_000,
            model: std::mem::take(&mut prepared.model),
            finish: generated.finish,
            stop_text: generated.stop_text.clone(),
            usage,
            wire_tools: std::mem::take(&mut prepared.wire_tools),
            purpose: prepared.purpose,
            echo: std::mem::take(&mut prepared.echo),
        };
        let sent = std::mem::take(&mut prepared.stretch_text);
        let mut record = self.record(prepared, generated, parsed, usage, cx);
        match cx.session.take_over_turn(&mut record, sent) {
            Ok(frame) => {
                self.passage.recorded = Some(record.verdict.scene);
                let answer = Answer { reply: record.reply, meta, form };
                let said = Cell::new(Said::Nothing);
                self.stage = Stage::Record(Rc::new(Kept { turn: record.turn, answer, said }));
                Want::Durable(frame)
            }
            Err(fault) => self.fail(cx, &fault),
        }
    }

    fn read(
        &mut self,
        reply: ReplyReader,
        prepared: &Prepared,
        cx: &Context<'_>,
    ) -> Result<Heard, Fault> {
        let Some((head, body)) = reply.into_parts() else {
            return Err(Fault::new(FaultKind::EngineBadReply, "the engine's reply is not whole"));
        };
        self.engine_reusable = head.keep_alive;
        let gatehouse = cx.gatehouse;
        let result = gatehouse.engine.read(head.status, &body, gatehouse.model.vocab_size);
        let generated = result.map_err(|mut fault| {
            let later = matches!(fault.kind, FaultKind::EngineBusy | FaultKind::EngineLimited);
            if later && head.retry_after_s.is_some() {
                fault.retry_after_s = head.retry_after_s;
            }
            match fault.kind {
                FaultKind::ContextOverflow => overflow(&fault, &body, prepared, gatehouse),
                _ => fault,
            }
        });
        match generated {
            Err(fault) if gatehouse.engine.paused(head.status, &body) => Ok(Heard::Paused(fault)),
            Err(fault) => Err(fault),
            Ok(generated) => {
                check_prompt(&generated, prepared)?;
                Ok(Heard::Generated(generated))
            }
        }
    }

    fn record(
        &self,
        prepared: Prepared,
        generated: Generated,
        parsed: Parsed,
        usage: Usage,
        cx: &Context<'_>,
    ) -> TurnRecord {
        let root_only = prepared.parent.is_none();
        let asked =
            (prepared.asked_sampling != prepared.sampling).then_some(prepared.asked_sampling);
        TurnRecord {
            turn: cx.session.next_turn(),
            parent: prepared.parent,
            root: prepared.root,
            joined: prepared.joined,
            rules: prepared.rules,
            anew: prepared.anew,
            context_diff_tokens: prepared.context_diff_tokens,
            overlay_tokens: prepared.overlay_tokens,
            marker_conflicts: prepared.marker_conflicts,
            wrapped_instructions: prepared.wrapped_instructions,
            resumed_at: prepared.parked.resumed_at,
            elements: prepared.elements,
            answer: answer_digest(cx.session.habits().mode, &prepared.continued, &parsed.reply),
            sampling: prepared.sampling,
            asked_sampling: asked,
            verdict: prepared.verdict,
            tool_choice: prepared.tool_choice,
            parallel_tool_calls: prepared.parallel_tool_calls,
            skipped: prepared.skipped,
            stripped: prepared.stripped,
            dialect: self.dialect.name().to_owned(),
            request_id: prepared.request_id,
            messages: prepared.messages,
            tools: if root_only { prepared.tools } else { Default::default() },
            template_kwargs: if root_only { prepared.template_kwargs } else { Default::default() },
            reply: parsed.reply,
            finish: generated.finish,
            stop_text: generated.stop_text,
            versions: generated.versions,
            reasoning_open: parsed.reasoning_open,
            usage,
            foreign_tokens: prepared.foreign_tokens,
            times: TurnTimes {
                at_ms: self.started.wall_ms,
                prepare_ms: prepared.called_mono_ms.saturating_sub(self.started.mono_ms),
                queue_ms: self.queue_ms,
                engine_ms: cx
                    .now
                    .mono_ms
                    .saturating_sub(prepared.called_mono_ms)
                    .saturating_sub(self.queue_ms),
            },
            columns: [0; 3],
            stretch: prepared.stretch,
            ids: generated.ids,
            logprobs: generated.logprobs,
        }
    }

    /// The answer as bytes, continuing a stream that keepalives have begun.
    pub(super) fn frame_answer(&self, answer: &Answer) -> Bytes {
        let id = (self.dialect.request_id_header(), answer.meta.id.as_str());
        let ReplyForm::Events { usage } = answer.form else {
            let body = self.dialect.reply(&answer.reply, &answer.meta);
            return http::reply(200, "application/json", &body, self.keep_alive, &[id]);
        };
        let head = match self.stream {
            None => http::events_head(self.keep_alive, &[id]),
            Some(_) => Bytes::new(),
        };
        http::rest_of_chunks(&head, &self.dialect.events(&answer.reply, &answer.meta, usage))
    }
}

/// The engine's refusal of a prompt that does not fit its context, in the words that agents know.
fn overflow(fault: &Fault, body: &[u8], prepared: &Prepared, gatehouse: &Gatehouse) -> Fault {
    let prompt_tokens = prepared.sent_tokens();
    let mend = "the node takes more than its engine: set `model.max_context` to the engine's";
    match gatehouse.engine.told_context(body) {
        // Only prompt and answer together do not: an agent that compacts would not get further.
        Some(max_context) if max_context > prompt_tokens => {
            Fault::new(FaultKind::EngineRefused, format_args!("{} ({mend})", fault.message))
        }
        Some(max_context) => {
            let named = Fault::overflow(Overflow { prompt_tokens, max_context });
            Fault { message: format!("{} ({mend})", named.message), ..named }
        }
        None => {
            let message = format_args!(
                "prompt is too long: {prompt_tokens} tokens are beyond the engine's maximum context \
                 length ({mend}): {}",
                fault.message
            );
            Fault::new(FaultKind::ContextOverflow, message).at("messages")
        }
    }
}

/// The engine must have seen the prompt that it was sent, not a part of it.
fn check_prompt(generated: &Generated, prepared: &Prepared) -> Result<(), Fault> {
    let sent = prepared.sent_tokens();
    match generated.prompt_tokens {
        // A call that was given up before it began may have no count, or none but zero.
        Some(0) if generated.ids.is_empty() && generated.finish == Finish::Abort => Ok(()),
        Some(seen) if seen != sent => Err(Fault::new(
            FaultKind::EngineBadReply,
            format!(
                "the engine counted {seen} prompt tokens, but {sent} were sent: it, or a router \
                 before it, changes prompts (truncation must be off)"
            ),
        )),
        _ => Ok(()),
    }
}

/// What the agent asked of the answer's calls and did not get. Nothing enforces it: the model's own
/// distribution is what a sample must be drawn from.
fn unmet(prepared: &Prepared, reply: &Reply) -> Vec<&'static str> {
    let calls = &reply.tool_calls;
    let choice = match &prepared.tool_choice {
        ToolChoice::Required => calls.is_empty(),
        ToolChoice::Named(name) => !calls.iter().any(|call| call.name == *name),
        ToolChoice::Auto | ToolChoice::None => false,
    };
    let alone = prepared.parallel_tool_calls == Some(false) && calls.len() > 1;
    let remarks = [(choice, "tool_choice_unmet"), (alone, "parallel_calls_unwanted")];
    remarks.into_iter().filter(|(holds, _)| *holds).map(|(_, remark)| remark).collect()
}

fn parse_generated(prepared: &Prepared, generated: &Generated, cx: &Context<'_>) -> Parsed {
    // The generation prompt is the end of the stretch; it tells whether reasoning is open.
    let tail: &[TokenId] = &prepared.stretch;
    let model = &cx.gatehouse.model;
    let stop_text = generated.stop_text.as_deref();
    let tools = match &*prepared.loaded_tools {
        [] => Cow::Borrowed(&*prepared.tools),
        loaded => Cow::Owned([&*prepared.tools, loaded].concat()),
    };
    parse(model, tail, &generated.ids, stop_text, &tools, &prepared.request_id)
}
