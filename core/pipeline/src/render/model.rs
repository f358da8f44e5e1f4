//! A served model's text side: tokenizer, template, markers.

use std::sync::Arc;

use serde_json::Map;

use super::class::{Counterexample, Rewriters, TemplateClass};
use super::control::{ControlTexts, GUARDS, Guard, Marks};
use super::conversation::{Constants, Conversation, Forms};
use super::family::{Family, Markers};
use super::files::Settings;
use super::heads::Cutter;
use super::probe;
use super::ready::ReadyTools;
use super::renderer::Renderer;
use super::stretch;
use super::template::Template;
use super::turn_end::TurnEnd;
use super::{FastTokenizer, Tokenizer};
use crate::fault::{Fault, FaultKind};
use crate::id::TokenId;
use crate::turn::Tool;

/// Contents of a model directory's files.
#[derive(Clone, Debug, Default)]
pub struct ModelFiles {
    /// Name to serve it under.
    pub name: String,
    /// `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// `tokenizer_config.json`.
    pub tokenizer_config: Vec<u8>,
    /// `chat_template.jinja`, which wins over the config's `chat_template`.
    pub template: Option<String>,
    /// `config.json` (vocabulary size, context length, end tokens).
    pub config: Option<Vec<u8>>,
    /// `generation_config.json` (end tokens).
    pub generation_config: Option<Vec<u8>>,
    /// Context length set by the user; wins over the files.
    pub max_context: Option<u32>,
    /// Treat control text in messages as control tokens, as engines do (`inject = "engine"`).
    pub inject_engine: bool,
}

/// Why a model cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The reason, and what to do about it.
    #[error("{0}")]
    Unusable(String),
}

/// A model ready to serve.
pub struct Model {
    /// Name it is served under.
    pub name: String,
    /// Grammar of its output.
    pub family: Family,
    /// Its marker tokens.
    pub markers: Markers,
    /// Longest prompt plus answer, in tokens.
    pub max_context: u32,
    /// Ids are below this.
    pub vocab_size: u32,
    /// blake3 of `tokenizer.json` in hex.
    pub tokenizer_digest: String,
    /// blake3 of the template in hex.
    pub template_digest: String,
    /// Its tokenizer.
    pub tokenizer: Arc<dyn Tokenizer>,
    /// What its template does to history.
    pub class: TemplateClass,
    /// What a person should know about its files, though it does not stop serving.
    pub notes: Vec<String>,
    pub(super) renderer: Renderer,
    pub(super) constants: Constants,
    pub(super) rewriters: Rewriters,
    pub(super) counterexample: Option<Counterexample>,
    pub(super) turn_end: TurnEnd,
    pub(super) control: ControlTexts,
    pub(super) cutter: Cutter,
    /// One tool that stands for all, where they show in the header only.
    pub(super) stub: Option<ReadyTools>,
    inject_engine: bool,
}

impl Model {
    /// Loads and probes a model. Costs up to seconds.
    pub fn load(files: ModelFiles) -> Result<Model, ModelError> {
        let settings = Settings::read(&files)?;
        let unusable = |what: &str| {
            let what = what.to_owned();
            move |reason: String| ModelError::Unusable(format!("{what}: {reason}"))
        };
        let tokenizer = FastTokenizer::load(&files.tokenizer)
            .map_err(unusable("tokenizer.json cannot be served"))?;
        let vocab_size = vocab_size(&settings, &tokenizer)?;
        if let Some(token) = tokenizer.all_added().iter().find(|token| token.contextual)
            && !files.inject_engine
        {
            return Err(ModelError::Unusable(format!(
                "added token {:?} depends on its neighbours, so control text cannot be kept plain: \
                 set inject = \"engine\" to serve the model without that protection",
                token.text
            )));
        }
        let added = tokenizer.all_added();
        let family =
            Family::detect(settings.template.as_deref(), added).map_err(ModelError::Unusable)?;
        let mut notes = settings.notes;
        let source = settings.template.filter(|_| family != Family::Harmony);
        let renderer = match &source {
            None => {
                notes.push("prompts are written by code; a chat template is not used".to_owned());
                Renderer::Harmony
            }
            Some(source) => {
                let compiled = Template::compile(source);
                let template = compiled.map_err(unusable("the chat template does not compile"))?;
                Renderer::Template(Box::new(template))
            }
        };
        let written = source.as_deref().unwrap_or("harmony");
        let mut model = Model {
            name: files.name,
            family,
            markers: Markers::find(family, added),
            max_context: settings.max_context,
            vocab_size,
            tokenizer_digest: blake3::hash(&files.tokenizer).to_hex().to_string(),
            template_digest: blake3::hash(written.as_bytes()).to_hex().to_string(),
            notes,
            class: TemplateClass::AppendOnly,
            constants: Constants {
                tokens: settings.tokens,
                switches: Map::new(),
                splits_thinking: tokenizer.added("</think>").is_some(),
                forms: Forms::default(),
            },
            rewriters: Rewriters::default(),
            counterexample: None,
            turn_end: TurnEnd::default(),
            control: ControlTexts::new(tokenizer.all_added()),
            cutter: Cutter::new(tokenizer.firm().to_vec()),
            stub: None,
            inject_engine: files.inject_engine,
            renderer,
            tokenizer: Arc::new(tokenizer),
        };
        model.stub = model.ready(&[stretch::stub()]);
        probe::run(&mut model).map_err(unusable("the chat template cannot be served"))?;
        model.markers.ends = model.ends(&settings.ends);
        Ok(model)
    }

    /// A copy that shares nothing with this one that rendering or encoding writes to (not even counts
    /// of references): one for each thread that does much of both. Costs as much as loading the
    /// tokenizer, up to a second.
    pub fn separate(&self) -> Result<Model, ModelError> {
        let broken = |reason| ModelError::Unusable(format!("a model cannot be copied: {reason}"));
        let tokenizer = self.tokenizer.separate().map_err(broken)?;
        let mut copy = Model {
            name: self.name.clone(),
            markers: self.markers.clone(),
            tokenizer_digest: self.tokenizer_digest.clone(),
            template_digest: self.template_digest.clone(),
            tokenizer: tokenizer.unwrap_or_else(|| self.tokenizer.clone()),
            notes: self.notes.clone(),
            renderer: self.renderer.separate().map_err(broken)?,
            constants: self.constants.clone(),
            counterexample: self.counterexample.clone(),
            turn_end: self.turn_end.clone(),
            control: self.control.clone(),
            cutter: self.cutter.clone(),
            stub: None,
            ..*self
        };
        copy.stub = copy.ready(&[stretch::stub()]);
        Ok(copy)
    }

    /// Ids that end a generation: what closes a turn, and what the files say.
    fn ends(&self, in_files: &[TokenId]) -> Vec<TokenId> {
        let closers = self.turn_end.closers.iter().map(|(_, id)| *id);
        // `<|end|>` ends a message of gpt-oss, and another may follow.
        let message_end =
            self.tokenizer.added("<|end|>").filter(|_| self.family == Family::Harmony);
        let mut ends = Vec::new();
        for id in closers.chain(in_files.iter().copied()) {
            if id < self.vocab_size && Some(id) != message_end && !ends.contains(&id) {
                ends.push(id);
            }
        }
        ends
    }

    /// Appends the text bytes of ids, markers included.
    pub fn detokenize(&self, ids: &[TokenId], out: &mut Vec<u8>) {
        for bytes in ids.iter().filter_map(|id| self.tokenizer.bytes_of(*id)) {
            out.extend_from_slice(bytes);
        }
    }

    /// Tools in the form in which they are rendered; `None` where they cannot be made ready.
    pub(super) fn ready(&self, tools: &[Tool]) -> Option<ReadyTools> {
        ReadyTools::new(tools, self.guarded(), matches!(self.renderer, Renderer::Harmony))
    }

    /// The texts that are guarded in what comes from outside.
    fn guarded(&self) -> Option<&ControlTexts> {
        (!self.inject_engine).then_some(&self.control)
    }

    /// Renders with a guard that collides with nothing.
    pub(super) fn render(
        &self,
        conversation: &Conversation<'_>,
    ) -> Result<(String, Guard<'_>), Fault> {
        let mut conversation = *conversation;
        for attempt in 0..GUARDS {
            let guard = Guard::new(self.guarded(), attempt);
            let text = self.renderer.render(&self.constants, &conversation, &guard);
            if !guard.collided() {
                return Ok((text?, guard));
            }
            // What is ready has the marks of the first guard.
            conversation.ready = None;
        }
        Err(Fault::new(
            FaultKind::BadRequest,
            "the conversation holds every private-use character, so control text in it cannot be \
             told from the template's: remove some",
        ))
    }

    /// Appends the ids of rendered text.
    pub(super) fn encode(
        &self,
        text: &str,
        marks: Marks,
        out: &mut Vec<TokenId>,
    ) -> Result<(), Fault> {
        let tokenizer = self.tokenizer.as_ref();
        let encoded = match marks.placed() {
            true => self.control.encode_guarded(tokenizer, text, &marks, out),
            false => tokenizer.encode(text, super::ControlText::Match, out),
        };
        encoded.map_err(|reason| {
            Fault::new(FaultKind::Internal, format!("the tokenizer failed on a prompt: {reason}"))
        })
    }
}

/// The engine's vocabulary may be padded beyond the tokenizer's, never smaller.
fn vocab_size(settings: &Settings, tokenizer: &FastTokenizer) -> Result<u32, ModelError> {
    match settings.vocab_size {
        Some(size) if size < tokenizer.size() => Err(ModelError::Unusable(format!(
            "config.json says vocab_size {size}, but tokenizer.json has ids up to {}: they belong \
             to different models",
            tokenizer.size() - 1
        ))),
        Some(size) => Ok(size),
        None => Ok(tokenizer.size()),
    }
}
