//! Columns of numbers in JSON: ids and log-probabilities, read without a JSON tree.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use crate::id::TokenId;

/// Log-probabilities with the id that each belongs to, where the engine names it.
#[derive(Debug, Default, PartialEq)]
pub struct Column {
    /// The id of each entry.
    pub ids: Vec<Option<TokenId>>,
    /// The log-probability of each entry; `None` only where nothing precedes a prompt token.
    pub logprobs: Vec<Option<f32>>,
}

impl Column {
    /// An empty one with room for a usual answer.
    pub fn with_room() -> Self {
        const USUAL: usize = 512;
        Self { ids: Vec::with_capacity(USUAL), logprobs: Vec::with_capacity(USUAL) }
    }
}

/// One entry of a [`Column`], in the engine's spelling.
pub trait Entry {
    /// The id and its log-probability.
    fn pair(self) -> (Option<TokenId>, Option<f32>);
}

/// Reads a JSON array of entries straight into a [`Column`].
pub fn column<'de, E, D>(deserializer: D) -> Result<Option<Column>, D::Error>
where
    E: Entry + Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Columns<E>(PhantomData<E>);

    impl<'de, E: Entry + Deserialize<'de>> Visitor<'de> for Columns<E> {
        type Value = Option<Column>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of log-probabilities or null")
        }

        fn visit_unit<A>(self) -> Result<Self::Value, A> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut column = Column::default();
            while let Some(entry) = seq.next_element::<E>()? {
                let (id, logprob) = entry.pair();
                column.ids.push(id);
                column.logprobs.push(logprob);
            }
            Ok(Some(column))
        }
    }

    deserializer.deserialize_any(Columns::<E>(PhantomData))
}

/// An entry of vLLM's `logprobs.content`.
#[derive(Deserialize)]
pub struct Named<'a> {
    token_id: Option<TokenId>,
    #[serde(borrow)]
    token: Option<Cow<'a, str>>,
    logprob: Option<f32>,
}

impl Entry for Named<'_> {
    fn pair(self) -> (Option<TokenId>, Option<f32>) {
        (self.token_id.or_else(|| self.token.as_deref().and_then(spelled_id)), self.logprob)
    }
}

/// SGLang's `[logprob, id, text]`.
#[derive(Deserialize)]
pub struct Triple(Option<f32>, TokenId, IgnoredAny);

impl Entry for Triple {
    fn pair(self) -> (Option<TokenId>, Option<f32>) {
        let Triple(logprob, id, IgnoredAny) = self;
        (Some(id), logprob)
    }
}

/// The id in `token_id:15`, the form in which vLLM writes tokens on request.
pub fn spelled_id(token: &str) -> Option<TokenId> {
    token.strip_prefix("token_id:")?.parse().ok()
}
