//! Parts of messages that are no text: what stands in their place, in every dialect.
//!
//! The served models read text. A picture, a sound or a file leaves a short fixed text where it was,
//! so that the model knows that something was there and every replay of the history makes the same
//! prompt. The bytes themselves never get near the prompt. What is neither text nor media is left out
//! and counted by its type.

use std::collections::BTreeMap;

use crate::limits::{SKIPPED_TYPE_BYTES, SKIPPED_TYPES};

/// A kind of media.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Media {
    /// A picture.
    Image,
    /// A sound.
    Audio,
    /// A moving picture.
    Video,
    /// A file of any other kind.
    File,
}

impl Media {
    /// The kind of media that a part of this type is, in any dialect; `None` where it is none.
    pub(super) fn of(part_type: &str) -> Option<Self> {
        Some(match part_type {
            "image" | "image_url" | "input_image" | "output_image" | "computer_screenshot" => {
                Media::Image
            }
            "audio" | "audio_url" | "input_audio" | "output_audio" => Media::Audio,
            "video" | "video_url" | "input_video" => Media::Video,
            "file" | "input_file" | "document" | "container_upload" => Media::File,
            _ => return None,
        })
    }

    /// The text that stands where the part was.
    pub(super) fn placeholder(self) -> &'static str {
        match self {
            Media::Image => "[image omitted]",
            Media::Audio => "[audio omitted]",
            Media::Video => "[video omitted]",
            Media::File => "[file omitted]",
        }
    }
}

/// Counts a part or an item of this type that no model can use. Types are made up by agents: long
/// names are cut, and beyond so many of them all count under `other`.
pub(super) fn skip(skipped: &mut BTreeMap<String, u32>, part_type: &str) {
    let name = &part_type[..part_type.floor_char_boundary(SKIPPED_TYPE_BYTES)];
    let room = skipped.len() < SKIPPED_TYPES || skipped.contains_key(name);
    let name = if room { name } else { "other" };
    *skipped.entry(name.to_owned()).or_default() += 1;
}

/// Counts all of these in their order.
pub(super) fn skip_all(skipped: &mut BTreeMap<String, u32>, part_types: &[String]) {
    part_types.iter().for_each(|part_type| skip(skipped, part_type));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialects_types_have_a_placeholder() {
        let cases = [
            ("image_url", "[image omitted]"),
            ("input_image", "[image omitted]"),
            ("image", "[image omitted]"),
            ("input_audio", "[audio omitted]"),
            ("video_url", "[video omitted]"),
            ("input_file", "[file omitted]"),
            ("document", "[file omitted]"),
        ];
        for (part_type, want) in cases {
            assert_eq!(Media::of(part_type).map(Media::placeholder), Some(want), "{part_type}");
        }
        for part_type in ["text", "thinking", "image_generation_call", ""] {
            assert_eq!(Media::of(part_type), None, "{part_type}");
        }
    }

    #[test]
    fn made_up_types_do_not_grow_without_end() {
        let mut skipped = BTreeMap::new();
        skip(&mut skipped, &"ü".repeat(SKIPPED_TYPE_BYTES));
        skip(&mut skipped, &"ü".repeat(SKIPPED_TYPE_BYTES));
        assert_eq!(skipped, BTreeMap::from([("ü".repeat(SKIPPED_TYPE_BYTES / 2), 2)]));
        for n in 0..2 * SKIPPED_TYPES {
            skip(&mut skipped, &format!("t{n}"));
        }
        skip(&mut skipped, "t0");
        assert_eq!(skipped.len(), SKIPPED_TYPES + 1);
        assert_eq!((skipped["t0"], skipped["other"]), (2, SKIPPED_TYPES as u32 + 1));
    }
}
