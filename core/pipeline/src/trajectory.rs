//! Trajectories: digests, matching, the token tree, branches.
//!
//! Two layers. The message layer finds, by digests of normalised messages, which turn a request
//! continues; the token layer holds the ids, each prefix once. Nothing here renders, and nothing
//! here knows a protocol.
//!
//! Two history modes. *Sticky*: a message is the same where it means the same (loose digests), or
//! where a rule says so; the engine goes on from what it saw and sampled, and what the agent's copy
//! reads otherwise is counted. *Faithful*: a message is the same where a template could see no
//! difference (strict digests), or where the template writes it as the sampled text.
//!
//! Tool-call ids never count, in either mode. Templates that print them (Kimi K2's, Mistral's) show
//! the ids of the answer that was sampled, also in a faithful session whose agent rewrote them; new
//! messages are shown as they come.
//!
//! Decided where public reports disagree: an answer without its thought is the same turn in sticky
//! mode, and in faithful mode if the template drops thoughts itself (J01, J03). A masked secret is
//! the same turn in sticky mode, another branch in faithful mode; stored ids are never masked (J10).
//! What lost more than 64 tokens outside masks is never the same turn. A request sent twice makes
//! two turns of one prompt; the agent goes on from the one whose answer it shows (J12).

mod alike;
mod canonical;
mod difference;
mod digest;
mod element;
mod fold;
mod matching;
mod path;
mod piece;
mod reader;
mod recent;
mod root;
mod steps;
mod tokens;
mod tree;
mod work;

pub use digest::Digest;
pub use element::{Element, answer_digest};
pub use path::{Habits, Path};
pub use reader::Reader;
pub use root::{Root, Stem, ToolDigests};
pub use tree::{Resume, Trajectory, TreeError};

#[cfg(test)]
mod tests;
