//! Random numbers of the seed: SplitMix64.

use std::ops::Range;

use super::world::with;

/// The world's source of randomness.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of the range, which must not be empty.
    pub(super) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start).max(1)
    }

    /// Whether something of this probability, in thousandths, happens.
    pub(super) fn chance(&mut self, thousandths: u32) -> bool {
        self.within(0..1_000) < u64::from(thousandths)
    }
}

/// 64 random bits.
pub fn draw() -> u64 {
    with(|world| world.rng.next())
}

/// A number of the range, which must not be empty.
pub fn pick(range: Range<u64>) -> u64 {
    with(|world| world.rng.within(range))
}

/// Whether something of this probability, in thousandths, happens.
pub fn chance(thousandths: u32) -> bool {
    with(|world| world.rng.chance(thousandths))
}
