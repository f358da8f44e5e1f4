//! Documents and search results as text.

use base64::Engine;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::blocks::{Reader, Text};
use super::place::Place;
use crate::fault::Fault;

#[derive(Deserialize)]
struct Document<'a> {
    title: Option<String>,
    context: Option<String>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Source<'a> {
    r#type: Option<String>,
    media_type: Option<String>,
    data: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct SearchResult<'a> {
    source: Option<String>,
    title: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// Title, context and text of a document, a line for each. One whose text is not in the request, or
/// in a form that needs a converter, is refused: an answer without it would be about something else.
pub(super) fn document(
    reader: &mut Reader<'_>,
    place: &Place<'_>,
    raw: &RawValue,
    out: &mut Text,
) -> Result<(), Fault> {
    let block: Document<'_> = place.read(raw)?;
    let from = place.key("source");
    let source: Source<'_> = from.read(block.source.unwrap_or(RawValue::NULL))?;
    let text = source.media_type.as_deref().is_none_or(|media| media.starts_with("text/"));
    let data = source.data.unwrap_or_default();
    let data = match source.r#type.as_deref() {
        Some("text") if text => Some(data),
        Some("base64") if text => decoded(&data),
        Some("content") => Some(String::new()),
        _ => None,
    };
    let Some(data) = data else {
        return Err(place.bad(
            "this `document` block cannot be shown to the model: only text can (a source of type \
             `text` or `content`); take the text out of the document and send that",
        ));
    };
    for line in [block.title, block.context].into_iter().flatten().filter(|line| !line.is_empty()) {
        out.push(&line);
        out.push("\n");
    }
    out.push(&data);
    reader.content(&from.key("content"), source.content, out)
}

fn decoded(data: &str) -> Option<String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).ok()?;
    String::from_utf8(bytes).ok()
}

/// Title, address and text of a search result, a line for each.
pub(super) fn search_result(
    reader: &mut Reader<'_>,
    place: &Place<'_>,
    raw: &RawValue,
    out: &mut Text,
) -> Result<(), Fault> {
    let block: SearchResult<'_> = place.read(raw)?;
    for line in [block.title, block.source].into_iter().flatten().filter(|line| !line.is_empty()) {
        out.push(&line);
        out.push("\n");
    }
    reader.content(&place.key("content"), block.content, out)
}
