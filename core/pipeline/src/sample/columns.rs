//! The digest that guards a sample's columns.

use super::Sample;

/// blake3 in hex over, in this order and all little-endian: the number of tokens (u64), tokens
/// (u32 each), loss mask (u8 each), log-probabilities (f32 each), the number of turns (u64), start
/// and end of each turn (u32 each), the number of weight-version spans (u64), and each span's start
/// (u32), label length (u64) and label.
pub fn columns_blake3(sample: &Sample) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(sample.tokens.len() as u64).to_le_bytes());
    for id in &sample.tokens {
        hasher.update(&id.to_le_bytes());
    }
    hasher.update(&sample.loss_mask);
    for logprob in &sample.logprobs {
        hasher.update(&logprob.to_le_bytes());
    }
    hasher.update(&(sample.turns.len() as u64).to_le_bytes());
    for span in &sample.turns {
        hasher.update(&span.start.to_le_bytes());
        hasher.update(&span.end.to_le_bytes());
    }
    hasher.update(&(sample.weight_versions.len() as u64).to_le_bytes());
    for (start, version) in &sample.weight_versions {
        hasher.update(&start.to_le_bytes());
        hasher.update(&(version.len() as u64).to_le_bytes());
        hasher.update(version.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}
