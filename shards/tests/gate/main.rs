//! Whole exchanges through sockets, on both drivers, against a scripted engine.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "what surprises a test ends it, and a skipped driver is told"
)]

mod agent;
mod closing;
mod counts;
mod engine;
mod engines;
mod exchanges;
mod journals;
mod node;
mod orphans;
mod pool;
mod retries;
mod shards;
