//! The docker backend against a real Docker engine, which this test starts for itself.
//!
//! Tests named `row_N_…` cover that row of the table of public sandbox failures.

#[cfg(test)]
mod docker {
    pub mod agent;
    pub mod ambiguity;
    pub mod commands;
    pub mod engine;
    pub mod files;
    pub mod images;
    pub mod lifecycle;
    pub mod limits;
    pub mod owners;
    pub mod proxy;
    pub mod restart;
}
