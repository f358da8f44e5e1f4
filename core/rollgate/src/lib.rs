//! The program, as a library for its tests.

pub mod agent;
