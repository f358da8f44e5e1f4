//! The control path: tasks to attempts to samples, and the control port.
//!
//! [`job::run`] takes tasks through attempts (policy in [`plan`], work in [`attempt`]) into an out
//! directory ([`sink`]). [`api::serve`] is the control port. Both speak to the data plane through
//! its `Gate` and read what was recorded from the session's [`journal`].

pub mod api;
pub mod attempt;
pub mod evaluate;
pub mod hooks;
pub mod job;
pub mod journal;
pub mod limits;
pub mod outcome;
pub mod plan;
pub mod pool;
pub mod programs;
pub mod reach;
pub mod reward;
pub mod runtime;
pub mod sink;
pub mod task;

mod host;
mod near;
mod post;
