//! Trajectories: digests, matching, the token tree, branches.
//!
//! Nothing here renders, and nothing here knows a protocol.

mod digest;

pub use digest::Digest;
