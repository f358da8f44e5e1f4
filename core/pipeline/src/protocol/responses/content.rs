//! Contents of items: a text, or parts.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::protocol::json;
use crate::protocol::media::Media;

/// Texts joined in order without anything between them. Of what is no text, see
/// [`crate::protocol::media`]. Whatever else an item has in this place is left out and counted.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Content {
    pub text: String,
    /// How many media have a placeholder in the text.
    pub media: u32,
    /// Types of parts that were left out.
    pub skipped: Vec<String>,
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl Content {
    fn add(&mut self, part: RawPart) {
        let kind = part.r#type.as_deref();
        let text = match (kind, kind.and_then(Media::of)) {
            (Some("refusal"), _) => part.refusal,
            (None, _) => part.text,
            (Some(kind), _) if is_text(kind) => part.text,
            (_, Some(media)) => Some(part.file_text().unwrap_or_else(|| {
                self.media += 1;
                media.placeholder().to_owned()
            })),
            (Some(_), None) => None,
        };
        match text {
            Some(text) if self.text.is_empty() => self.text = text,
            Some(text) => self.text.push_str(&text),
            None => self.skipped.push(part.r#type.unwrap_or_else(|| "object".to_owned())),
        }
    }

    /// Nothing but this, left out.
    fn without(kind: &str) -> Self {
        Self { skipped: vec![kind.to_owned()], ..Self::default() }
    }
}

/// The result of a call. A text and a list of parts are contents; any other value is a tool's own
/// result, and the model reads its JSON text.
pub(super) fn result<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Content>, D::Error> {
    let Some(raw) = Option::<Box<RawValue>>::deserialize(json)? else { return Ok(None) };
    let raw = raw.get();
    let content = match is_content(raw) {
        true => serde_json::from_str(raw).map_err(de::Error::custom)?,
        false => json::compact(raw).into(),
    };
    Ok(Some(content))
}

/// Whether a value is what contents are made of: a text, a part of a known type, or a list of texts
/// and of objects that name their type.
fn is_content(raw: &str) -> bool {
    match raw.as_bytes().first() {
        Some(b'"') => true,
        Some(b'{') => type_of(raw).is_some_and(|kind| is_text(&kind) || Media::of(&kind).is_some()),
        Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(raw).is_ok_and(|parts| {
            let is_part = |part: &str| part.starts_with('"') || type_of(part).is_some();
            parts.iter().all(|part| is_part(part.get()))
        }),
        _ => false,
    }
}

/// The type that an object names.
fn type_of(raw: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Typed {
        r#type: String,
    }
    let typed = raw.starts_with('{').then(|| serde_json::from_str::<Typed>(raw).ok());
    typed.flatten().map(|typed| typed.r#type)
}

/// Whether parts of this type are texts.
fn is_text(kind: &str) -> bool {
    const TEXTS: [&str; 6] =
        ["input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal"];
    TEXTS.contains(&kind)
}

/// A part, as far as it is looked at.
#[derive(Deserialize)]
struct RawPart {
    r#type: Option<String>,
    text: Option<String>,
    refusal: Option<String>,
    file_data: Option<String>,
}

impl RawPart {
    /// The text of a file that says that it is text and is.
    fn file_text(&self) -> Option<String> {
        let (kind, data) = self.file_data.as_deref()?.strip_prefix("data:")?.split_once(',')?;
        let kind = kind.strip_suffix(";base64")?;
        if !kind.starts_with("text/") && !kind.starts_with("application/json") {
            return None;
        }
        String::from_utf8(STANDARD.decode(data).ok()?).ok()
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of content parts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Content, E> {
        Ok(text.to_owned().into())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Content, E> {
        Ok(text.into())
    }

    fn visit_unit<E: de::Error>(self) -> Result<Content, E> {
        Ok(Content::default())
    }

    fn visit_bool<E: de::Error>(self, _value: bool) -> Result<Content, E> {
        Ok(Content::without("boolean"))
    }

    fn visit_u64<E: de::Error>(self, _value: u64) -> Result<Content, E> {
        Ok(Content::without("number"))
    }

    fn visit_i64<E: de::Error>(self, _value: i64) -> Result<Content, E> {
        Ok(Content::without("number"))
    }

    fn visit_f64<E: de::Error>(self, _value: f64) -> Result<Content, E> {
        Ok(Content::without("number"))
    }

    fn visit_map<A: MapAccess<'de>>(self, part: A) -> Result<Content, A::Error> {
        let mut content = Content::default();
        content.add(RawPart::deserialize(MapAccessDeserializer::new(part))?);
        Ok(content)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Content, A::Error> {
        let mut content = Content::default();
        while let Some(Content { text, media, skipped }) = parts.next_element()? {
            match content.text.is_empty() {
                true => content.text = text,
                false => content.text.push_str(&text),
            }
            content.media += media;
            content.skipped.extend(skipped);
        }
        Ok(content)
    }
}
