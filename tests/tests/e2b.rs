//! The E2B backend against the test server, with everything that goes wrong on the way.
//!
//! `rowNN` in a name: the public failure of that number in the project's table of 54.

#[path = "e2b/bed.rs"]
mod bed;
#[path = "e2b/commands.rs"]
mod commands;
#[path = "e2b/creates.rs"]
mod creates;
#[path = "e2b/life.rs"]
mod life;
#[path = "e2b/streams.rs"]
mod streams;
#[path = "e2b/ways.rs"]
mod ways;
