//! How many tokens texts have, of those that were counted before.
//!
//! What an agent says that was not sampled here is counted for the record, turn after turn where a
//! template is rendered whole. It is encoded once.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::limits::COUNTED_TEXTS;
use crate::render::{ControlText, Model};

/// Counts by digest of the text. Two halves: when the fresh one is full, it becomes the old one.
#[derive(Default)]
pub(super) struct Counts {
    halves: RefCell<Halves>,
}

#[derive(Default)]
struct Halves {
    fresh: HashMap<[u8; 32], u32>,
    old: HashMap<[u8; 32], u32>,
}

/// Texts shorter than this are encoded about as fast as they are looked up, in bytes.
const SHORT: usize = 64;

impl Counts {
    /// How many ids the text has, as plain text. The error is the tokenizer's.
    pub fn tokens(&self, model: &Model, text: &str) -> Result<u32, String> {
        if text.len() < SHORT {
            return count(model, text);
        }
        let digest = *blake3::hash(text.as_bytes()).as_bytes();
        if let Some(known) = self.halves.borrow_mut().get(&digest) {
            return Ok(known);
        }
        let tokens = count(model, text)?;
        self.halves.borrow_mut().put(digest, tokens);
        Ok(tokens)
    }
}

fn count(model: &Model, text: &str) -> Result<u32, String> {
    let mut ids = Vec::new();
    model.tokenizer.encode(text, ControlText::Plain, &mut ids)?;
    Ok(u32::try_from(ids.len()).unwrap_or(u32::MAX))
}

impl Halves {
    fn get(&mut self, digest: &[u8; 32]) -> Option<u32> {
        if let Some(known) = self.fresh.get(digest) {
            return Some(*known);
        }
        let known = self.old.remove(digest)?;
        self.put(*digest, known);
        Some(known)
    }

    fn put(&mut self, digest: [u8; 32], tokens: u32) {
        if self.fresh.len() >= COUNTED_TEXTS / 2 {
            self.old = std::mem::take(&mut self.fresh);
        }
        self.fresh.insert(digest, tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample_model::test_model;

    #[test]
    fn a_text_is_counted_once_and_what_is_kept_is_bounded() {
        let (model, counts) = (test_model(), Counts::default());
        let text = |at: usize| format!("{at:>70}<|im_end|>");
        for at in 0..COUNTED_TEXTS + 10 {
            let (got, expected) = (counts.tokens(&model, &text(at)), count(&model, &text(at)));
            assert_eq!(got, expected);
            assert_eq!(counts.tokens(&model, &text(at)), expected);
            let halves = counts.halves.borrow();
            assert!(halves.fresh.len() + halves.old.len() <= COUNTED_TEXTS);
        }
        let halves = counts.halves.borrow();
        let digest = |at: usize| *blake3::hash(text(at).as_bytes()).as_bytes();
        assert!(halves.fresh.contains_key(&digest(COUNTED_TEXTS)));
        assert!(!halves.fresh.contains_key(&digest(0)) && !halves.old.contains_key(&digest(0)));
    }
}
