//! The data path of Rollgate, pure: bytes in, bytes out.
//!
//! An [`exchange::Exchange`] is driven by a shard that moves bytes, time and random bits; every
//! decision is taken here. Nothing in this crate does I/O, reads a clock, draws random bits, starts
//! a thread or awaits.

pub mod engine;
pub mod exact;
pub mod exchange;
pub mod fault;
#[cfg(test)]
mod fuzz;
pub mod http;
pub mod id;
pub mod id_text;
mod ingest;
pub mod limits;
pub mod parse;
pub mod planted;
pub mod protocol;
pub mod record;
pub mod render;
pub mod rules;
pub mod sample;
pub mod scene;
pub mod trajectory;
pub mod turn;
