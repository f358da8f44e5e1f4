//! The protocol-free form of an exchange: what was asked, what was generated, what is answered.
//!
//! Dialects are folded into this form and made from it; nothing here knows a dialect, a model
//! family or an engine.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::id::TokenId;

/// Who speaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Standing instructions.
    System,
    /// Standing instructions, under OpenAI's newer name.
    Developer,
    /// The person, or what the agent puts in their place.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// The name that templates and dialects use.
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::Developer => "developer",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// A tool call of an assistant message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id that ties a result to the call.
    pub id: String,
    /// Name of the function.
    pub name: String,
    /// Arguments as JSON text, as written by the model or echoed by the agent.
    pub arguments: String,
}

impl ToolCall {
    /// The arguments as JSON text that can be read: none at all are an empty object.
    pub fn readable_arguments(&self) -> &str {
        if self.arguments.trim().is_empty() { "{}" } else { &self.arguments }
    }
}

/// One message of the canonical (Chat) form. Text only: what a model cannot take is counted.
///
/// A handle: copies share what they say, so that history is not copied from turn to turn. Writing
/// to a shared one makes it a message of its own first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Message(Arc<MessageFields>);

/// What a [`Message`] says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageFields {
    /// Who speaks.
    pub role: Role,
    /// Text blocks joined in order. Empty when there is none.
    #[serde(default)]
    pub content: String,
    /// Reasoning of an assistant message, where the agent sent it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Tool calls of an assistant message, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// How many images or other media parts were left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub media_dropped: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Message {
    /// A message with text only.
    pub fn text(role: Role, content: impl Into<String>) -> Self {
        MessageFields::text(role, content).into()
    }

    /// What it says, to make another message of.
    pub fn into_fields(self) -> MessageFields {
        Arc::unwrap_or_clone(self.0)
    }

    /// Whether both are copies of one message. Then they are equal; others may be, too.
    pub fn is_copy_of(&self, other: &Message) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl MessageFields {
    /// Those of a message with text only.
    pub fn text(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            reasoning: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            media_dropped: 0,
        }
    }
}

impl From<MessageFields> for Message {
    fn from(fields: MessageFields) -> Self {
        Self(Arc::new(fields))
    }
}

impl Deref for Message {
    type Target = MessageFields;

    fn deref(&self) -> &MessageFields {
        &self.0
    }
}

impl DerefMut for Message {
    fn deref_mut(&mut self) -> &mut MessageFields {
        Arc::make_mut(&mut self.0)
    }
}

/// The tools of a request. A handle: copies share them.
#[derive(Clone, Debug, Default)]
pub struct Tools(Arc<Offer>);

#[derive(Debug, Default)]
struct Offer {
    list: Vec<Tool>,
    /// The list as JSON, once it is known to be written more than once.
    json: OnceLock<Box<RawValue>>,
}

impl Tools {
    /// Whether both are copies of one list. Then they are equal; others may be, too.
    pub fn is_copy_of(&self, other: &Tools) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Keeps the list as JSON, too: many sessions offer one list, and each records it.
    pub(crate) fn keep_json(&self) {
        // What cannot be spelled fails where it is recorded.
        if self.0.json.get().is_none()
            && let Ok(json) = serde_json::value::to_raw_value(&self.0.list)
        {
            self.0.json.get_or_init(|| json);
        }
    }
}

impl PartialEq for Tools {
    fn eq(&self, other: &Self) -> bool {
        self.is_copy_of(other) || self.0.list == other.0.list
    }
}

impl Serialize for Tools {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.json.get() {
            Some(json) => json.serialize(serializer),
            None => self.0.list.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Tools {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

impl From<Vec<Tool>> for Tools {
    fn from(list: Vec<Tool>) -> Self {
        Self(Arc::new(Offer { list, json: OnceLock::new() }))
    }
}

impl Deref for Tools {
    type Target = [Tool];

    fn deref(&self) -> &[Tool] {
        &self.0.list
    }
}

/// A tool the agent offers, in OpenAI's form `{"type":"function","function":{…}}`, keys in the
/// order in which they were sent: templates print them.
pub type Tool = Value;

/// How to sample. `None` means: the engine's default.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Softmax temperature.
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Nucleus mass.
    pub top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Number of candidates; -1 or 0 is off.
    pub top_k: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Least share of the best candidate.
    pub min_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Penalty on tokens that occurred.
    pub presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Penalty by how often a token occurred.
    pub frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Most tokens to sample.
    pub max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Seed of the sampler.
    pub seed: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    /// Texts that end the answer.
    pub stop: Vec<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    /// Keys passed to the engine's sampling parameters untouched (structured outputs and the like).
    pub extra: Map<String, Value>,
}

impl Sampling {
    /// These parameters with `pinned` laid over them: what the session pins wins.
    pub fn pinned_by(mut self, pinned: &Sampling) -> Sampling {
        fn over<T: Clone>(slot: &mut Option<T>, pin: &Option<T>) {
            if pin.is_some() {
                slot.clone_from(pin);
            }
        }
        over(&mut self.temperature, &pinned.temperature);
        over(&mut self.top_p, &pinned.top_p);
        over(&mut self.top_k, &pinned.top_k);
        over(&mut self.min_p, &pinned.min_p);
        over(&mut self.presence_penalty, &pinned.presence_penalty);
        over(&mut self.frequency_penalty, &pinned.frequency_penalty);
        over(&mut self.max_tokens, &pinned.max_tokens);
        over(&mut self.seed, &pinned.seed);
        if !pinned.stop.is_empty() {
            self.stop.clone_from(&pinned.stop);
        }
        self.extra.extend(pinned.extra.iter().map(|(k, v)| (k.clone(), v.clone())));
        self
    }
}

/// How the agent wants its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyForm {
    /// One JSON body.
    Json,
    /// Server-sent events.
    Events {
        /// Whether a usage chunk was asked for.
        usage: bool,
    },
}

/// Which tools an answer may call.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None of them.
    None,
    /// At least one.
    Required,
    /// The one of this canonical name.
    Named(String),
}

/// How a tool is called on the wire, where that is not a plain function of its canonical name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WireTool {
    /// The namespace it lives in.
    pub namespace: Option<String>,
    /// Its name there.
    pub name: String,
    /// What a call of it looks like.
    pub form: WireForm,
}

/// What a call of a tool looks like on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum WireForm {
    /// A function call: a JSON object of arguments.
    #[default]
    Function,
    /// A custom tool's call: free text.
    Custom,
    /// A search for tools that the agent makes.
    ToolSearch,
    /// A command for the agent's own shell.
    LocalShell,
}

/// Wire forms by canonical name; plain functions are not in it.
pub type WireTools = BTreeMap<String, WireTool>;

/// What the answer is to be given as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Purpose {
    /// An assistant's turn.
    #[default]
    Turn,
    /// A compaction: the text of the answer goes back as an opaque item.
    Compaction,
}

/// What an agent asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Asked {
    /// The model name the agent used; echoed, never interpreted.
    pub model: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// The tools on offer; empty when `tool_choice` is `none`.
    pub tools: Tools,
    /// Tools that the model was told of in a result and that are not in the list. They may be
    /// called; they are no part of what a tree hangs from.
    pub loaded_tools: Tools,
    /// Tools that go by another form on the wire.
    pub wire_tools: WireTools,
    /// Which tools may be called.
    pub tool_choice: ToolChoice,
    /// Whether more than one call per answer is welcome; `None`: not said.
    pub parallel_tool_calls: Option<bool>,
    /// The form that the answer's text was asked to have (a JSON schema and the like), as sent. It
    /// binds nothing; scene rules look at it.
    pub format: Option<Value>,
    /// Sampling parameters as the agent wrote them.
    pub sampling: Sampling,
    /// `chat_template_kwargs` of the request.
    pub template_kwargs: Map<String, Value>,
    /// JSON or events.
    pub form: ReplyForm,
    /// What the answer is to be given as.
    pub purpose: Purpose,
    /// Parts and items that no model can use, by type: left out and counted.
    pub skipped: BTreeMap<String, u32>,
    /// Fields of the request that the dialect's answer repeats.
    pub echo: Map<String, Value>,
}

impl Asked {
    /// A request that says nothing but this.
    pub fn plain(model: String, messages: Vec<Message>, form: ReplyForm) -> Self {
        Self {
            model,
            messages,
            tools: Tools::default(),
            loaded_tools: Tools::default(),
            wire_tools: WireTools::new(),
            tool_choice: ToolChoice::default(),
            parallel_tool_calls: None,
            format: None,
            sampling: Sampling::default(),
            template_kwargs: Map::new(),
            form,
            purpose: Purpose::default(),
            skipped: BTreeMap::new(),
            echo: Map::new(),
        }
    }
}

/// Why a generation ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// A stop token or stop text.
    Stop,
    /// The token budget or the model's context.
    Length,
    /// The engine gave up on it.
    Abort,
}

impl Finish {
    /// Every reason.
    pub const ALL: [Finish; 3] = [Finish::Stop, Finish::Length, Finish::Abort];

    /// The name used in records and samples.
    pub fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Abort => "abort",
        }
    }
}

/// From which sampled token on a weight version holds, counted within one generation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VersionSpan {
    /// Index of the first sampled token of the span.
    pub start: u32,
    /// The engine's label of its weights.
    pub version: String,
}

impl VersionSpan {
    /// Label of tokens whose version the engine did not report.
    pub const UNREPORTED: &str = "unreported";
}

/// What the engine sampled. `ids` and `logprobs` have equal lengths; spans start at 0 and ascend.
#[derive(Clone, PartialEq, Debug)]
pub struct Generated {
    /// Sampled ids, the stop token included.
    pub ids: Vec<TokenId>,
    /// Log-probability of each id.
    pub logprobs: Vec<f32>,
    /// Why it ended.
    pub finish: Finish,
    /// The text of the stop string that ended it, where one did.
    pub stop_text: Option<String>,
    /// Weight versions; empty when the engine reports none.
    pub versions: Vec<VersionSpan>,
    /// Prompt tokens the engine took from its prefix cache, where it says so.
    pub cached_tokens: Option<u32>,
    /// Prompt tokens as the engine counted them, where it says so.
    pub prompt_tokens: Option<u32>,
}

/// A reply in canonical form, made from a generation by the model family's parser.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// Reasoning text; `None` when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Text for the reader.
    #[serde(default)]
    pub content: String,
    /// Well-formed tool calls, in order, with ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Whether some of the output did not fit the family's grammar (see `remarks`).
    #[serde(default)]
    pub ill_formed: bool,
    /// What the parser had to say, as stable codes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// Token counts of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Ids sent to the engine.
    pub prompt_tokens: u32,
    /// Ids sampled.
    pub completion_tokens: u32,
    /// Prompt ids the engine had in its cache, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u32>,
}
