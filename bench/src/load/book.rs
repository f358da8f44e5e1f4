//! What the engine was asked and what it said, for the checks: every prompt must go on from the
//! prompt before it and from what was sampled.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::stock::{Picked, Stock};

/// Most faults that are kept word by word.
const FAULTS_KEPT: usize = 20;

/// What is known of one conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    /// Turns that were answered.
    pub turns: u32,
    /// Length of the last prompt and answer as JSON numbers with commas between.
    pub bytes: usize,
    /// xxh3 of that text.
    pub digest: u64,
    /// Their number.
    pub tokens: usize,
}

impl Chain {
    /// Whether these are the ids of the last prompt and its answer.
    pub fn is_of(&self, tokens: &[u32]) -> bool {
        let mut text = Vec::with_capacity(self.bytes);
        for (n, token) in tokens.iter().enumerate() {
            text.extend_from_slice(if n > 0 { b"," } else { b"" });
            text.extend_from_slice(token.to_string().as_bytes());
        }
        (text.len(), xxh3_64(&text)) == (self.bytes, self.digest)
    }
}

/// Shared by the engine and the load, which run on one thread.
pub(crate) struct Book {
    pub(crate) stock: Stock,
    pub(crate) seed: u64,
    /// Tokens of an answer.
    pub(crate) reply_tokens: Cell<usize>,
    chains: RefCell<HashMap<u64, Chain>>,
    faults: RefCell<Faults>,
}

/// What was wrong.
#[derive(Clone, Default, Debug)]
pub struct Faults {
    /// How often.
    pub count: u64,
    /// The first of them, in words.
    pub words: Vec<String>,
}

/// Conversation and turn, as every request's last text names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) conversation: u64,
    pub(crate) turn: u32,
}

const MARK: &[u8] = b"[run ";

impl Place {
    /// How a text names it.
    pub(crate) fn mark(self) -> String {
        format!("[run {}-{}]", self.conversation, self.turn)
    }

    /// The last place that a text names.
    pub(crate) fn find(text: &[u8]) -> Option<Place> {
        let at = memchr::memmem::rfind(text, MARK)? + MARK.len();
        let end = memchr::memchr(b']', &text[at..])?;
        let (conversation, turn) =
            std::str::from_utf8(&text[at..at + end]).ok()?.split_once('-')?;
        Some(Place { conversation: conversation.parse().ok()?, turn: turn.parse().ok()? })
    }
}

impl Book {
    pub(crate) fn new(stock: Stock, seed: u64) -> Self {
        Self {
            stock,
            seed,
            reply_tokens: Cell::new(300),
            chains: RefCell::default(),
            faults: RefCell::default(),
        }
    }

    /// What is said at a place.
    pub(crate) fn reply(&self, place: Place) -> Picked {
        self.stock.pick(self.seed, place.conversation, place.turn, self.reply_tokens.get())
    }

    /// Takes a prompt, as JSON numbers with commas between. Returns its length in tokens.
    pub(crate) fn take_prompt(&self, place: Place, ids: &[u8], picked: &Picked) -> usize {
        let mut chains = self.chains.borrow_mut();
        let before = chains.get(&place.conversation);
        let commas = |ids: &[u8]| memchr::memchr_iter(b',', ids).count();
        let prompt = match before {
            None => commas(ids) + 1,
            Some(chain) if ids.get(chain.bytes) == Some(&b',') => {
                if xxh3_64(&ids[..chain.bytes]) != chain.digest {
                    self.fault(|| {
                        format!("{}: the prompt does not go on from what was sampled", place.mark())
                    });
                }
                chain.tokens + commas(&ids[chain.bytes..])
            }
            Some(_) => {
                self.fault(|| {
                    format!("{}: the prompt is not longer than what was sampled", place.mark())
                });
                commas(ids) + 1
            }
        };
        let turns = before.map_or(0, |chain| chain.turns);
        if turns != place.turn {
            self.fault(|| format!("{}: the engine was called for turn {turns} next", place.mark()));
        }
        let mut hasher = Xxh3::new();
        hasher.update(ids);
        let mut bytes = ids.len();
        for piece in self.stock.said(picked) {
            hasher.update(b",");
            hasher.update(piece.ids_json.as_bytes());
            bytes += 1 + piece.ids_json.len();
        }
        let tokens = prompt + picked.tokens;
        let chain = Chain { turns: place.turn + 1, bytes, digest: hasher.digest(), tokens };
        chains.insert(place.conversation, chain);
        prompt
    }

    /// What became of a conversation; it is forgotten.
    pub(crate) fn close(&self, conversation: u64) -> Option<Chain> {
        self.chains.borrow_mut().remove(&conversation)
    }

    /// Notes a fault.
    pub(crate) fn fault(&self, words: impl FnOnce() -> String) {
        let mut faults = self.faults.borrow_mut();
        faults.count += 1;
        if faults.words.len() < FAULTS_KEPT {
            faults.words.push(words());
        }
    }

    /// The faults since the last look.
    pub(crate) fn faults(&self) -> Faults {
        self.faults.take()
    }
}
