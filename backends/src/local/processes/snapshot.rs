//! What runs on this machine, read from `/proc`.
//!
//! Reading it costs time for every process there is, so callers that ask at the same time share
//! one reading: a thousand commands that end together need a few readings, not a thousand.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::super::{COMMAND_MARKER, SANDBOX_MARKER};

/// The latest reading and when it began.
static LATEST: Mutex<Option<(Instant, Arc<Vec<Process>>)>> = Mutex::new(None);

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
    let asked = Instant::now();
    // A reading is stored whole or not at all, so a panic elsewhere does not spoil it.
    let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, processes)) = latest.as_ref().filter(|(began, _)| *began >= asked) {
        return processes.clone();
    }
    let began = Instant::now();
    let processes = Arc::new(read_all());
    *latest = Some((began, processes.clone()));
    processes
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
