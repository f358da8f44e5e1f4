//! Randomness from a seed, and what is made of it: the pause of a retry.

use super::Backoff;

/// A small generator (SplitMix64). Good enough to spread load, and for nothing else.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `most`, both included.
    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        match most.checked_add(1) {
            Some(count) => self.next() % count,
            None => self.next(),
        }
    }

    /// The pause before the retry of this number, from 1, in milliseconds.
    pub(super) fn pause(&mut self, backoff: Backoff, retry: u32) -> u64 {
        let doubled = 1_u64.checked_shl(retry.saturating_sub(1)).unwrap_or(u64::MAX);
        let whole = backoff.first_ms.saturating_mul(doubled).min(backoff.most_ms);
        whole - self.up_to(whole / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound_and_keep_at_least_half() {
        let backoff = Backoff { first_ms: 1_000, most_ms: 10_000 };
        let mut chance = Chance::new(7);
        for (retry, whole) in [(1, 1_000), (2, 2_000), (4, 8_000), (5, 10_000), (200, 10_000)] {
            let all: Vec<u64> = (0..100).map(|_| chance.pause(backoff, retry)).collect();
            assert!(all.iter().all(|ms| (whole / 2..=whole).contains(ms)), "{retry}: {all:?}");
            assert!(all.iter().any(|ms| *ms != all[0]), "they spread");
        }
        assert_eq!(chance.pause(Backoff { first_ms: 0, most_ms: 0 }, 3), 0);
    }
}
