//! Matching and trees, in small conversations.

mod cases;
mod deep;
mod digests;
mod matching;
mod mutations;
mod play;
mod random;
mod recent;
