//! What aborted calls had not said yet.

use std::collections::VecDeque;

use rollgate_pipeline::id::TokenId;

/// Most aborted calls that are remembered; the oldest are forgotten first.
const KEPT: usize = 1024;

/// Rests of aborted calls, found by the prompt that goes on with them.
#[derive(Default)]
pub(super) struct Unfinished(VecDeque<(blake3::Hash, Vec<TokenId>)>);

impl Unfinished {
    /// Keeps what `said` has behind its first `end` ids, which the caller got for `prompt`.
    pub(super) fn keep(&mut self, prompt: &[TokenId], said: &[TokenId], end: usize) {
        let (given, rest) = said.split_at(end.min(said.len()));
        self.0.push_back((digest(prompt.iter().chain(given)), rest.to_vec()));
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    /// What is said to a prompt that ends in what an aborted call returned.
    pub(super) fn rest(&self, prompt: &[TokenId]) -> Option<Vec<TokenId>> {
        if self.0.is_empty() {
            return None;
        }
        let wanted = digest(prompt.iter());
        // An abort that returned nothing leaves nothing to go on with.
        let found = self.0.iter().rev().find(|(prompt, _)| *prompt == wanted)?;
        Some(found.1.clone())
    }
}

fn digest<'a>(ids: impl Iterator<Item = &'a TokenId>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    ids.for_each(|id| {
        hasher.update(&id.to_le_bytes());
    });
    hasher.finalize()
}
