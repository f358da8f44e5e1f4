//! What can go wrong with an exchange, and whose fault it is.
//!
//! A fault is turned into the caller's dialect in one place, [`crate::protocol`].

use std::fmt;

/// Who has to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The agent sent what cannot be served.
    Agent,
    /// The engine failed or refused.
    Engine,
    /// The node's configuration or state forbids it.
    Config,
    /// Rollgate itself.
    Rollgate,
}

/// The closed list of faults. The label of a kind is also its metric label.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FaultKind {
    /// The request line, a header or the framing is malformed.
    BadHttp,
    /// The head exceeds [`crate::limits::HEAD_BYTES`] or [`crate::limits::HEADERS`].
    HeadTooLarge,
    /// The body exceeds `limits.body_bytes`.
    BodyTooLarge,
    /// The body is compressed in a way that is not understood.
    UnsupportedEncoding,
    /// The agent did not finish its request in time.
    RequestTimeout,
    /// The body is not JSON.
    BadJson,
    /// The body is JSON, but not a request of its dialect.
    BadRequest,
    /// No key was sent, or one that opens nothing.
    WrongKey,
    /// The session is sealed.
    SessionClosed,
    /// The session's budget of turns or tokens is used up.
    Budget,
    /// No such path.
    UnknownPath,
    /// The request refers to a part of an earlier answer that nobody knows.
    UnknownItem,
    /// The path exists, the method does not.
    WrongMethod,
    /// A WebSocket upgrade was asked for.
    UpgradeRefused,
    /// Prompt and answer cannot fit the model's context.
    ContextOverflow,
    /// The chat template refused the conversation.
    TemplateRefused,
    /// The engine cannot be reached.
    EngineDown,
    /// The engine did not answer in time.
    EngineTimeout,
    /// The engine asked to come back later.
    EngineBusy,
    /// The engine, or what stands before it, allows fewer requests.
    EngineLimited,
    /// The engine wants credentials that the node does not send.
    EngineDenied,
    /// The engine refused the request.
    EngineRefused,
    /// The engine's answer cannot be understood, or contradicts itself.
    EngineBadReply,
    /// Too many exchanges at once.
    Overload,
    /// The node is draining.
    Draining,
    /// The record could not be made durable, so nothing may leave.
    JournalFailed,
    /// A bug of ours.
    Internal,
}

impl FaultKind {
    /// HTTP status of the answer.
    pub fn status(self) -> u16 {
        use FaultKind::*;
        match self {
            BadHttp | BadJson | BadRequest | ContextOverflow | TemplateRefused | EngineRefused => {
                400
            }
            WrongKey => 401,
            SessionClosed | Budget => 403,
            UnknownPath | UnknownItem => 404,
            WrongMethod => 405,
            RequestTimeout => 408,
            BodyTooLarge => 413,
            UnsupportedEncoding => 415,
            UpgradeRefused => 426,
            HeadTooLarge => 431,
            EngineLimited => 429,
            EngineDown | EngineDenied | EngineBadReply => 502,
            EngineBusy | Overload | Draining => 503,
            EngineTimeout => 504,
            JournalFailed | Internal => 500,
        }
    }

    /// Who has to act.
    pub fn whose(self) -> Whose {
        use FaultKind::*;
        match self {
            BadHttp | HeadTooLarge | BodyTooLarge | UnsupportedEncoding | RequestTimeout
            | BadJson | BadRequest | WrongKey | SessionClosed | Budget | UnknownPath
            | UnknownItem | WrongMethod | UpgradeRefused | ContextOverflow | TemplateRefused => {
                Whose::Agent
            }
            EngineDown | EngineTimeout | EngineBusy | EngineLimited | EngineRefused
            | EngineBadReply => Whose::Engine,
            EngineDenied | Overload | Draining => Whose::Config,
            JournalFailed | Internal => Whose::Rollgate,
        }
    }

    /// Metric label and machine-readable code.
    pub fn label(self) -> &'static str {
        use FaultKind::*;
        match self {
            BadHttp => "bad_http",
            HeadTooLarge => "head_too_large",
            BodyTooLarge => "body_too_large",
            UnsupportedEncoding => "unsupported_encoding",
            RequestTimeout => "request_timeout",
            BadJson => "bad_json",
            BadRequest => "bad_request",
            WrongKey => "wrong_key",
            SessionClosed => "session_closed",
            Budget => "budget_exhausted",
            UnknownPath => "unknown_path",
            UnknownItem => "unknown_item",
            WrongMethod => "wrong_method",
            UpgradeRefused => "upgrade_refused",
            ContextOverflow => "context_length_exceeded",
            TemplateRefused => "template_refused",
            EngineDown => "engine_down",
            EngineTimeout => "engine_timeout",
            EngineBusy => "engine_busy",
            EngineLimited => "engine_limited",
            EngineDenied => "engine_denied",
            EngineRefused => "engine_refused",
            EngineBadReply => "engine_bad_reply",
            Overload => "overload",
            Draining => "draining",
            JournalFailed => "journal_failed",
            Internal => "internal",
        }
    }
}

/// A fault with what a person needs to mend it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Which fault.
    pub kind: FaultKind,
    /// What happened and what to do, in one or two sentences. Holds no key and no prompt text.
    pub message: String,
    /// The request field at fault, where there is one (`messages[3].role`).
    pub param: Option<String>,
    /// When to come back, in seconds.
    pub retry_after_s: Option<u32>,
    /// The methods that the path takes, where it was asked with another one.
    pub allow: Option<&'static str>,
}

/// How far a prompt is beyond what fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overflow {
    /// Ids of the prompt.
    pub prompt_tokens: u32,
    /// Ids that prompt and answer may have together.
    pub max_context: u32,
}

impl Fault {
    /// A fault of this kind.
    pub fn new(kind: FaultKind, message: impl fmt::Display) -> Self {
        let retry_after_s = matches!(kind.status(), 429 | 503).then_some(1);
        Self { kind, message: message.to_string(), param: None, retry_after_s, allow: None }
    }

    /// A prompt that does not fit. Agents look for either of its two wordings to know that they must
    /// compact, and some read the numbers of the first.
    pub fn overflow(Overflow { prompt_tokens, max_context }: Overflow) -> Self {
        // A prompt that fills the context leaves no room for an answer.
        let most = max_context.min(prompt_tokens.saturating_sub(1));
        let message = format!(
            "prompt is too long: {prompt_tokens} tokens > {most} maximum. This model's maximum \
             context length is {max_context} tokens: shorten the messages"
        );
        Self::new(FaultKind::ContextOverflow, message).at("messages")
    }

    /// Names the request field at fault.
    #[must_use]
    pub fn at(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }
}
