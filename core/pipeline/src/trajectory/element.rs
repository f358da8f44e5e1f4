//! Elements: what matching walks over, and which differences between two messages do not count.
//!
//! Ignored always: outer white space, CRLF, empty messages, consecutive assistant messages split or
//! joined (unless text follows calls: no single message can hold that order), reasoning present or
//! absent, tool-call ids (a result counts by the position of its call), key order, spacing and number
//! spelling of tool arguments. That is the loose digest. The strict one is of what a template could
//! see: texts as they are, reasoning, names and argument texts of calls; never ids.
//!
//! Some templates do print ids: Kimi K2's (`functions.name:0`) and Mistral's. There a faithful
//! session goes on from sampled ids where an agent rewrote only call ids, and the engine keeps
//! seeing the ones that were sampled, in results too. That is a gap of faithful mode, taken on purpose: agents
//! rewrite ids to fit alphabets of their own, and most templates never show them.

use blake3::Hasher;

use super::Digest;
use super::canonical::canonical_arguments;
use crate::planted::{self, Bug};
use crate::record::HistoryMode;
use crate::turn::{Message, MessageFields, Reply, Role, ToolCall};

/// One normalised message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Element {
    /// Digest by the session's history mode: equal for messages that are the same turn. Where
    /// `continues`, it is of the whole run of assistant messages up to this one.
    pub digest: Digest,
    /// Who speaks.
    pub role: Role,
    /// Whether it is an assistant message that goes on where the element before it ended.
    pub continues: bool,
    /// Index of the first message that goes with it: itself, or an overlay before it.
    pub first_message: usize,
    /// Index of the message itself.
    pub message: usize,
    /// Whether an empty assistant message stood before it.
    pub(super) after_silence: bool,
    /// Digest of the message as it is.
    pub(super) strict: Digest,
    /// The digest that it had without rules, overlays before it included.
    pub(super) plain: Digest,
    /// Numbers of the rules that changed what matching sees of it.
    pub(super) touched: Vec<u16>,
}

/// What an assistant element says beyond its meaning. Two answers may mean the same; which of them
/// an agent goes on from shows in what it echoes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Evidence {
    /// Digest of the ids of its tool calls, where it has any.
    call_ids: Option<Digest>,
    /// Digest of its reasoning, where it has some.
    reasoning: Option<Digest>,
}

impl Evidence {
    /// Of the messages of a run.
    pub(super) fn of<'m>(run: impl Iterator<Item = &'m Message>) -> Self {
        let mut evidence = Self::default();
        let (mut ids, mut any_id, mut thoughts) = (None::<Hasher>, false, None::<Hasher>);
        for message in run {
            for call in &message.tool_calls {
                let core: Vec<u8> = id_core(&call.id).collect();
                any_id |= !core.is_empty();
                add_bytes(ids.get_or_insert_default(), &core);
            }
            let reasoning = message.reasoning.as_deref().unwrap_or_default().trim();
            if !reasoning.is_empty() {
                add_bytes(thoughts.get_or_insert_default(), reasoning.as_bytes());
            }
        }
        evidence.call_ids = ids.filter(|_| any_id).as_ref().map(Digest::of);
        evidence.reasoning = thoughts.as_ref().map(Digest::of);
        evidence
    }

    /// How much of what `echoed` says this one confirms; what is missing there says nothing.
    pub(super) fn confirms(&self, echoed: &Evidence) -> u32 {
        let same = |ours: Option<Digest>, theirs: Option<Digest>| {
            u32::from(theirs.is_some() && ours == theirs)
        };
        2 * same(self.call_ids, echoed.call_ids) + same(self.reasoning, echoed.reasoning)
    }
}

/// Digest of an answer as the agent will send it back; `None` when nothing of it will be seen
/// there. `run` are the messages of the request that the answer continues, see
/// [`super::Path::continued`].
pub fn answer_digest(mode: HistoryMode, run: &[Message], reply: &Reply) -> Option<Digest> {
    let message = reply_message(reply);
    if mode == HistoryMode::Faithful {
        return Some(strict_digest(&message));
    }
    if is_empty(&message) {
        return None;
    }
    let mut whole = Run::default();
    for part in run.iter().filter(|part| part.role == Role::Assistant) {
        whole.push(part);
    }
    whole.push(&message);
    Some(whole.digest())
}

/// A reply as the message that an agent keeps of it.
pub(super) fn reply_message(reply: &Reply) -> Message {
    let said = MessageFields::text(Role::Assistant, reply.content.as_str());
    MessageFields {
        reasoning: reply.reasoning.clone(),
        tool_calls: reply.tool_calls.clone(),
        ..said
    }
    .into()
}

/// Whether an assistant message vanishes.
pub(super) fn is_empty(message: &Message) -> bool {
    message.content.trim().is_empty() && message.tool_calls.is_empty()
}

/// Stands among the calls of a run where text follows them; no call has such a name.
const TEXT_BEHIND_CALLS: &[u8] = b"\0text";

/// Assistant messages that follow each other, digested as one while they come.
#[derive(Default)]
pub(super) struct Run {
    text: Hasher,
    any_text: bool,
    /// White space that counts only if text follows.
    gap: String,
    calls: Option<Hasher>,
}

impl Run {
    pub(super) fn push(&mut self, message: &Message) {
        let text = lf(&message.content);
        let text = if self.any_text { text.as_ref() } else { text.trim_start() };
        let body = text.trim_end();
        if !body.is_empty() {
            if let Some(calls) = &mut self.calls {
                // The order of text and calls counts: no single message can hold this one.
                add_bytes(calls, TEXT_BEHIND_CALLS);
            }
            self.text.update(self.gap.as_bytes());
            self.text.update(body.as_bytes());
            self.gap.clear();
            self.any_text = true;
        }
        if self.any_text {
            self.gap.push_str(&text[body.len()..]);
        }
        for call in &message.tool_calls {
            let calls = self.calls.get_or_insert_default();
            add_bytes(calls, call.name.as_bytes());
            add_bytes(calls, canonical_arguments(&call.arguments).as_bytes());
        }
    }

    /// Loose digest of all of it.
    pub(super) fn digest(&self) -> Digest {
        let mut hasher = start(Role::Assistant);
        hasher.update(self.text.finalize().as_bytes());
        if let Some(calls) = &self.calls {
            hasher.update(calls.finalize().as_bytes());
        }
        Digest::of(&hasher)
    }
}

/// Loose digest of a message that no model wrote, read as `text`. A result counts by the place of
/// its call.
pub(super) fn text_digest(message: &Message, text: &str, place: Option<usize>) -> Digest {
    let mut hasher = start(message.role);
    if let Some(place) = place {
        hasher.update(&(place as u64).to_le_bytes());
    }
    add_bytes(&mut hasher, lf(text.trim()).as_bytes());
    hasher.update(&message.media_dropped.to_le_bytes());
    Digest::of(&hasher)
}

/// Digest of what a template could see of a message.
pub(super) fn strict_digest(message: &Message) -> Digest {
    let mut hasher = start(message.role);
    add_bytes(&mut hasher, message.content.as_bytes());
    add_bytes(&mut hasher, message.reasoning.as_deref().unwrap_or_default().as_bytes());
    for call in &message.tool_calls {
        add_bytes(&mut hasher, call.name.as_bytes());
        add_bytes(&mut hasher, call.arguments.as_bytes());
    }
    hasher.update(&message.media_dropped.to_le_bytes());
    Digest::of(&hasher)
}

/// Digest of what a template could see of a message, made of its loose one without rules (alone,
/// where it is an assistant's) and of all that this one ignores: nothing is hashed twice that may be
/// long. In memory only.
pub(super) fn exact_digest(message: &Message, loose: Digest) -> Digest {
    let text = message.content.as_str();
    let mut hasher = Hasher::new();
    hasher.update(loose.as_bytes());
    let begin = text.len() - text.trim_start().len();
    let end = text.trim_end().len().max(begin);
    match text.contains('\r') {
        true => add_bytes(&mut hasher, text.as_bytes()),
        false => {
            add_bytes(&mut hasher, &text.as_bytes()[..begin]);
            add_bytes(&mut hasher, &text.as_bytes()[end..]);
        }
    }
    add_bytes(&mut hasher, message.reasoning.as_deref().unwrap_or_default().as_bytes());
    for call in &message.tool_calls {
        add_bytes(&mut hasher, call.name.as_bytes());
        add_bytes(&mut hasher, call.arguments.as_bytes());
    }
    hasher.update(&message.media_dropped.to_le_bytes());
    Digest::of(&hasher)
}

/// Place of the call that a result answers, among these calls.
pub(super) fn place_of_call(message: &Message, calls: &[&ToolCall]) -> Option<usize> {
    let id = message.tool_call_id.as_deref().unwrap_or_default();
    calls.iter().position(|call| same_call_id(&call.id, id))
}

/// Agents rewrite ids to fit alphabets of their own; letters and digits survive.
fn same_call_id(left: &str, right: &str) -> bool {
    left == right || (id_core(left).next().is_some() && id_core(left).eq(id_core(right)))
}

fn id_core(id: &str) -> impl Iterator<Item = u8> {
    id.bytes().filter(u8::is_ascii_alphanumeric)
}

fn start(role: Role) -> Hasher {
    let mut hasher = Hasher::new();
    if !planted::on(Bug::DigestWithoutRole) {
        add_bytes(&mut hasher, role.name().as_bytes());
    }
    hasher
}

pub(super) fn add_bytes(hasher: &mut Hasher, bytes: &[u8]) {
    if !planted::on(Bug::DigestWithoutLength) {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
    }
    hasher.update(bytes);
}

fn lf(text: &str) -> std::borrow::Cow<'_, str> {
    match text.contains('\r') {
        true => text.replace("\r\n", "\n").into(),
        false => text.into(),
    }
}
