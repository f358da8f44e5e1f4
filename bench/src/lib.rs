//! Scripted engine, simulated agents, load.

pub mod engine;
pub mod load;
pub mod report;
