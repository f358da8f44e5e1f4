//! A served model's text side: tokenizer, template, markers.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::control::{ControlTexts, GUARDS, Guard};
use super::conversation::{self, Constants};
use super::files::Settings;
use super::probe::{self, TurnEnd};
use super::template::Template;
use super::{FastTokenizer, Tokenizer};
use crate::fault::{Fault, FaultKind};
use crate::id::TokenId;
use crate::turn::{Message, Tool};

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
    /// `config.json` (vocabulary size, context length).
    pub config: Option<Vec<u8>>,
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

/// Which grammar the model's output follows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    /// Hermes JSON calls in `<tool_call>`, reasoning in `<think>` (Qwen3, Qwen2.5, Hermes).
    Qwen3,
    /// XML calls in `<tool_call>` (Qwen3-Coder, Qwen3.5 and later).
    Qwen3Coder,
    /// Calls as `function` + name + fenced JSON between DeepSeek's markers (V3, R1).
    DeepSeekV3,
    /// Calls as name + JSON between DeepSeek's markers (V3.1).
    DeepSeekV31,
    /// Bare JSON or `<|python_tag|>` (Llama 3.1 and later 3.x).
    Llama31,
    /// Channels of gpt-oss.
    Harmony,
    /// `<arg_key>`/`<arg_value>` pairs in `<tool_call>` (GLM 4.5 and later).
    Glm45,
    /// Kimi K2's sections.
    KimiK2,
    /// `<minimax:tool_call>` with `<invoke>`.
    MiniMaxM2,
    /// `[TOOL_CALLS]`, old and new form.
    Mistral,
}

/// What a chat template does to history when messages are added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TemplateClass {
    /// Nothing: a longer conversation begins with the shorter one.
    AppendOnly,
    /// Nothing as long as only tool results follow; a new user message changes earlier turns.
    AppendOnlyInToolCycle,
    /// It changes earlier turns always: every turn is rendered whole and is a segment of its own.
    RewritesHistory,
}

impl TemplateClass {
    /// The name used in messages and reports.
    pub fn name(self) -> &'static str {
        match self {
            TemplateClass::AppendOnly => "append_only",
            TemplateClass::AppendOnlyInToolCycle => "append_only_in_tool_cycle",
            TemplateClass::RewritesHistory => "rewrites_history",
        }
    }
}

/// Ids of the marker tokens, where the vocabulary has them as added tokens.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Markers {
    /// Ends a turn (`<|im_end|>`).
    pub close: TokenId,
    /// Opens reasoning (`<think>`).
    pub think_open: Option<TokenId>,
    /// Ends reasoning (`</think>`).
    pub think_close: Option<TokenId>,
    /// Opens a tool call (`<tool_call>`).
    pub call_open: Option<TokenId>,
    /// Ends a tool call (`</tool_call>`).
    pub call_close: Option<TokenId>,
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
    pub(super) template: Template,
    pub(super) constants: Constants,
    pub(super) turn_end: TurnEnd,
    pub(super) control: ControlTexts,
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
        let family = family_of(&settings.template)?;
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
        let template = Template::compile(&settings.template)
            .map_err(unusable("the chat template does not compile"))?;
        let mut model = Model {
            name: files.name,
            family,
            markers: markers_of(&tokenizer),
            max_context: settings.max_context,
            vocab_size,
            tokenizer_digest: blake3::hash(&files.tokenizer).to_hex().to_string(),
            template_digest: blake3::hash(settings.template.as_bytes()).to_hex().to_string(),
            notes: settings.notes,
            class: TemplateClass::AppendOnly,
            constants: Constants {
                tokens: settings.tokens,
                knows_developer: true,
                splits_thinking: tokenizer.added("</think>").is_some(),
            },
            turn_end: TurnEnd::default(),
            control: ControlTexts::new(tokenizer.all_added()),
            inject_engine: files.inject_engine,
            template,
            tokenizer: Arc::new(tokenizer),
        };
        probe::run(&mut model).map_err(unusable("the chat template cannot be served"))?;
        Ok(model)
    }

    /// Ids of a whole conversation, generation prompt included.
    pub fn first(
        &self,
        messages: &[Message],
        tools: &[Tool],
        kwargs: &Map<String, Value>,
    ) -> Result<Vec<TokenId>, Fault> {
        let messages: Vec<&Message> = messages.iter().collect();
        let (text, guard) = self.render(&messages, tools, kwargs)?;
        let mut ids = Vec::new();
        self.encode(&text, &guard, &mut ids)?;
        Ok(ids)
    }

    /// Whether the template changes earlier turns of a conversation that these messages follow.
    pub fn changes_past(&self, new: &[Message]) -> bool {
        let person = new.iter().any(|message| message.role == crate::turn::Role::User);
        match self.class {
            TemplateClass::AppendOnly => false,
            TemplateClass::AppendOnlyInToolCycle => person,
            TemplateClass::RewritesHistory => true,
        }
    }

    /// Whether the template writes this assistant message as the text that `sampled` spells.
    pub fn reads_as(&self, _sent: &Message, _sampled: &[TokenId]) -> bool {
        false
    }

    /// Appends the text bytes of ids, markers included.
    pub fn detokenize(&self, ids: &[TokenId], out: &mut Vec<u8>) {
        for bytes in ids.iter().filter_map(|id| self.tokenizer.bytes_of(*id)) {
            out.extend_from_slice(bytes);
        }
    }

    /// Renders, generation prompt included, with a guard that collides with nothing.
    pub(super) fn render(
        &self,
        messages: &[&Message],
        tools: &[Tool],
        kwargs: &Map<String, Value>,
    ) -> Result<(String, Guard<'_>), Fault> {
        let texts = (!self.inject_engine).then_some(&self.control);
        for attempt in 0..GUARDS {
            let guard = Guard::new(texts, attempt);
            let variables =
                conversation::variables(&self.constants, messages, tools, kwargs, &guard);
            if !guard.collided() {
                return Ok((self.template.render(&variables)?, guard));
            }
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
        guard: &Guard<'_>,
        out: &mut Vec<TokenId>,
    ) -> Result<(), Fault> {
        let tokenizer = self.tokenizer.as_ref();
        let encoded = match guard.placed() {
            true => self.control.encode_guarded(tokenizer, text, guard, out),
            false => tokenizer.encode(text, super::ControlText::Match, out),
        };
        encoded.map_err(|reason| {
            Fault::new(FaultKind::Internal, format!("the tokenizer failed on a prompt: {reason}"))
        })
    }
}

fn family_of(template: &str) -> Result<Family, ModelError> {
    let reason = if !template.contains("<tool_call>") {
        "its chat template has no <tool_call>"
    } else if template.contains("<function=") {
        "its chat template asks for calls in XML (<function=…>)"
    } else {
        return Ok(Family::Qwen3);
    };
    Err(ModelError::Unusable(format!(
        "{reason}. Served are models that write calls as JSON in <tool_call> (Qwen3, Qwen2.5, \
         Hermes)"
    )))
}

fn markers_of(tokenizer: &FastTokenizer) -> Markers {
    Markers {
        close: 0,
        think_open: tokenizer.added("<think>"),
        think_close: tokenizer.added("</think>"),
        call_open: tokenizer.added("<tool_call>"),
        call_close: tokenizer.added("</tool_call>"),
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
