//! Compaction: a summary that the model writes and the agent keeps as an opaque item.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{self, UsageBody};
use super::output::Item;
use crate::fault::{Fault, FaultKind};
use crate::protocol::{ReplyMeta, json};
use crate::turn::{Finish, Message, Reply, Role};

/// Begins the opaque content of a summary.
const BLOB: &str = "rgc1_";

/// What the model is asked for.
pub(super) const INSTRUCTION: &str = "\
The conversation above is about to be replaced by a summary of it. Write that summary now, for \
whoever goes on with the work and sees nothing else of it.

Keep what was asked for in the words of the user, every rule that still holds, what was found out \
and decided and why, what was done to which files, commands and results that matter, what failed, \
and what is to be done next. Quote names, paths and numbers exactly.

Answer with the summary alone. Call no tool.";

/// Under this name a request for a body of its own kind keeps what its answer repeats.
pub(super) const KEPT: &str = "compaction_output";

/// What stands before a summary in the conversation that goes on from it.
const HEADING: &str = "What came before was replaced by this summary of it:";

/// The opaque content that stands for this summary.
pub(super) fn encode(summary: &str) -> String {
    let mut blob = String::with_capacity(BLOB.len() + summary.len().div_ceil(3) * 4);
    blob.push_str(BLOB);
    STANDARD.encode_string(summary, &mut blob);
    blob
}

/// The text that a summary's opaque content stands for in a prompt; `None` where it is not ours.
pub(super) fn decode(blob: &str) -> Option<String> {
    let bytes = STANDARD.decode(blob.strip_prefix(BLOB)?).ok()?;
    let summary = String::from_utf8(bytes).ok()?;
    Some(format!("{HEADING}\n\n{summary}"))
}

/// What of a conversation stays beside its summary: the messages of the user, as they were.
pub(super) fn kept(messages: &[Message]) -> Value {
    let is_summary = |message: &&Message| message.content.starts_with(HEADING);
    let own = messages.iter().filter(|message| message.role == Role::User);
    let own = own.filter(|message| !is_summary(message)).map(|message| {
        let content = [json!({"type": "input_text", "text": message.content})];
        json!({"type": "message", "role": "user", "content": content, "status": "completed"})
    });
    own.collect()
}

/// Why a reply is no summary that could replace a conversation.
pub(super) fn unsummed(reply: &Reply, meta: &ReplyMeta) -> Option<&'static str> {
    match meta.finish {
        Finish::Length => Some(
            "the summary is cut: it was longer than `max_output_tokens` or the model's context \
             allow; nothing was compacted: ask again, with more room for the answer",
        ),
        Finish::Abort => Some(
            "the summary is cut: the engine gave up on it; nothing was compacted: ask again later",
        ),
        Finish::Stop if reply.content.trim().is_empty() => {
            Some("the model wrote no summary; nothing was compacted: ask again")
        }
        Finish::Stop => None,
    }
}

/// Why a reply cannot be given as the body of a compaction: it has no status that would say so.
pub(in crate::protocol) fn refusal(reply: &Reply, meta: &ReplyMeta) -> Option<Fault> {
    let why = meta.echo.get(KEPT).and_then(|_| unsummed(reply, meta))?;
    Some(Fault::new(FaultKind::EngineBadReply, why))
}

#[derive(Serialize)]
struct Compacted<'a> {
    id: String,
    object: &'static str,
    created_at: u64,
    output: Vec<Entry<'a>>,
    usage: UsageBody,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Kept(&'a Value),
    New(Item<'a>),
}

/// Appends the body of a `response.compaction`: what is kept, then what is new.
pub(super) fn write<'a>(
    out: &mut Vec<u8>,
    kept: &'a Value,
    new: impl Iterator<Item = Item<'a>>,
    meta: &ReplyMeta,
) {
    let kept = kept.as_array().into_iter().flatten().map(Entry::Kept);
    let body = Compacted {
        id: format!("resp_{}", meta.id),
        object: "response.compaction",
        created_at: meta.created_s,
        output: kept.chain(new.map(Entry::New)).collect(),
        usage: answer::usage(&meta.usage),
    };
    json::write(out, &body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_comes_back() {
        for summary in ["", "s", "die Brücke \u{1f600}\n"] {
            assert_eq!(decode(&encode(summary)), Some(format!("{HEADING}\n\n{summary}")));
        }
        for foreign in ["", "gAAAAABo", "rgc1_%", "rgc2_cw=="] {
            assert_eq!(decode(foreign), None, "{foreign}");
        }
    }
}
