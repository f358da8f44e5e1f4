//! Log-probabilities that are a function of the ids before and the id itself, and of nothing else.
//!
//! So the same ids get the same numbers whether they are sampled or given as a prompt, and however
//! they are cut into prompt and output: a sample can be scored again and compared bit by bit.

use rollgate_pipeline::id::TokenId;

/// Steps of one nat; a power of two, so that every value is exact in 32 bits.
const STEPS: u64 = 1 << 13;
/// Values lie above the negative of this, in nats.
const NATS: u64 = 6;

/// All ids so far, as a rolling hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Context(u64);

impl Context {
    /// No ids yet.
    pub(super) fn new(seed: u64) -> Self {
        Self(spread(seed ^ 0x5c0_7e5e_ed00))
    }

    /// The context followed by `id`.
    pub(super) fn then(self, id: TokenId) -> Self {
        Self(spread(self.0 ^ (u64::from(id) + 1)))
    }

    /// The context followed by `ids`.
    pub(super) fn over(self, ids: &[TokenId]) -> Self {
        ids.iter().fold(self, |context, id| context.then(*id))
    }

    /// Log-probability of `id` here: in (-6, 0), the same for every caller.
    pub(super) fn logprob(self, id: TokenId) -> f32 {
        let step = spread(self.then(id).0 ^ 0x10_6b0b) % (NATS * STEPS - 1) + 1;
        -(step as f32) / STEPS as f32
    }

    /// A number that stands for this context.
    pub(super) fn number(self) -> u64 {
        self.0
    }
}

/// Spreads a number over all 64 bits (the finalizer of splitmix64).
pub(crate) fn spread(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_range_exact_and_depend_on_all_ids() {
        let context = Context::new(7).over(&[1, 2, 3]);
        for id in 0..2000 {
            let logprob = context.logprob(id);
            assert!(logprob > -6.0 && logprob < 0.0, "{logprob}");
            let text = serde_json::to_string(&f64::from(logprob)).unwrap();
            assert_eq!(text.parse::<f64>().unwrap() as f32, logprob);
        }
        assert_ne!(context.logprob(5), Context::new(7).over(&[1, 2, 4]).logprob(5));
        assert_ne!(context.logprob(5), Context::new(7).over(&[9, 2, 3]).logprob(5));
        assert_ne!(context.logprob(5), Context::new(8).over(&[1, 2, 3]).logprob(5));
        assert_eq!(context, Context::new(7).over(&[1]).over(&[2, 3]));
    }
}
