//! Contents of items: a text, or parts.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::protocol::media::Media;

/// Texts joined in order without anything between them. Of what is no text, see
/// [`crate::protocol::media`]. Whatever else an item has in this place, a number say, is nothing.
#[derive(Default, Debug, PartialEq)]
pub(super) struct Content {
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
        let kind = part.r#type.as_deref().unwrap_or("input_text");
        let text = match (kind, Media::of(kind)) {
            ("refusal", _) => part.refusal,
            ("input_text" | "output_text" | "text" | "summary_text" | "reasoning_text", _) => {
                part.text
            }
            (_, Some(media)) => Some(part.file_text().unwrap_or_else(|| {
                self.media += 1;
                media.placeholder().to_owned()
            })),
            (other, None) => {
                self.skipped.push(other.to_owned());
                None
            }
        };
        match text {
            Some(text) if self.text.is_empty() => self.text = text,
            Some(text) => self.text.push_str(&text),
            None => {}
        }
    }
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
        Ok(Content::default())
    }

    fn visit_u64<E: de::Error>(self, _value: u64) -> Result<Content, E> {
        Ok(Content::default())
    }

    fn visit_i64<E: de::Error>(self, _value: i64) -> Result<Content, E> {
        Ok(Content::default())
    }

    fn visit_f64<E: de::Error>(self, _value: f64) -> Result<Content, E> {
        Ok(Content::default())
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
