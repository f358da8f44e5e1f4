//! Trajectories: digests, matching, the token tree, branches.
//!
//! Two layers. The message layer finds, by digests of normalised messages, which turn a request
//! continues; the token layer holds the ids, each prefix once. Nothing here renders, and nothing
//! here knows a protocol.

mod digest;
mod element;
mod path;
mod reader;
mod tokens;
mod tree;

pub use digest::Digest;
pub use element::{Element, Evidence, answer_digest, fold};
pub use path::{Habits, Path, Root};
pub use reader::Reader;
pub use tree::{Resume, Trajectory, TreeError};
