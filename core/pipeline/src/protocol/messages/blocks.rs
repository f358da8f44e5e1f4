//! Content blocks that become text, wherever they stand.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::document;
use super::place::{Content, Place};
use super::tools::Deferrals;
use crate::fault::Fault;
use crate::protocol::media::Media;
use crate::turn::Tool;

/// What was left out, by type.
pub(super) type Skipped = BTreeMap<String, u32>;

/// Text in the making. Blocks are joined in order without anything between them, as templates that
/// take lists do, so that it does not matter how an agent cuts a text into blocks.
#[derive(Default)]
pub(super) struct Text {
    pub(super) text: String,
    /// Media that were left out.
    pub(super) media: u32,
}

impl Text {
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// The type that a block names.
#[derive(Deserialize)]
#[serde(expecting = "a content block, an object with a type")]
struct Typed {
    r#type: Option<String>,
}

#[derive(Deserialize)]
struct TextBlock {
    text: Option<String>,
}

#[derive(Deserialize)]
struct Reference {
    tool_name: Option<String>,
}

/// Reads blocks.
pub(super) struct Reader<'a> {
    deferred: &'a Deferrals,
    /// Types of what was left out, in their order.
    pub(super) skipped: Vec<String>,
    /// Deferred tools that results refer to, by name.
    pub(super) loaded: BTreeMap<String, Tool>,
    /// Whether a tool was referred to, deferred or not.
    pub(super) refers: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(deferred: &'a Deferrals) -> Self {
        Self { deferred, skipped: Vec::new(), loaded: BTreeMap::new(), refers: false }
    }

    /// The type of a block.
    pub(super) fn kind(&self, place: &Place<'_>, raw: &RawValue) -> Result<String, Fault> {
        let typed: Typed = place.read(raw)?;
        typed.r#type.ok_or_else(|| place.bad("a content block has no type"))
    }

    /// Text of content that holds text, media and references only.
    pub(super) fn content(
        &mut self,
        place: &Place<'_>,
        raw: Option<&RawValue>,
        out: &mut Text,
    ) -> Result<(), Fault> {
        match place.content(raw)? {
            Content::Text(text) => out.push(&text),
            Content::List(blocks) => {
                for (index, block) in blocks.into_iter().enumerate() {
                    let place = place.index(index);
                    let kind = self.kind(&place, block)?;
                    self.block(&place, &kind, block, out)?;
                }
            }
        }
        Ok(())
    }

    /// A block that can stand in any content; others are counted.
    pub(super) fn block(
        &mut self,
        place: &Place<'_>,
        kind: &str,
        raw: &RawValue,
        out: &mut Text,
    ) -> Result<(), Fault> {
        match kind {
            "text" => {
                let block: TextBlock = place.read(raw)?;
                out.push(&block.text.unwrap_or_default());
            }
            "document" => document::document(self, place, raw, out)?,
            "search_result" => document::search_result(self, place, raw, out)?,
            "tool_reference" => {
                let block: Reference = place.read(raw)?;
                self.reference(&block.tool_name.unwrap_or_default(), out);
            }
            _ => match Media::of(kind) {
                Some(media) => {
                    out.push(media.placeholder());
                    out.media += 1;
                }
                None => self.skipped.push(kind.to_owned()),
            },
        }
        Ok(())
    }

    /// A reference to a deferred tool gives its definition, on a line of its own: the model was not
    /// shown it. Of any other tool there is only the name to tell.
    fn reference(&mut self, name: &str, out: &mut Text) {
        if !out.is_empty() && !out.text.ends_with('\n') {
            out.push("\n");
        }
        self.refers = true;
        match self.deferred.get(name) {
            Some(deferred) => {
                out.push("Tool loaded: ");
                out.push(&deferred.text);
                self.loaded.insert(name.to_owned(), deferred.tool.clone());
            }
            None => {
                out.push("Tool: ");
                out.push(name);
            }
        }
        out.push("\n");
    }
}
