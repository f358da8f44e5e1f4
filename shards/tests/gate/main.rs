//! Whole exchanges through sockets, on both drivers, against a scripted engine.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "what surprises a test ends it, a skipped driver is told, and tests live in real time"
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
