//! What the tests of promises share: the program as a process, engines, agents, and samples.
//!
//! Everything here drives the real `rollgate` binary from outside, over HTTP and files. A helper
//! that meets something unexpected panics with what it saw, the logs of the process included.

pub mod browser;
pub mod chat;
pub mod corpus;
pub mod docker;
pub mod e2b;
pub mod faulty;
pub mod gate;
pub mod hasty;
pub mod launched;
pub mod process;
pub mod program;
pub mod proxy;
pub mod real;
pub mod samples;
pub mod sandboxes;
pub mod scripted;
pub mod swarm;
