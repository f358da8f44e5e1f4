//! The shards and the pipeline, unchanged, in a world that comes from a seed.
//!
//! [`run`] plays one seed: data plane, engines and agents are tasks of one simulated world, in which
//! packets, disks, engines, agents and whole processes fail. At its end, and at every write to an
//! agent, the promises are checked; what is broken is told with the seed.

mod agent;
mod answer;
mod check;
mod engine;
mod ledger;
mod node;
mod plan;
mod play;
mod stage;
mod talk;
mod wire;

pub use play::{Outcome, run};
