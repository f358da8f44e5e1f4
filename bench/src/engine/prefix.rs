//! A prefix cache as engines have it: whole blocks of ids that were seen before.

use std::collections::HashSet;

use rollgate_pipeline::id::TokenId;

use super::score::{Context, spread};

/// Most blocks remembered; then the cache starts anew, as an engine that runs out of memory does.
const BLOCKS: usize = 1 << 22;

/// Which blocks are cached: each by a hash of all ids up to its end.
pub(super) struct PrefixCache {
    block_tokens: usize,
    ends: HashSet<u64>,
}

impl PrefixCache {
    /// An empty cache with blocks of so many tokens, at least one.
    pub(super) fn new(block_tokens: u32) -> Self {
        Self { block_tokens: block_tokens.max(1) as usize, ends: HashSet::new() }
    }

    /// Takes a call, and tells how many ids of its prompt need not be computed: whole blocks shared
    /// with an earlier call of the same `salt`, never the last id, which has to be computed to
    /// sample the next. Prompt and output are remembered.
    pub(super) fn take(&mut self, salt: &str, prompt: &[TokenId], output: &[TokenId]) -> u32 {
        let most = prompt.len().saturating_sub(1) / self.block_tokens;
        let ends: Vec<u64> = self.block_ends(salt, &[prompt, output].concat()).collect();
        let known = ends.iter().take(most).take_while(|end| self.ends.contains(end)).count();
        if self.ends.len() + ends.len() > BLOCKS {
            self.ends.clear();
        }
        self.ends.extend(ends);
        (known * self.block_tokens) as u32
    }

    fn block_ends(&self, salt: &str, ids: &[TokenId]) -> impl Iterator<Item = u64> {
        let salted = salt.bytes().fold(0, |hash, byte| spread(hash ^ u64::from(byte)));
        ids.chunks_exact(self.block_tokens).scan(Context::new(salted), |context, block| {
            *context = context.over(block);
            Some(context.number())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_of_the_common_prefix_are_cached() {
        // Against the arithmetic: floor(min(common prefix, prompt - 1) / block) * block.
        for block in [1, 3, 16] {
            for common in 0..=50 {
                for more in [0, 1, 20] {
                    let mut cache = PrefixCache::new(block);
                    let first: Vec<TokenId> = (0..50).collect();
                    // The cut between prompt and output does not matter to later calls.
                    assert_eq!(cache.take("", &first[..common], &first[common..]), 0);
                    let mut prompt = first[..common].to_vec();
                    prompt.extend((0..more).map(|n| 1000 + n));
                    let shared = common.min(prompt.len().saturating_sub(1)) as u32;
                    assert_eq!(cache.take("other", &prompt, &[]), 0, "another salt");
                    assert_eq!(cache.take("", &prompt, &[7]), shared / block * block);
                    let again = (prompt.len() as u32).saturating_sub(1) / block * block;
                    assert_eq!(cache.take("", &prompt, &[8]), again);
                }
            }
        }
    }
}
