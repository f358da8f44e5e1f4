//! Columns of numbers in JSON: token ids out, ids and log-probabilities in.
//!
//! A prompt is tens of thousands of ids, so neither direction builds a JSON tree.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use crate::id::TokenId;

/// Bytes to reserve per id: five digits and a comma, which fits vocabularies below 100 000 exactly
/// and others nearly.
const BYTES_PER_ID: usize = 7;
/// Most digits of a `u32`.
const DIGITS: usize = 10;

/// Ids of the pieces as the inside of one JSON array: `1,2,3`.
pub fn write_ids(pieces: &[&[TokenId]]) -> Vec<u8> {
    let count: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut out = Vec::with_capacity(count * BYTES_PER_ID);
    for &id in pieces.iter().copied().flatten() {
        let mut digits = [0_u8; DIGITS];
        let mut first = DIGITS;
        let mut rest = id;
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(&digits[first..]);
    }
    out
}

/// Log-probabilities with the id that each belongs to, where the engine names it.
#[derive(Debug, Default, PartialEq)]
pub struct Column {
    /// The id of each entry.
    pub ids: Vec<Option<TokenId>>,
    /// The log-probability of each entry; `None` only where nothing precedes a prompt token.
    pub logprobs: Vec<Option<f32>>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_as_json() {
        let check = |pieces: &[&[TokenId]], json: &str| {
            assert_eq!(String::from_utf8(write_ids(pieces)).unwrap(), json);
        };
        check(&[], "");
        check(&[&[], &[0]], "0");
        check(&[&[1, 10], &[], &[109, 151_645]], "1,10,109,151645");
        check(&[&[u32::MAX]], "4294967295");
    }

    proptest::proptest! {
        #[test]
        fn ids_read_back(a: Vec<TokenId>, b: Vec<TokenId>) {
            let json = [b"[".to_vec(), write_ids(&[&a, &b]), b"]".to_vec()].concat();
            let read: Vec<TokenId> = serde_json::from_slice(&json).unwrap();
            proptest::prop_assert_eq!(read, [a, b].concat());
        }
    }
}
