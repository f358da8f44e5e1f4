//! From a scripted reply to the ids a model would sample: the family's grammar, markers as tokens,
//! and, where asked for, some tokens said in two pieces.

use std::collections::HashMap;

use rollgate_pipeline::id::TokenId;
use rollgate_pipeline::render::{ControlText, Family, Model};
use rollgate_pipeline::turn::Finish;
use serde_json::Value;

use super::score::spread;
use super::script::{ScriptedCall, ScriptedReply};

/// What the prompt says about reasoning after its last turn was opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Thinking {
    /// Nothing: the model opens it, or does not reason.
    Unsaid,
    /// It is open.
    Open,
    /// It is over (the empty block that switches reasoning off).
    Over,
}

impl Thinking {
    /// Every case.
    pub(crate) const ALL: [Thinking; 3] = [Thinking::Unsaid, Thinking::Open, Thinking::Over];

    /// Reads the prompt's tail. `opening` are the ids that open an assistant turn.
    pub(crate) fn of(model: &Model, prompt: &[TokenId], opening: &[TokenId]) -> Thinking {
        let start = prompt
            .windows(opening.len().max(1))
            .rposition(|window| window == opening)
            .map_or(0, |at| at + opening.len());
        let marker = prompt[start..].iter().rev().find_map(|id| match Some(*id) {
            id if id == model.markers.think_open => Some(Thinking::Open),
            id if id == model.markers.think_close => Some(Thinking::Over),
            _ => None,
        });
        marker.unwrap_or(Thinking::Unsaid)
    }
}

/// A reply as ids.
pub(crate) struct Composed {
    /// The ids that the tokenizer makes of the text.
    pub(crate) ids: Vec<TokenId>,
    /// Where there is a token that can be said in two pieces.
    pub(crate) places: Vec<usize>,
}

/// Composes replies for one model.
pub(crate) struct Composer {
    /// Ids of plain tokens by their bytes.
    plain: HashMap<Box<[u8]>, TokenId>,
}

impl Composer {
    /// Reads the model's vocabulary.
    pub(crate) fn new(model: &Model) -> Self {
        let tokenizer = &model.tokenizer;
        let plain = (0..tokenizer.size()).filter_map(|id| {
            let bytes = tokenizer.bytes_of(id)?;
            let text = std::str::from_utf8(bytes).ok();
            let added = text.and_then(|text| tokenizer.added(text)) == Some(id);
            (!added && !bytes.is_empty()).then(|| (bytes.into(), id))
        });
        Self { plain: plain.collect() }
    }

    /// Ids of the reply as the tokenizer makes them. A reply that stops has its close token.
    fn canonical(
        &self,
        model: &Model,
        reply: &ScriptedReply,
        thinking: Thinking,
    ) -> Result<Vec<TokenId>, String> {
        let mut ids = Vec::new();
        match &reply.raw {
            Some(raw) => model.tokenizer.encode(raw, ControlText::Match, &mut ids)?,
            None => match model.family {
                Family::Qwen3 => qwen3(model, reply, thinking, &mut ids)?,
                other => return Err(format!("replies of {other:?} are written as `raw` text")),
            },
        }
        let ended = ids
            .last()
            .is_some_and(|last| *last == model.markers.close || model.markers.ends.contains(last));
        if reply.finish() == Finish::Stop && !ended {
            ids.push(model.markers.close);
        }
        Ok(ids)
    }

    /// The reply with the places where it can be said otherwise.
    pub(crate) fn composed(
        &self,
        model: &Model,
        reply: &ScriptedReply,
        thinking: Thinking,
    ) -> Result<Composed, String> {
        let ids = self.canonical(model, reply, thinking)?;
        let places = (0..ids.len()).filter(|at| !self.pieces(model, ids[*at]).is_empty());
        Ok(Composed { places: places.collect(), ids })
    }

    /// Says up to `splits` tokens in two pieces of the same bytes, chosen by `draw`.
    pub(crate) fn split(
        &self,
        model: &Model,
        composed: &Composed,
        splits: u32,
        draw: u64,
    ) -> Vec<TokenId> {
        let mut places = composed.places.clone();
        places.sort_by_cached_key(|at| spread(draw ^ spread(*at as u64)));
        places.truncate(splits as usize);
        let mut said = Vec::with_capacity(composed.ids.len() + places.len());
        for (at, id) in composed.ids.iter().enumerate() {
            let pieces = if places.contains(&at) { self.pieces(model, *id) } else { Vec::new() };
            match pieces.len() {
                0 => said.push(*id),
                count => {
                    let chosen = spread(draw ^ at as u64) % count as u64;
                    said.extend(pieces[chosen as usize]);
                }
            }
        }
        said
    }

    /// The ways to say a plain token in two: none for markers and for single bytes.
    fn pieces(&self, model: &Model, id: TokenId) -> Vec<[TokenId; 2]> {
        let bytes = model.tokenizer.bytes_of(id).unwrap_or_default();
        if self.plain.get(bytes).is_none_or(|plain| *plain != id) {
            return Vec::new();
        }
        let halves = (1..bytes.len()).filter_map(|at| {
            let (left, right) = bytes.split_at(at);
            Some([*self.plain.get(left)?, *self.plain.get(right)?])
        });
        halves.collect()
    }
}

/// The grammar of Qwen3: reasoning between markers, text, tool calls as JSON between markers.
fn qwen3(
    model: &Model,
    reply: &ScriptedReply,
    thinking: Thinking,
    ids: &mut Vec<TokenId>,
) -> Result<(), String> {
    let mut writer = Writer { model, ids, text: String::new() };
    match (&reply.reasoning, thinking) {
        (Some(reasoning), Thinking::Unsaid) => {
            writer.marker("<think>")?;
            writer.text(&format!("\n{reasoning}\n"));
            writer.marker("</think>")?;
            writer.text("\n\n");
        }
        (Some(reasoning), Thinking::Open) => {
            writer.text(&format!("{reasoning}\n"));
            writer.marker("</think>")?;
            writer.text("\n\n");
        }
        (None, Thinking::Open) => {
            writer.marker("</think>")?;
            writer.text("\n\n");
        }
        // A model whose reasoning is switched off does not reason.
        (_, Thinking::Over) | (None, Thinking::Unsaid) => {}
    }
    let content = reply.content.as_deref().unwrap_or_default();
    writer.text(content);
    for (n, call) in reply.tool_calls.iter().enumerate() {
        if n > 0 || !content.is_empty() {
            writer.text("\n");
        }
        writer.marker("<tool_call>")?;
        writer.text(&format!("\n{}\n", call_json(call)));
        writer.marker("</tool_call>")?;
    }
    writer.flush()
}

/// Collects text up to the next marker, since text is only cut where the tokenizer cuts it too.
struct Writer<'a> {
    model: &'a Model,
    ids: &'a mut Vec<TokenId>,
    text: String,
}

impl Writer<'_> {
    fn text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn marker(&mut self, marker: &str) -> Result<(), String> {
        match self.model.tokenizer.added(marker) {
            Some(id) => {
                self.flush()?;
                self.ids.push(id);
            }
            // A vocabulary without the marker spells it out, as the model would.
            None => self.text.push_str(marker),
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        let text = std::mem::take(&mut self.text);
        self.model.tokenizer.encode(&text, ControlText::Plain, self.ids)
    }
}

fn call_json(call: &ScriptedCall) -> String {
    let mut out = String::from("{\"name\": ");
    spaced(&Value::from(call.name.as_str()), &mut out);
    out.push_str(", \"arguments\": ");
    spaced(&Value::Object(call.arguments.clone()), &mut out);
    out.push('}');
    out
}

/// JSON with a blank after commas and colons, as models write it.
fn spaced(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                out.push_str(if n > 0 { ", " } else { "" });
                spaced(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (n, (key, item)) in fields.iter().enumerate() {
                out.push_str(if n > 0 { ", " } else { "" });
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push_str(": ");
                spaced(item, out);
            }
            out.push('}');
        }
        plain => out.push_str(&plain.to_string()),
    }
}
