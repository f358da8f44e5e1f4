//! The control path over a running data plane: its HTTP port, and whole jobs.

mod api;
mod job;
mod node;
mod sandboxes;
mod wire;
