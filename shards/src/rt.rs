//! The runtime as shards see it: sockets, files, time, tasks and random bits, by names of our own.
//!
//! Two stand behind it: monoio, which serves, and with the feature `sim` a simulation in which all
//! of these come from a seed. Nothing else in this crate may ask for the time, for random bits, or
//! for a file.

#[cfg(not(feature = "sim"))]
mod real;
#[cfg(feature = "sim")]
pub mod sim;

pub(crate) use monoio::{buf, io};

#[cfg(not(feature = "sim"))]
pub(crate) use monoio::{fs, spawn};
#[cfg(not(feature = "sim"))]
pub(crate) use real::{disk, net, random, time};
#[cfg(feature = "sim")]
pub(crate) use sim::{disk, fs, net, random, spawn, time};
