//! What runs on this machine, read from `/proc`.
//!
//! Reading it costs time for every process there is, so callers that ask at the same time share
//! one reading: a thousand commands that end together need a few readings, not a thousand.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::super::{COMMAND_MARKER, SANDBOX_MARKER};

/// The readings of this process. One is made at a time; whoever asks meanwhile waits for the next one
/// together with all the others, whether or not he was there first.
static READINGS: Mutex<Readings> =
    Mutex::new(Readings { begun: 0, ended: 0, under_way: false, latest: None });
static ENDED: Condvar = Condvar::new();

#[derive(Debug)]
struct Readings {
    /// Readings that were begun, and the number of the latest that ended.
    begun: u64,
    ended: u64,
    under_way: bool,
    latest: Option<Arc<Vec<Process>>>,
}

/// One process, as far as we need to know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Process {
    pub stat: Stat,
    /// Values of the markers in its environment.
    pub sandbox: Option<Vec<u8>>,
    pub command: Option<Vec<u8>>,
    /// Where it works; only read when it has no marker.
    pub cwd: Option<PathBuf>,
}

/// A reading that began after this call.
pub(super) fn snapshot() -> Arc<Vec<Process>> {
    let mut readings = lock();
    let wanted = readings.begun + 1;
    loop {
        if let Some(latest) = readings.latest.as_ref().filter(|_| readings.ended >= wanted) {
            return latest.clone();
        }
        if readings.under_way {
            readings = ENDED.wait(readings).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        readings.under_way = true;
        readings.begun += 1;
        let mut turn = Turn { number: readings.begun, read: None };
        drop(readings);
        turn.read = Some(Arc::new(read_all()));
        drop(turn);
        readings = lock();
    }
}

/// Whoever reads for all. Its end, also by a panic, lets the others go on.
struct Turn {
    number: u64,
    read: Option<Arc<Vec<Process>>>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut readings = lock();
        readings.under_way = false;
        if let Some(read) = self.read.take() {
            (readings.latest, readings.ended) = (Some(read), self.number);
        }
        ENDED.notify_all();
    }
}

fn lock() -> MutexGuard<'static, Readings> {
    // A reading is stored whole or not at all, so a panic elsewhere does not spoil it.
    READINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_all() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Stat::read).map(read).collect()
}

fn read(stat: Stat) -> Process {
    let environ = std::fs::read(format!("/proc/{}/environ", stat.pid)).unwrap_or_default();
    let value = |name: &str| {
        let mut entries = environ.split(|&byte| byte == 0);
        let rest = entries.find_map(|entry| entry.strip_prefix(name.as_bytes()))?;
        rest.strip_prefix(b"=").map(<[u8]>::to_vec)
    };
    let sandbox = value(SANDBOX_MARKER);
    let cwd = match sandbox {
        Some(_) => None,
        None => std::fs::read_link(format!("/proc/{}/cwd", stat.pid)).ok(),
    };
    Process { stat, command: value(COMMAND_MARKER), sandbox, cwd }
}

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stat {
    pub pid: i32,
    pub state: u8,
    pub parent: i32,
    pub group: i32,
    /// Clock ticks from boot to its start.
    pub start_ticks: u64,
}

impl Stat {
    pub fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether it can still do anything; a zombie cannot.
    pub fn living(self) -> bool {
        self.state != b'Z' && self.state != b'X'
    }

    /// The name in parentheses may hold anything, so fields count from the last one.
    fn parse(pid: i32, line: &[u8]) -> Option<Self> {
        let after = line.iter().rposition(|&byte| byte == b')')? + 1;
        let rest = str::from_utf8(line.get(after..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            pid,
            state: *fields.first()?.as_bytes().first()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            start_ticks: fields.get(19)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let line = b"7 (a) S 9 (b) R 3 5 6 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9";
        let expected = Stat { pid: 7, state: b'R', parent: 3, group: 5, start_ticks: 4242 };
        assert_eq!(Stat::parse(7, line), Some(expected));
        assert_eq!(Stat::parse(7, b"7 (cut"), None);
    }

    #[test]
    fn many_that_ask_at_once_share_a_few_readings() {
        let before = lock().begun;
        let threads: Vec<_> = (0..200)
            .map(|_| {
                std::thread::spawn(|| {
                    let first = snapshot();
                    let second = snapshot();
                    assert!(!Arc::ptr_eq(&first, &second), "each look is one of its own");
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let made = lock().begun - before;
        assert!(made < 100, "{made} readings for 400 looks");
    }

    #[test]
    fn a_reading_shows_what_started_before_it_was_asked_for() {
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .env(SANDBOX_MARKER, "snapshot-test")
            .env(COMMAND_MARKER, "7")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let seen = snapshot().iter().find(|process| process.stat.pid == pid).cloned().unwrap();
        assert_eq!(seen.sandbox.as_deref(), Some(&b"snapshot-test"[..]));
        assert_eq!(seen.command.as_deref(), Some(&b"7"[..]));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(snapshot().iter().all(|process| process.stat.pid != pid));
    }
}
