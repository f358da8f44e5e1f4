//! What engines have sampled: the truth that journals are held against.

use std::collections::{BTreeMap, BTreeSet};

use rollgate_pipeline::id::TokenId;

/// One generation that an engine has begun, and perhaps gone on with after a pause.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The session that it was asked for, as the engine was told.
    pub session: String,
    /// The prompt that it began with.
    pub prompt: Vec<TokenId>,
    /// The id of the call that it began with.
    pub request_id: String,
    /// All ids that it has, or would have had without a pause.
    pub ids: Vec<TokenId>,
}

/// All generations by the number in their text.
#[derive(Default)]
pub struct Ledger {
    pub generations: BTreeMap<u64, Generation>,
    /// What is left of a generation, by the prompt that goes on with it.
    pub unfinished: BTreeMap<Vec<TokenId>, (u64, usize)>,
    /// Numbers whose text was given to the kernel for an agent, and when first.
    pub shown: BTreeMap<u64, u64>,
    /// Of these, those that were found in a journal by then.
    pub proved: BTreeSet<u64>,
    /// Replies that were written to their end.
    pub replies: u64,
    /// Pieces written to agents.
    pub pieces: u64,
}

impl Ledger {
    /// The next number.
    pub fn number(&self) -> u64 {
        self.generations.len() as u64 + 1
    }
}

/// The word that carries a number through texts: letters alone, so that no tokenizer and no escaping
/// changes it.
pub fn word(number: u64) -> String {
    format!("zq{number:06}qz")
}

/// The numbers whose words are in these bytes.
pub fn numbers(bytes: &[u8]) -> Vec<u64> {
    let number = |window: &[u8]| {
        let digits = window.strip_prefix(b"zq")?.strip_suffix(b"qz")?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    bytes.windows(10).filter_map(number).collect()
}
