//! Digests of elements and of chains of elements.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The first 128 bits of a blake3 hash; hex in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 16]);

impl Digest {
    /// Digest of a finished hasher.
    pub fn of(hasher: &blake3::Hasher) -> Self {
        let mut first = [0; 16];
        first.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(first)
    }

    /// Digest of digests, one behind the other: four at most.
    pub(super) fn joined<const N: usize>(parts: [Digest; N]) -> Self {
        const { assert!(N <= 4) };
        let mut bytes = [0; 64];
        for (slot, part) in bytes.chunks_exact_mut(16).zip(&parts) {
            slot.copy_from_slice(&part.0);
        }
        let mut first = [0; 16];
        first.copy_from_slice(&blake3::hash(&bytes[..16 * N]).as_bytes()[..16]);
        Self(first)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(hex: String) -> Result<Self, String> {
        let valid = hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit());
        let word = valid.then(|| u128::from_str_radix(&hex, 16)).and_then(Result::ok);
        word.map(|word| Self(word.to_be_bytes())).ok_or_else(|| format!("not a digest: {hex:?}"))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}
