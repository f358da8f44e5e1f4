//! A runtime that comes from a seed: tasks, time, sockets and files of one thread, in memory.
//!
//! A [`World`] has processes. Shards, engines and agents are tasks of one of them each; what a task
//! opens or spawns belongs to its process. [`kill`] ends a process at once: its tasks run no further,
//! the kernel closes its sockets, its files stay as the chosen [`End`] says.
//!
//! The same seed makes the same run. Nothing here asks the machine for time or randomness.

mod clock;
pub(crate) mod disk;
mod files;
mod pipes;
mod rng;
mod sockets;
mod tasks;
mod trace;
mod unsafe_buf;
mod world;

pub use clock::{Late, now_ns, sleep, timeout};
pub use disk::{durable_file, file, files, sync_all};
pub use rng::{chance, draw, pick};
pub use sockets::{Listener, TcpStream};
pub use tasks::{JoinHandle, kill, run_until, spawn, spawn_in};
pub use trace::{note, note_hash, note_lines};
pub use world::{End, Faults, Process, World, current_process, set_faults, watch_writes};

/// Sockets, as [`crate::rt`] shows them.
pub(crate) mod net {
    pub(crate) use super::sockets::{
        Bound, Listener as TcpListener, Loose, TcpStream, duplicate, has_ended, is_quiet, open,
    };
}

/// Files, as [`crate::rt`] shows them.
pub(crate) mod fs {
    pub(crate) use super::files::{File, OpenOptions};
}

/// Time, as [`crate::rt`] shows it.
pub(crate) mod time {
    pub(crate) use super::clock::{now, sleep, timeout, wall_ms};
}

/// Random bits, as [`crate::rt`] shows them.
pub(crate) mod random {
    /// Bits of the seed.
    pub(crate) fn fill(bits: &mut [u8]) -> Result<(), getrandom::Error> {
        bits.chunks_mut(8).for_each(|chunk| {
            let word = super::draw().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        });
        Ok(())
    }
}
