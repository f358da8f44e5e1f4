//! Whole exchanges through sockets, on both drivers, against a scripted engine.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "what surprises a test ends it, a skipped driver is told, and tests live in real time"
)]

mod agent;
mod aside;
mod bounded;
mod closing;
mod counts;
mod draining;
mod engine;
mod engines;
mod exchanges;
mod hostile;
mod journals;
mod moves;
mod node;
mod odd;
mod orphans;
mod pool;
mod retries;
mod shards;
