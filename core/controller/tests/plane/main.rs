//! The control path over a running data plane: its HTTP port, and whole jobs.

#[cfg(test)]
mod api;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod job;
#[cfg(test)]
mod node;
#[cfg(test)]
mod sandboxes;
#[cfg(test)]
mod wire;
