//! Scripted engine, simulated agents, load.
