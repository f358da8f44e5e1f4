//! Whole exchanges through sockets, on both drivers, against a scripted engine.

mod agent;
mod engine;
mod engines;
mod exchanges;
mod journals;
mod node;
mod shards;
