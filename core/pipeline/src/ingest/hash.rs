//! Hashes of bytes, keyed so that nobody can prepare two texts of one hash.

use twox_hash::XxHash3_128;
use twox_hash::xxhash3_128::Hasher;

/// Makes hashes: XXH3-128 with a seed.
#[derive(Clone, Copy)]
pub(crate) struct Hash {
    seed: u64,
}

/// What bytes are recognised by: hash and length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    pub(super) hash: u128,
    pub(super) bytes: u32,
}

impl Hash {
    /// With this seed, a secret of the process.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The hash of these bytes.
    pub(crate) fn of(self, bytes: &[u8]) -> u128 {
        XxHash3_128::oneshot_with_seed(self.seed, bytes)
    }

    /// What these bytes are recognised by. Bodies are far shorter than 4 GiB.
    pub(super) fn key(self, bytes: &[u8]) -> Key {
        Key { hash: self.of(bytes), bytes: bytes.len() as u32 }
    }

    /// A hash of what is still to come.
    pub(super) fn begin(self) -> Running {
        Running(Hasher::with_seed(self.seed))
    }
}

/// A hash of the bytes so far.
#[derive(Clone)]
pub(super) struct Running(Hasher);

impl Running {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub(super) fn hash(&self) -> u128 {
        self.0.finish_128()
    }
}
