//! How many agents run at once: those of the table and those that tests of their own start.

use std::sync::{Condvar, Mutex, MutexGuard};

/// Agents that run at once. On two cores more of them run into their own timeouts.
pub const AT_ONCE: usize = 2;

static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

/// Leave to run one agent; given back when dropped, also by a panic.
#[derive(Debug)]
pub struct Slot(());

/// Waits until another agent may run.
pub fn take() -> Slot {
    let mut taken = count();
    while *taken >= AT_ONCE {
        taken = FREED.wait(taken).expect("no thread panics with the count");
    }
    *taken += 1;
    Slot(())
}

fn count() -> MutexGuard<'static, usize> {
    TAKEN.lock().expect("no thread panics with the count")
}

impl Drop for Slot {
    fn drop(&mut self) {
        *count() -= 1;
        FREED.notify_one();
    }
}
