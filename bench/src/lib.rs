//! Scripted engine, simulated agents, load.

pub mod engine;
