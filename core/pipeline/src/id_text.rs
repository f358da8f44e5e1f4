//! Ids as they are sent to engines: JSON text, each with a comma behind it, so that one text can be
//! put behind another. The text of an id is the shortest: equal texts are equal ids.

use std::ops::Deref;

use bytes::Bytes;

use crate::id::TokenId;

/// Most bytes of an id's text: ten digits and the comma.
const LONGEST: usize = 11;
/// Six digits and the comma fit all vocabularies there are.
const USUAL: usize = 7;
/// Ids below this are written eight digits at once.
const EIGHT_DIGITS: TokenId = 100_000_000;
/// Ids that are written before room is made for more.
const AT_ONCE: usize = 64;

/// Ids whose beginning is spelled already.
#[derive(Clone, Debug, Default)]
pub struct Spelled {
    /// All of them.
    pub ids: Vec<TokenId>,
    /// The text of the first `spelled`.
    text: Bytes,
    spelled: usize,
}

impl Spelled {
    /// Ids of which `text` spells the first `spelled`.
    pub fn new(ids: Vec<TokenId>, text: Bytes, spelled: usize) -> Self {
        debug_assert!(read(&text)[..] == ids[..spelled], "the text is of other ids");
        Self { ids, text, spelled }
    }

    /// The text of all; only what is not spelled yet is written.
    pub fn text(&self) -> Bytes {
        match self.spelled == self.ids.len() {
            true => self.text.clone(),
            false => {
                let rest = &self.ids[self.spelled..];
                let mut out = Vec::with_capacity(self.text.len() + USUAL * rest.len());
                out.extend_from_slice(&self.text);
                write(rest, &mut out);
                out.into()
            }
        }
    }
}

/// How much is spelled makes no difference.
impl PartialEq for Spelled {
    fn eq(&self, other: &Self) -> bool {
        self.ids == other.ids
    }
}

impl Eq for Spelled {}

impl Deref for Spelled {
    type Target = Vec<TokenId>;

    fn deref(&self) -> &Vec<TokenId> {
        &self.ids
    }
}

impl From<Vec<TokenId>> for Spelled {
    fn from(ids: Vec<TokenId>) -> Self {
        Self { ids, ..Self::default() }
    }
}

/// The text of these ids.
pub fn of(ids: &[TokenId]) -> Bytes {
    let mut out = Vec::new();
    write(ids, &mut out);
    out.into()
}

/// Appends the text of these ids.
pub fn write(ids: &[TokenId], out: &mut Vec<u8>) {
    out.reserve(USUAL * ids.len());
    let mut text = [0_u8; AT_ONCE * LONGEST];
    for ids in ids.chunks(AT_ONCE) {
        let mut at = 0;
        for &id in ids {
            at = put(&mut text, at, id);
        }
        out.extend_from_slice(&text[..at]);
    }
}

/// Puts one id and its comma at `at`; where the next one goes. At least [`LONGEST`] bytes follow.
fn put(text: &mut [u8], mut at: usize, id: TokenId) -> usize {
    let mut id = id;
    if id >= EIGHT_DIGITS {
        let high = u64::from(id / EIGHT_DIGITS);
        let (digits, count) = digits(high);
        text[at..at + 8].copy_from_slice(&digits.to_le_bytes());
        at += count;
        id %= EIGHT_DIGITS;
        text[at..at + 8].copy_from_slice(&(eight(u64::from(id)) | ASCII).to_le_bytes());
        text[at + 8] = b',';
        return at + 9;
    }
    let (digits, count) = digits(u64::from(id));
    text[at..at + 8].copy_from_slice(&digits.to_le_bytes());
    text[at + count] = b',';
    at + count + 1
}

const ASCII: u64 = 0x3030_3030_3030_3030;

/// The digits of a number below [`EIGHT_DIGITS`], the first in the lowest byte, and how many.
fn digits(number: u64) -> (u64, usize) {
    let eight = eight(number);
    let zeros = (eight.trailing_zeros() / 8).min(7);
    ((eight | ASCII) >> (8 * zeros), 8 - zeros as usize)
}

/// The values of all eight digits, the first in the lowest byte: pairs of halves, three times.
fn eight(number: u64) -> u64 {
    let fours = (number / 10_000) | (number % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((twos * 103) >> 10) & 0x000F_000F_000F_000F;
    tens | (twos - 10 * tens) << 8
}

/// The ids that a text spells.
pub fn read(text: &[u8]) -> Vec<TokenId> {
    let mut ids = Vec::with_capacity(text.len() / 5);
    let mut id: TokenId = 0;
    for &byte in text {
        match byte {
            b',' => ids.push(std::mem::take(&mut id)),
            digit => id = id.wrapping_mul(10).wrapping_add(TokenId::from(digit.wrapping_sub(b'0'))),
        }
    }
    ids
}

/// The last id of a text.
pub fn last(text: &[u8]) -> Option<TokenId> {
    let before = text.split_last()?.1.iter().rposition(|&byte| byte == b',');
    read(&text[before.map_or(0, |comma| comma + 1)..]).pop()
}

/// How many ids a text has.
pub fn count(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte == b',').count()
}

/// How many bytes the ids have with which both texts begin.
pub fn common(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 64;
    let steps = one.chunks_exact(STEP).zip(other.chunks_exact(STEP));
    let from = STEP * steps.take_while(|(a, b)| a == b).count();
    let rest = one[from..].iter().zip(&other[from..]);
    let equal = from + rest.take_while(|(a, b)| a == b).count();
    one[..equal].iter().rposition(|&byte| byte == b',').map_or(0, |comma| comma + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(ids: &[TokenId]) -> String {
        ids.iter().map(|id| format!("{id},")).collect()
    }

    #[test]
    fn every_number_of_digits_is_written() {
        let mut ids = vec![0, TokenId::MAX];
        for power in (0..10).map(|digits| 10_u32.pow(digits)) {
            ids.extend([power - 1, power, power + 1, power.saturating_mul(9), power * 4]);
        }
        assert_eq!(of(&ids), plain(&ids));
        assert_eq!(read(&of(&ids)), ids);
        assert_eq!(of(&[]), "");
        assert_eq!((last(b""), last(b"7,"), last(b"12,345,")), (None, Some(7), Some(345)));
    }

    proptest! {
        #[test]
        fn ids_are_written_and_read_back(
            ids in prop::collection::vec(prop_oneof![0..200_000_u32, any::<u32>()], 0..200),
        ) {
            let text = of(&ids);
            prop_assert_eq!(&text, &plain(&ids));
            prop_assert_eq!(count(&text), ids.len());
            prop_assert_eq!(last(&text), ids.last().copied());
            prop_assert_eq!(read(&text), ids);
        }

        #[test]
        fn what_two_texts_share_are_whole_ids(
            front in prop::collection::vec(0..30_u32, 0..60),
            a in prop::collection::vec(0..130_u32, 0..3),
            b in prop::collection::vec(0..130_u32, 0..3),
        ) {
            let (one, other) = ([&front[..], &a].concat(), [&front[..], &b].concat());
            let shared = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(common(&of(&one), &of(&other)), of(&one[..shared]).len());
        }
    }
}
