//! Trajectories: digests, matching, the token tree, branches.
//!
//! Two layers. The message layer finds, by digests of normalised messages, which turn a request
//! continues; the token layer holds the ids, each prefix once. Nothing here renders, and nothing
//! here knows a protocol.

mod alike;
mod canonical;
mod difference;
mod digest;
mod element;
mod fold;
mod matching;
mod path;
mod reader;
mod steps;
mod tokens;
mod tree;

pub use digest::Digest;
pub use element::{Element, Evidence, answer_digest};
pub use path::{Habits, Path, Root};
pub use reader::Reader;
pub use tree::{Resume, Trajectory, TreeError};

#[cfg(test)]
mod tests;
