//! Ids: what names a session, where it lives, and what names its parts.
//!
//! Everything that finds a session (its id, bucket, owning shard and journal file) is derived from
//! the session key alone, so no table is needed and the key itself is stored nowhere.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A token id of the served model's vocabulary.
pub type TokenId = u32;

/// How many buckets sessions fall into: the top 10 bits of the hash.
pub const BUCKETS: u16 = 1 << 10;

/// The secret that opens one session on the agents' port: `rg-` and 128 random bits in hex.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey(String);

impl SessionKey {
    /// The key made of these random bits.
    pub fn from_random(bits: u128) -> Self {
        Self(format!("rg-{bits:032x}"))
    }

    /// Reads a key; `None` when it does not have the shape of one.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("rg-")?;
        let well_formed =
            hex.len() == 32 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        well_formed.then(|| Self(text.to_owned()))
    }

    /// The text that an agent is given. Never log it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The hash that names the session.
    pub fn hash(&self) -> SessionHash {
        let digest = blake3::hash(self.0.as_bytes());
        let mut first = [0; 16];
        first.copy_from_slice(&digest.as_bytes()[..16]);
        SessionHash(u128::from_be_bytes(first))
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(rg-…)")
    }
}

/// The first 128 bits of blake3 of the session key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionHash(pub u128);

impl SessionHash {
    /// The bucket: the top 10 bits.
    pub fn bucket(self) -> Bucket {
        Bucket((self.0 >> 118) as u16)
    }

    /// Reads the 32 hex digits that [`fmt::Display`] writes.
    pub fn parse(hex: &str) -> Option<Self> {
        if hex.len() != 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(hex, 16).ok().map(Self)
    }
}

impl fmt::Display for SessionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SessionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A session's public name: `NODE-H`, H being the [`SessionHash`] in hex.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId {
    node: String,
    hash: SessionHash,
}

impl SessionId {
    /// The id of the session with this hash on this node.
    pub fn new(node: &str, hash: SessionHash) -> Self {
        Self { node: node.to_owned(), hash }
    }

    /// Reads `NODE-H`.
    pub fn parse(text: &str) -> Option<Self> {
        let (node, hex) = text.rsplit_once('-')?;
        if node.is_empty() {
            return None;
        }
        Some(Self { node: node.to_owned(), hash: SessionHash::parse(hex)? })
    }

    /// The hash part.
    pub fn hash(&self) -> SessionHash {
        self.hash
    }

    /// The node that owns the session.
    pub fn node(&self) -> &str {
        &self.node
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.node, self.hash)
    }
}

impl TryFrom<String> for SessionId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("not a session id: {text:?}"))
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.to_string()
    }
}

/// One of the [`BUCKETS`] groups of sessions that move between shards together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bucket(pub u16);

/// How many shards a node runs. At least one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardCount(pub u16);

/// Which shard.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ShardIndex(pub u16);

impl Bucket {
    /// The shard that owns this bucket: jump consistent hash (Lamping and Veach, 2014), so that a
    /// change of the shard count moves as few sessions as possible.
    pub fn owner(self, shards: ShardCount) -> ShardIndex {
        // The bucket number has ten significant bits; spread them over 64 before jumping.
        let digest = blake3::hash(&self.0.to_le_bytes());
        let mut word = [0; 8];
        word.copy_from_slice(&digest.as_bytes()[..8]);
        let mut key = u64::from_le_bytes(word);
        let (mut chosen, mut next) = (0_i64, 0_i64);
        while next < i64::from(shards.0.max(1)) {
            chosen = next;
            key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
            let step = (1_u64 << 31) as f64 / ((key >> 33) + 1) as f64;
            next = ((chosen + 1) as f64 * step) as i64;
        }
        ShardIndex(chosen as u16)
    }
}

/// A recorded exchange within its session, counted from 0 in journal order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnIndex(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_session() {
        let key = SessionKey::from_random(7);
        assert_eq!(key.expose(), "rg-00000000000000000000000000000007");
        assert_eq!(SessionKey::parse(key.expose()), Some(key.clone()));
        let id = SessionId::new("n1-a", key.hash());
        assert_eq!(SessionId::parse(&id.to_string()), Some(id));
        assert!(!format!("{key:?}").contains("0007"), "a key is never printed");
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        for text in [
            "",
            "rg-",
            "rg-7",
            "sk-00000000000000000000000000000007",
            "rg-0000000000000000000000000000000G",
        ] {
            assert_eq!(SessionKey::parse(text), None, "{text}");
        }
    }

    #[test]
    fn adding_a_shard_only_moves_buckets_to_it() {
        for shards in 1..9 {
            let mut moved = 0;
            for bucket in (0..BUCKETS).map(Bucket) {
                let (before, after) =
                    (bucket.owner(ShardCount(shards)), bucket.owner(ShardCount(shards + 1)));
                if before != after {
                    assert_eq!(after, ShardIndex(shards));
                    moved += 1;
                }
            }
            let fair = i32::from(BUCKETS) / i32::from(shards + 1);
            assert!((fair / 2..fair * 2).contains(&moved), "{moved} of {BUCKETS} at {shards}");
        }
    }
}
