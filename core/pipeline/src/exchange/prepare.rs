//! From a request's body to an engine call: read, match, render the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::aside::{EncodeJob, Encoded};
use super::budget::Reserved;
use super::counts::Counts;
use super::park::Parked;
use super::prompt::{draft, foreign_tokens, sent_before};
use super::{Context, Session};
use crate::fault::{Fault, Overflow};
use crate::http::Header;
use crate::id::{TokenId, TurnIndex};
use crate::protocol::Dialect;
use crate::record::Retention;
use crate::render::{Draft, HeadUse, Model, Stretch, TemplateClass};
use crate::scene::{Evidence, Instructions, Scene, Verdict};
use crate::trajectory::{Digest, Reader, Resume, Stem};
use crate::turn::{
    Asked, Message, Purpose, ReplyForm, Role, Sampling, ToolChoice, Tools, WireTools,
};

/// What is known of an exchange once its engine is called.
pub(super) struct Prepared {
    pub(super) parent: Option<TurnIndex>,
    pub(super) root: Digest,
    pub(super) verdict: Verdict,
    pub(super) stripped: u32,
    pub(super) tool_choice: ToolChoice,
    pub(super) parallel_tool_calls: Option<bool>,
    pub(super) skipped: BTreeMap<String, u32>,
    pub(super) wire_tools: WireTools,
    pub(super) purpose: Purpose,
    pub(super) echo: Map<String, Value>,
    pub(super) joined: Option<Digest>,
    pub(super) rules: Vec<String>,
    pub(super) anew: Option<String>,
    pub(super) context_diff_tokens: u32,
    pub(super) overlay_tokens: u32,
    pub(super) marker_conflicts: u32,
    pub(super) wrapped_instructions: u32,
    pub(super) elements: Vec<Digest>,
    /// The assistant's messages that the answer continues.
    pub(super) continued: Vec<Message>,
    /// Messages of the stretch.
    pub(super) messages: Vec<Message>,
    pub(super) tools: Tools,
    pub(super) loaded_tools: Tools,
    pub(super) template_kwargs: Map<String, Value>,
    pub(super) stretch: Vec<TokenId>,
    /// The same as it is sent.
    pub(super) stretch_text: Bytes,
    pub(super) foreign_tokens: u32,
    pub(super) prompt_tokens: u32,
    pub(super) sampling: Sampling,
    pub(super) asked_sampling: Sampling,
    /// Id of the exchange, in the record and in the answer.
    pub(super) request_id: String,
    /// Id of the call at the engine that is under way; the first call has `request_id`.
    pub(super) call_id: String,
    /// What earlier calls for this turn sampled.
    pub(super) parked: Parked,
    pub(super) _reserved: Reserved,
    /// The model name the agent used.
    pub(super) model: String,
    pub(super) form: ReplyForm,
    /// When the engine was called, in monotonic milliseconds.
    pub(super) called_mono_ms: u64,
}

impl Prepared {
    /// Ids of the prompt of the call that is under way: what earlier calls sampled is part of it.
    pub(super) fn sent_tokens(&self) -> u32 {
        self.prompt_tokens + self.parked.ids().len() as u32
    }
}

/// Who asks.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    /// Id of the exchange.
    pub(super) id: &'a str,
    pub(super) entry: Option<Scene>,
    pub(super) headers: &'a [Header],
    pub(super) dialect: Dialect,
}

/// Where a request goes on from in its session, and what it adds to the prompt.
pub(super) struct Extent {
    asked: Asked,
    root: Digest,
    resume: Resume,
    /// First message that is new.
    from: usize,
    verdict: Verdict,
    stripped: u32,
    /// Of the elements behind the match.
    elements: Vec<Digest>,
    continued: Vec<Message>,
    overlay_tokens: u32,
    anew: Option<&'static str>,
    head: HeadUse,
    /// What is still to be encoded.
    draft: Option<Draft>,
    /// What was.
    stretch: Stretch,
    /// Counted with it, where it was encoded beside the shard.
    foreign_tokens: Option<u32>,
}

impl Extent {
    /// How the agent wants its reply.
    pub(super) fn form(&self) -> ReplyForm {
        self.asked.form
    }

    /// The model name the agent used.
    pub(super) fn model(&self) -> &String {
        &self.asked.model
    }

    /// What became of the head of a prompt that was rendered whole.
    pub(super) fn head(&self) -> HeadUse {
        self.head
    }

    /// The job of encoding what it adds, where that takes long; [`Extent::put`] takes what comes.
    pub(super) fn job(&mut self, model: &Arc<Model>) -> Option<EncodeJob> {
        EncodeJob::of(model, &mut self.draft, &self.asked.messages[self.from..])
    }

    /// Takes what came of the job.
    pub(super) fn put(&mut self, encoded: Encoded) {
        self.stretch = encoded.stretch;
        self.foreign_tokens = Some(encoded.foreign_tokens);
    }

    /// The length of the prompt.
    pub(super) fn prompt_tokens(&mut self, cx: &Context<'_>) -> Result<u32, Fault> {
        if let Some(draft) = self.draft.take() {
            self.stretch = draft.encode(&cx.gatehouse.model)?;
        }
        let trajectory = &cx.session.trajectory;
        let before = self.resume.parent.map_or(0, |parent| trajectory.length_through(parent));
        Ok(before + self.stretch.ids.len() as u32)
    }
}

/// Matches what was asked with the session and renders what is new.
pub(super) fn extent(
    mut asked: Asked,
    asker: Asker<'_>,
    cx: &mut Context<'_>,
) -> Result<Extent, Fault> {
    let model = &cx.gatehouse.model;
    let session = &*cx.session;
    // What rules take away of the instructions is evidence too.
    let reads = session.scene_rules.reads_instructions() && asker.entry.is_none();
    let system = reads.then(|| session.recall.instructions(&asked.messages));
    let tools = &cx.desk.tool_digests(&asked.tools);
    let stem = Stem { model: &model.name, tools, template_kwargs: &asked.template_kwargs };
    let path = session.trajectory.path(stem, &mut asked.messages, session.habits());
    let eyes = Eyes { model, counts: &cx.desk.counts };
    let mut resume = session.trajectory.resume(&path, &asked.messages, &eyes);
    let mut from = match resume.parent {
        None => 0,
        Some(_) => path.first_message(resume.matched, asked.messages.len()),
    };
    let evidence = Evidence {
        entry: asker.entry,
        headers: asker.headers,
        dialect: asker.dialect,
        asked: &asked,
        system: system.as_ref().map_or("", Instructions::text),
        continues: resume.parent.is_some(),
        detected: session.detected,
    };
    let verdict = session.scene_rules.classify_again(&evidence, &session.recall, path.users());
    let anew = match resume.parent {
        None => None,
        Some(_) => anew(session, model, &asked.messages[from..]),
    };
    if anew.is_some() {
        (resume, from) = (Resume::default(), 0);
    }
    let (root, stripped) = (path.root, path.stripped);
    let elements = path.elements[resume.matched..].iter().map(|element| element.digest).collect();
    let continued = asked.messages[path.continued()].to_vec();
    let overlay_tokens = path.overlay_texts(from).map(|text| eyes.tokens(text)).sum();
    session.trajectory.keep(path);
    let (ids, draft) = match sent_before(&session.trajectory, &resume) {
        Some(ids) => (ids, None),
        None => {
            let draft = draft(session, &mut cx.desk.heads, model, &asked, &resume, from)?;
            (Vec::new(), Some(draft))
        }
    };
    let head = draft.as_ref().map_or(HeadUse::None, Draft::head);
    let stretch = Stretch { ids: ids.into(), marker_conflicts: 0 };
    let foreign_tokens = None;
    Ok(Extent {
        asked,
        root,
        resume,
        from,
        verdict,
        stripped,
        elements,
        continued,
        overlay_tokens,
        anew,
        head,
        draft,
        stretch,
        foreign_tokens,
    })
}

/// Everything that the engine's call and its record need. `room`: most tokens that the session's
/// budget allows.
pub(super) fn prepare(
    mut extent: Extent,
    room: u32,
    asker: Asker<'_>,
    cx: &mut Context<'_>,
) -> Result<Prepared, Fault> {
    let prompt_tokens = extent.prompt_tokens(cx)?;
    let counted = extent.foreign_tokens;
    let Extent { mut asked, root, resume, from, verdict, stripped, anew, stretch, .. } = extent;
    let Extent { elements, continued, overlay_tokens, .. } = extent;
    let Stretch { ids: stretch, marker_conflicts } = stretch;
    let model = &cx.gatehouse.model;
    let session = &*cx.session;
    let sampling = settle(&asked.sampling, session, model, Lengths { prompt_tokens, room })?;
    let reserved = session.reserve(sampling.max_tokens.unwrap_or_default());
    let foreign_tokens = match counted {
        Some(counted) => counted,
        None => foreign_tokens(model, &cx.desk.counts, &asked.messages[from..])?,
    };
    let asked_new = asked.messages.split_off(from);
    let stretch_text = stretch.text();
    Ok(Prepared {
        parent: resume.parent,
        root,
        verdict,
        stripped,
        tool_choice: asked.tool_choice,
        parallel_tool_calls: asked.parallel_tool_calls,
        skipped: asked.skipped,
        wire_tools: asked.wire_tools,
        purpose: asked.purpose,
        echo: asked.echo,
        joined: resume.joined,
        rules: resume.rules,
        anew: anew.map(str::to_owned),
        context_diff_tokens: resume.context_diff_tokens,
        overlay_tokens,
        marker_conflicts,
        wrapped_instructions: model.wrapped_instructions(after_leading(&asked_new, from)),
        elements,
        continued,
        messages: asked_new,
        tools: asked.tools,
        loaded_tools: asked.loaded_tools,
        template_kwargs: asked.template_kwargs,
        stretch: stretch.ids,
        stretch_text,
        foreign_tokens,
        prompt_tokens,
        sampling,
        asked_sampling: asked.sampling,
        request_id: asker.id.to_owned(),
        call_id: asker.id.to_owned(),
        parked: Parked::default(),
        _reserved: reserved,
        model: asked.model,
        form: asked.form,
        called_mono_ms: cx.now.mono_ms,
    })
}

/// Why a request that could be continued with `new` is rendered from its start all the same, in the
/// word that the record has for it.
///
/// Where the template leaves out earlier reasoning once a person speaks again, that is up to the
/// session's retention (which follows the template by default where history is faithful).
fn anew(session: &Session, model: &Model, new: &[Message]) -> Option<&'static str> {
    let follows = session.retention() == Retention::Template;
    match model.class {
        TemplateClass::RewritesHistory => Some("rewrites"),
        _ if follows && model.changes_past(new) => Some("template"),
        TemplateClass::AppendOnly | TemplateClass::AppendOnlyInToolCycle => None,
    }
}

/// The served model as matching sees it.
struct Eyes<'a> {
    model: &'a Model,
    counts: &'a Counts,
}

impl Reader for Eyes<'_> {
    fn reads_as(&self, sent: &Message, sampled: &[TokenId]) -> bool {
        self.model.reads_as(sent, sampled)
    }

    fn tokens(&self, text: &str) -> u32 {
        // Too many rather than none: a text that cannot be counted must not look unchanged.
        let most = || u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.counts.tokens(self.model, text).unwrap_or_else(|_| most())
    }
}

/// The messages behind the leading instructions, where these are the first of a conversation.
fn after_leading(new: &[Message], from: usize) -> &[Message] {
    let instructs = |message: &&Message| matches!(message.role, Role::System | Role::Developer);
    let leading = if from == 0 { new.iter().take_while(instructs).count() } else { 0 };
    &new[leading..]
}

/// Parameters that have a name of their own: an agent cannot set them behind the session's back by
/// naming them among the engine's switches.
const NAMED: [&str; 25] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "max_tokens",
    "max_new_tokens",
    "seed",
    "sampling_seed",
    "stop",
    "n",
    "logprobs",
    "prompt_logprobs",
    "truncate_prompt_tokens",
    // Parts of the call itself.
    "prompt",
    "prompt_embeds",
    "model",
    "request_id",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "stream",
    "echo",
    "suffix",
    "best_of",
];

/// What bounds an answer's length.
struct Lengths {
    prompt_tokens: u32,
    /// Most tokens that the session's budget allows.
    room: u32,
}

/// Pinned sampling laid over the agent's, with the budget that context and session leave. What
/// nobody set is the model's own distribution, said outright: engines have defaults of their own
/// (`generation_config.json`), and a sample must say what it was drawn from.
fn settle(
    asked: &Sampling,
    session: &Session,
    model: &Model,
    Lengths { prompt_tokens, room: budget }: Lengths,
) -> Result<Sampling, Fault> {
    let mut sampling = asked.clone();
    sampling.extra.retain(|key, _| !NAMED.contains(&key.as_str()));
    let mut sampling = sampling.pinned_by(&session.options().sampling);
    sampling.temperature.get_or_insert(1.0);
    sampling.top_p.get_or_insert(1.0);
    sampling.top_k.get_or_insert(-1);
    sampling.min_p.get_or_insert(0.0);
    let room = model.max_context.saturating_sub(prompt_tokens);
    if room == 0 {
        return Err(Fault::overflow(Overflow { prompt_tokens, max_context: model.max_context }));
    }
    let budget = room.min(budget);
    sampling.max_tokens = Some(sampling.max_tokens.map_or(budget, |asked| asked.min(budget)));
    Ok(sampling)
}
