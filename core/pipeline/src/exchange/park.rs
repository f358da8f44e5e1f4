//! Turns that the engine gave up on: parked, then gone on with.
//!
//! An engine gives up on calls, or refuses new ones, while it takes new weights. That is told from
//! an engine that is merely busy:
//!
//! - a 200 reply that ended in `abort`, though nobody asked for it, is a pause: the ids it sampled
//!   are kept;
//! - a 503 whose message speaks of a pause or of weights is a pause
//!   ([`crate::engine::EngineKind::paused`]);
//! - any other 429 or 503 says that the engine is busy: the call is made again ([`super::again`]),
//!   then that is passed on to the agent;
//! - while a turn is parked with ids, a refused connection and a busy engine are taken for the same
//!   pause: engines restart for new weights, and what was sampled is worth the wait.
//!
//! A parked turn waits, then sends `prompt + what was sampled` with the budget that is left. Waits
//! grow from [`PAUSE_FIRST_MS`] to [`PAUSE_LONGEST_MS`] and start again once something was sampled.
//! When the engine sampled nothing for `limits.park_ms`, or gave up too often, the agent gets what
//! there is as a cut answer: recorded as `abort`, untrained, with the remark `aborted`. Where there
//! is nothing, it gets a 503.
//!
//! What a grammar holds together is not gone on with: the engine would begin the grammar anew in the
//! middle of a text. Such a turn is sampled from its start.
//!
//! Known gap: engines look for stop texts in what one call sampled, so one that spans two parts does
//! not end the answer.

use super::again::Tries;
use super::prepare::Prepared;
use super::{Context, Exchange, Stage, Want};
use crate::engine::EngineCall;
use crate::fault::{Fault, FaultKind};
use crate::http::ReplyReader;
use crate::id::TokenId;
use crate::id_text;
use crate::limits::{PAUSE_FIRST_MS, PAUSE_LONGEST_MS, RESENDS};
use crate::planted::{self, Bug};
use crate::turn::{Finish, Generated, Sampling, VersionSpan};

/// What was sampled of a turn before the call that is under way, and how long it has waited.
#[derive(Default)]
pub(super) struct Parked {
    ids: Vec<TokenId>,
    logprobs: Vec<f32>,
    versions: Vec<VersionSpan>,
    cached_tokens: Option<u32>,
    /// Where, within `ids`, the engine gave up and was asked to go on.
    pub(super) resumed_at: Vec<u32>,
    /// Since when nothing was sampled, in monotonic milliseconds.
    since_ms: Option<u64>,
    /// When the engine is asked again, in monotonic milliseconds.
    until_ms: u64,
    pause_ms: u64,
    resends: u32,
}

impl Parked {
    /// The ids sampled so far.
    pub(super) fn ids(&self) -> &[TokenId] {
        &self.ids
    }

    /// Lays another part behind what there is.
    fn add(&mut self, part: Generated) {
        let moved = match planted::on(Bug::SpansNotMoved) {
            true => 0,
            false => self.ids.len() as u32,
        };
        let unreported = || VersionSpan { start: 0, version: VersionSpan::UNREPORTED.to_owned() };
        // A part without a report must not pass for one of the versions around it.
        if self.versions.is_empty() && !self.ids.is_empty() && !part.versions.is_empty() {
            self.versions.push(unreported());
        }
        let silent = part.versions.is_empty() && !self.versions.is_empty() && !part.ids.is_empty();
        for span in part.versions.into_iter().chain(silent.then(unreported)) {
            if self.versions.last().is_none_or(|last| last.version != span.version) {
                self.versions.push(VersionSpan { start: span.start + moved, ..span });
            }
        }
        self.ids.extend(part.ids);
        self.logprobs.extend(part.logprobs);
        self.cached_tokens = self.cached_tokens.or(part.cached_tokens);
    }

    /// The turn's generation, of which `last` is the last part.
    pub(super) fn with(&mut self, last: Generated) -> Generated {
        let (finish, prompt_tokens) = (last.finish, last.prompt_tokens);
        let stop_text = last.stop_text.clone();
        self.add(last);
        Generated { finish, prompt_tokens, stop_text, ..self.take(finish) }
    }

    /// What there is, as a generation.
    fn take(&mut self, finish: Finish) -> Generated {
        Generated {
            ids: std::mem::take(&mut self.ids),
            logprobs: std::mem::take(&mut self.logprobs),
            finish,
            stop_text: None,
            versions: std::mem::take(&mut self.versions),
            cached_tokens: self.cached_tokens,
            prompt_tokens: None,
        }
    }

    /// Until when to wait before the engine is asked again; `None`: it was waited long enough.
    fn wait(&mut self, park_ms: u64, now_ms: u64) -> Option<u64> {
        let deadline_ms = self.since_ms.get_or_insert(now_ms).saturating_add(park_ms);
        if now_ms >= deadline_ms || self.resends >= RESENDS {
            return None;
        }
        self.pause_ms = match self.pause_ms {
            0 => PAUSE_FIRST_MS,
            pause_ms => (pause_ms * 2).min(PAUSE_LONGEST_MS),
        };
        self.until_ms = (now_ms + self.pause_ms).min(deadline_ms);
        Some(self.until_ms)
    }
}

impl Exchange {
    /// The engine gave up on a call that sampled `part`.
    pub(super) fn engine_gave_up(
        &mut self,
        cx: &mut Context<'_>,
        mut prepared: Box<Prepared>,
        part: Generated,
    ) -> Want {
        // What is left of an orphan is recorded as it is.
        if self.given_up {
            prepared.parked.add(part);
            return self.torso(cx, prepared, aborted());
        }
        if !part.ids.is_empty() && !bound_by_grammar(&prepared.sampling) {
            let parked = &mut prepared.parked;
            parked.add(part);
            (parked.since_ms, parked.pause_ms) = (None, 0);
            if parked.ids.len() as u32 >= prepared.sampling.max_tokens.unwrap_or(u32::MAX) {
                let generated = prepared.parked.take(Finish::Length);
                return self.record_turn(cx, prepared, generated, &[]);
            }
        }
        self.park(cx, prepared, aborted())
    }

    /// Waits before the engine is asked again, or gives the agent what there is.
    pub(super) fn park(
        &mut self,
        cx: &mut Context<'_>,
        mut prepared: Box<Prepared>,
        fault: Fault,
    ) -> Want {
        let now_ms = cx.now.mono_ms;
        self.tries = Tries::default();
        match prepared.parked.wait(cx.gatehouse.limits.park_ms, now_ms) {
            None => self.torso(cx, prepared, fault),
            Some(until_ms) => {
                self.passage.parks += 1;
                self.stage = Stage::Park(prepared);
                Want::Wait { ms: until_ms - now_ms }
            }
        }
    }

    /// A parked turn's wait is over, or another exchange is.
    pub(super) fn unpark(&mut self, cx: &mut Context<'_>, mut prepared: Box<Prepared>) -> Want {
        let left_ms = prepared.parked.until_ms.saturating_sub(cx.now.mono_ms);
        if left_ms > 0 {
            self.stage = Stage::Park(prepared);
            return Want::Wait { ms: left_ms };
        }
        let parked = &mut prepared.parked;
        parked.resends += 1;
        self.passage.resumptions += 1;
        let at = parked.ids.len() as u32;
        if at > 0 && parked.resumed_at.last() != Some(&at) {
            parked.resumed_at.push(at);
        }
        // An id of its own: the engine may not have done with the call before.
        prepared.call_id = format!("{:032x}", cx.random);
        self.call_engine(cx, prepared)
    }

    /// Asks the engine for the turn, or for the rest of it.
    pub(super) fn call_engine(&mut self, cx: &mut Context<'_>, prepared: Box<Prepared>) -> Want {
        let mut prompt = prepared
            .parent
            .map_or_else(Vec::new, |parent| cx.session.trajectory.text_through(parent));
        let sampled = prepared.parked.ids();
        prompt.push(prepared.stretch_text.clone());
        if !sampled.is_empty() {
            prompt.push(id_text::of(sampled));
        }
        let rest;
        let sampling = match sampled.len() as u32 {
            0 => &prepared.sampling,
            done => {
                rest = for_the_rest(&prepared.sampling, done);
                &rest
            }
        };
        let request = cx.gatehouse.engine.request(&EngineCall {
            model: &cx.gatehouse.engine_model,
            prompt: &prompt,
            sampling,
            max_tokens: sampling.max_tokens.unwrap_or(1),
            request_id: &prepared.call_id,
        });
        let reply = ReplyReader::new(cx.gatehouse.limits.engine_reply_bytes);
        self.tries.begin(cx.now.mono_ms);
        self.stage = Stage::Engine { prepared, reply };
        Want::Engine(request)
    }

    /// The turn ends with what there is of it: recorded, untrained. Without any, in this fault.
    pub(super) fn torso(
        &mut self,
        cx: &mut Context<'_>,
        mut prepared: Box<Prepared>,
        fault: Fault,
    ) -> Want {
        if prepared.parked.ids.is_empty() {
            return self.fail(cx, &fault);
        }
        if !self.given_up {
            self.fault = Some(fault);
        }
        let generated = prepared.parked.take(Finish::Abort);
        self.record_turn(cx, prepared, generated, &["aborted"])
    }
}

/// Whether a turn that is parked with ids waits out this fault.
pub(super) fn waits_out(fault: &Fault) -> bool {
    use FaultKind::{EngineBusy, EngineDown, EngineLimited};
    matches!(fault.kind, EngineBusy | EngineLimited | EngineDown)
}

fn aborted() -> Fault {
    let message = "the engine gave up on this answer again and again, or is paused (it may be \
                   taking new weights): send the request again later";
    Fault { retry_after_s: Some(5), ..Fault::new(FaultKind::EngineBusy, message) }
}

/// Sampling parameters for what follows the first `done` tokens.
fn for_the_rest(sampling: &Sampling, done: u32) -> Sampling {
    let mut rest = sampling.clone();
    rest.max_tokens = rest.max_tokens.map(|most| most.saturating_sub(done).max(1));
    for name in ["min_tokens", "min_new_tokens"] {
        if let Some(least) = rest.extra.get(name).and_then(serde_json::Value::as_u64) {
            let least = least.saturating_sub(u64::from(done));
            rest.extra.insert(name.to_owned(), least.into());
        }
    }
    rest
}

/// Whether the answer must follow a grammar from its first token on.
fn bound_by_grammar(sampling: &Sampling) -> bool {
    const GRAMMARS: [&str; 6] =
        ["structured_outputs", "json_schema", "regex", "ebnf", "structural_tag", "response_format"];
    let mut keys = sampling.extra.keys();
    keys.any(|key| GRAMMARS.contains(&key.as_str()) || key.starts_with("guided_"))
}
