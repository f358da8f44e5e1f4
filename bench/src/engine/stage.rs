//! The scripted engine's state, and what a generation call does with it. Knows no HTTP shape.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rollgate_pipeline::id::TokenId;
use rollgate_pipeline::render::{ControlText, Model};
use rollgate_pipeline::turn::Finish;

use super::choose::Chosen;
use super::compose::{Composed, Composer, Thinking};
use super::ledger::{Ledger, RecordedCall, add};
use super::prefix::PrefixCache;
use super::score::Context;
use super::script::{Script, ScriptError, ScriptedFault, ScriptedReply};
use super::signal::Signal;
use super::unfinished::Unfinished;
use super::{EngineConfig, Shape};

/// What a generation call asks for, checked against the model's bounds.
pub(super) struct Ask {
    pub(super) request_id: String,
    pub(super) prompt: Vec<TokenId>,
    pub(super) max_tokens: usize,
    pub(super) stop: Vec<String>,
    pub(super) stop_ids: Vec<TokenId>,
    pub(super) salt: String,
    /// Whether the prompt's own log-probabilities are asked for: they are not in the cache.
    pub(super) scores_prompt: bool,
}

/// Why sampling stopped, where it was not the end-of-turn token by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum StoppedBy {
    Nothing,
    Id(TokenId),
    Text(String),
}

/// What was sampled.
pub(super) struct Sampled {
    pub(super) ids: Vec<TokenId>,
    pub(super) logprobs: Vec<f32>,
    pub(super) finish: Finish,
    pub(super) stopped_by: StoppedBy,
    pub(super) cached: u32,
    pub(super) version: String,
    pub(super) fault: Option<ScriptedFault>,
}

/// The state of one engine; lives on its thread.
pub(super) struct Stage {
    pub(super) model: Arc<Model>,
    pub(super) script: Script,
    pub(super) ledger: Arc<Ledger>,
    version: String,
    seed: u64,
    composer: Composer,
    /// Ids that open an assistant turn.
    opening: Vec<TokenId>,
    /// By place of the reply and state of reasoning.
    composed: HashMap<(usize, Thinking), Composed>,
    chosen: Chosen,
    /// How often each reply was given.
    given: RefCell<Vec<u32>>,
    cache: RefCell<PrefixCache>,
    calls: Cell<u64>,
    unfinished: RefCell<Unfinished>,
    /// By place of the reply: since when its calls meet a paused engine.
    paused: RefCell<HashMap<usize, Instant>>,
    /// Whether calls to a paused engine wait, instead of being refused.
    waits_paused: bool,
    running: RefCell<HashMap<String, Rc<Signal>>>,
}

impl Stage {
    /// Composes every reply of the script, so that one the model cannot say is found at the start.
    pub(super) fn new(config: EngineConfig, ledger: Arc<Ledger>) -> Result<Self, ScriptError> {
        config.script.check()?;
        let EngineConfig { model, script, seed, version, block_tokens, shape, .. } = config;
        let composer = Composer::new(&model);
        let mut composed = HashMap::new();
        let mut given = 0;
        for (place, (at, reply)) in script.named_replies().enumerate() {
            given = place + 1;
            for thinking in Thinking::ALL {
                let sense = |reason| ScriptError::Sense { at: at.clone(), reason };
                let ids = composer.composed(&model, reply, thinking).map_err(sense)?;
                if reply.non_canonical > 0 && ids.places.is_empty() {
                    return Err(sense("no token of it can be said in two pieces".to_owned()));
                }
                composed.insert((place, thinking), ids);
            }
        }
        let mut opening = Vec::new();
        let text = "<|im_start|>assistant";
        model
            .tokenizer
            .encode(text, ControlText::Match, &mut opening)
            .map_err(|reason| ScriptError::Sense { at: "the model".to_owned(), reason })?;
        Ok(Self {
            chosen: Chosen::default(),
            given: RefCell::new(vec![0; given]),
            cache: RefCell::new(PrefixCache::new(block_tokens)),
            calls: Cell::new(0),
            unfinished: RefCell::default(),
            paused: RefCell::default(),
            waits_paused: shape == Shape::Sglang,
            running: RefCell::default(),
            model,
            script,
            ledger,
            version,
            seed,
            composer,
            opening,
            composed,
        })
    }

    /// Plays one generation call: chooses, waits, samples. An error is the script's: no reply fits.
    pub(super) async fn play(&self, ask: &Ask) -> Result<Sampled, String> {
        let (model, opening) = (&self.model, &self.opening);
        let (place, reply) = self.chosen.choose(&self.script, model, opening, &ask.prompt)?;
        let counters = &self.ledger.counters;
        add(&counters.calls, 1);
        add(&counters.prompt_tokens, ask.prompt.len() as u64);
        let (version, fault) = self.given(place, reply);
        self.calls.set(self.calls.get() + 1);
        let fault = self.pause(place, fault).await;
        let context = Context::new(self.seed).over(&ask.prompt);
        let said = self.unfinished.borrow().rest(&ask.prompt);
        let said = said.unwrap_or_else(|| self.ids(place, reply, ask, context));
        let mut ids = said.clone();
        let (mut finish, mut stopped_by) = self.cut(reply, ask, &mut ids);
        let mut end = self.wait(ask, reply.delay_ms).await.map(|share| {
            add(&counters.aborted, 1);
            (ids.len() as f64 * share) as usize
        });
        if let Some(ScriptedFault::AbortAfterTokens(count)) = fault {
            end = Some(end.unwrap_or(count).min(count)).filter(|end| *end < ids.len());
        }
        if let Some(end) = end {
            ids.truncate(end);
            (finish, stopped_by) = (Finish::Abort, StoppedBy::Nothing);
            self.unfinished.borrow_mut().keep(&ask.prompt, &said, end);
        }
        let cached = self.cache(ask, &ids);
        add(&counters.cached_tokens, u64::from(cached));
        let logprobs = score(context, &ids);
        self.ledger.keep(RecordedCall {
            request_id: ask.request_id.clone(),
            prompt: ask.prompt.clone(),
            ids: ids.clone(),
            logprobs: logprobs.clone(),
            finish,
            version: version.clone(),
            fault: fault.as_ref().map(ScriptedFault::name),
            answered: fault.as_ref().is_none_or(ScriptedFault::answers),
        });
        add(&counters.sampled_tokens, ids.len() as u64);
        let mut sampled = Sampled { ids, logprobs, finish, stopped_by, cached, version, fault };
        self.spoil(&mut sampled);
        Ok(sampled)
    }

    /// Log-probabilities of the prompt's ids; the first has none.
    pub(super) fn score_prompt(&self, prompt: &[TokenId]) -> Vec<f32> {
        match prompt.split_first() {
            Some((first, rest)) => score(Context::new(self.seed).then(*first), rest),
            None => Vec::new(),
        }
    }

    /// Label of the weights that the next call will meet.
    pub(super) fn version_now(&self) -> &str {
        self.script.version_at(self.calls.get()).unwrap_or(&self.version)
    }

    /// Aborts a call that waits for its delay; unknown ids are ignored.
    pub(super) fn abort(&self, request_id: &str) {
        if let Some(signal) = self.running.borrow().get(request_id) {
            signal.raise();
        }
    }

    /// Aborts every call that waits for its delay.
    pub(super) fn abort_all(&self) {
        self.running.borrow().values().for_each(|signal| signal.raise());
    }

    /// The text of ids, markers included; bytes that are not UTF-8 are replaced.
    pub(super) fn text(&self, ids: &[TokenId]) -> String {
        let mut bytes = Vec::new();
        self.model.detokenize(ids, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Counts a call that gets this reply: label of the weights, and the fault.
    fn given(&self, place: usize, reply: &ScriptedReply) -> (String, Option<ScriptedFault>) {
        let mut given = self.given.borrow_mut();
        let before = given.get_mut(place).map_or(0, |count| std::mem::replace(count, *count + 1));
        let last = reply.versions.len().saturating_sub(1);
        let version = reply.versions.get(last.min(before as usize));
        let version = version.map_or_else(|| self.version_now(), String::as_str).to_owned();
        let fault = reply.fault.clone().filter(|_| reply.times.is_none_or(|times| before < times));
        add(&self.ledger.counters.forced_faults, u64::from(fault.is_some()));
        (version, fault)
    }

    /// Waits out a pause where calls do that; the fault that remains.
    async fn pause(&self, place: usize, fault: Option<ScriptedFault>) -> Option<ScriptedFault> {
        let Some(ScriptedFault::PausedMs(ms)) = fault else { return fault };
        let since = *self.paused.borrow_mut().entry(place).or_insert_with(Instant::now);
        let left = Duration::from_millis(ms).saturating_sub(since.elapsed());
        if self.waits_paused {
            monoio::time::sleep(left).await;
            return None;
        }
        fault.filter(|_| !left.is_zero())
    }

    fn ids(
        &self,
        place: usize,
        reply: &ScriptedReply,
        ask: &Ask,
        context: Context,
    ) -> Vec<TokenId> {
        let thinking = Thinking::of(&self.model, &ask.prompt, &self.opening);
        match self.composed.get(&(place, thinking)) {
            Some(composed) if reply.non_canonical > 0 => {
                let draw = context.number();
                self.composer.split(&self.model, composed, reply.non_canonical, draw)
            }
            Some(composed) => composed.ids.clone(),
            // Every reply was composed at the start.
            None => Vec::new(),
        }
    }

    /// Ends the ids where a stop token, a stop text or the budget ends them.
    fn cut(&self, reply: &ScriptedReply, ask: &Ask, ids: &mut Vec<TokenId>) -> (Finish, StoppedBy) {
        let mut end = (reply.finish(), StoppedBy::Nothing);
        if let Some(at) = ids.iter().position(|id| ask.stop_ids.contains(id)) {
            ids.truncate(at + 1);
            end = (Finish::Stop, StoppedBy::Id(ids[at]));
        }
        if let Some((at, text)) = self.stop_text(&ask.stop, ids) {
            ids.truncate(at + 1);
            end = (Finish::Stop, StoppedBy::Text(text));
        }
        if ids.len() > ask.max_tokens {
            ids.truncate(ask.max_tokens);
            end = (Finish::Length, StoppedBy::Nothing);
        }
        end
    }

    /// The first id that completes one of the stop texts.
    fn stop_text(&self, stops: &[String], ids: &[TokenId]) -> Option<(usize, String)> {
        if stops.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        ids.iter().enumerate().find_map(|(at, id)| {
            self.model.detokenize(&[*id], &mut bytes);
            let has = |stop: &&String| {
                !stop.is_empty() && bytes.windows(stop.len()).any(|part| part == stop.as_bytes())
            };
            stops.iter().find(has).map(|stop| (at, stop.clone()))
        })
    }

    /// Waits; when aborted meanwhile, the share of the wait that had passed.
    async fn wait(&self, ask: &Ask, delay_ms: u64) -> Option<f64> {
        if delay_ms == 0 {
            return None;
        }
        let signal = Rc::new(Signal::default());
        self.running.borrow_mut().insert(ask.request_id.clone(), Rc::clone(&signal));
        add(&self.ledger.counters.running, 1);
        let (started, delay) = (Instant::now(), Duration::from_millis(delay_ms));
        monoio::select! {
            () = monoio::time::sleep(delay) => {}
            () = signal.wait() => {}
        }
        self.running.borrow_mut().remove(&ask.request_id);
        self.ledger.counters.running.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        let share = started.elapsed().as_secs_f64() / delay.as_secs_f64();
        signal.is_raised().then_some(share.min(1.0))
    }

    fn cache(&self, ask: &Ask, ids: &[TokenId]) -> u32 {
        let cached = self.cache.borrow_mut().take(&ask.salt, &ask.prompt, ids);
        if ask.scores_prompt { 0 } else { cached }
    }

    /// Puts a fault on what was sampled, where the fault is one of numbers.
    fn spoil(&self, sampled: &mut Sampled) {
        match sampled.fault {
            Some(ScriptedFault::BadId) => {
                if let Some(first) = sampled.ids.first_mut() {
                    *first = self.model.vocab_size + 7;
                }
            }
            Some(ScriptedFault::WrongLengths) => {
                sampled.logprobs.pop();
            }
            _ => {}
        }
    }
}

/// Log-probabilities of ids that follow a context.
fn score(mut context: Context, ids: &[TokenId]) -> Vec<f32> {
    let logprobs = ids.iter().map(|id| {
        let logprob = context.logprob(*id);
        context = context.then(*id);
        logprob
    });
    logprobs.collect()
}
