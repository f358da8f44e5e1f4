//! Finding and killing everything that a command or a sandbox started.
//!
//! A process belongs to a target by its environment's markers, by its process group, by its
//! parents, or because it works inside the sandbox and belongs to no other command. A process that
//! wipes its environment, leaves its session and its parent and works elsewhere is out of reach.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{COMMAND_MARKER, SANDBOX_MARKER};
use crate::BackendError;

/// Rounds of looking and killing before a target counts as unkillable.
const KILL_ROUNDS: u32 = 60;
/// Longest pause between two rounds.
const KILL_PAUSE: Duration = Duration::from_millis(50);

/// Whose processes are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Target {
    /// `NAME=VALUE` as it stands in an environment.
    sandbox_mark: Vec<u8>,
    sandbox_dir: PathBuf,
    /// `None`: every command of the sandbox.
    command_mark: Option<Vec<u8>>,
    /// Process group of the command, once it runs.
    pub group: Option<i32>,
    /// Processes older than this are no concern, in clock ticks since boot.
    pub since_ticks: u64,
}

impl Target {
    /// Everything of a sandbox.
    pub fn sandbox(id: &str, dir: &Path) -> Self {
        Self {
            sandbox_mark: format!("{SANDBOX_MARKER}={id}").into_bytes(),
            sandbox_dir: dir.to_owned(),
            command_mark: None,
            group: None,
            since_ticks: 0,
        }
    }

    /// Everything of one command of a sandbox.
    pub fn command(id: &str, dir: &Path, command: u64) -> Self {
        let mark = format!("{COMMAND_MARKER}={command}").into_bytes();
        Self { command_mark: Some(mark), ..Self::sandbox(id, dir) }
    }

    fn find(&self) -> Vec<i32> {
        let mut seen = Vec::new();
        let own = nix::unistd::getpid().as_raw();
        for stat in stats() {
            let concerned = stat.pid != own && stat.start_ticks >= self.since_ticks;
            if concerned {
                let side = self.side(&stat);
                seen.push((stat, side));
            }
        }
        let mine = closure(&seen, Side::Mine);
        let others = closure(&seen, Side::Others);
        let living = |stat: &Stat| stat.state != b'Z' && stat.state != b'X';
        let taken = seen.iter().filter(|(stat, side)| {
            let stray = *side == Side::Stray && !others.contains(&stat.pid);
            living(stat) && (mine.contains(&stat.pid) || stray)
        });
        taken.map(|(stat, _)| stat.pid).collect()
    }

    fn side(&self, stat: &Stat) -> Side {
        if self.group == Some(stat.group) {
            return Side::Mine;
        }
        let environ = std::fs::read(format!("/proc/{}/environ", stat.pid)).unwrap_or_default();
        let has = |mark: &[u8]| environ.split(|&byte| byte == 0).any(|entry| entry == mark);
        if has(&self.sandbox_mark) {
            return match &self.command_mark {
                Some(mark) if !has(mark) => Side::Others,
                _ => Side::Mine,
            };
        }
        match std::fs::read_link(format!("/proc/{}/cwd", stat.pid)) {
            Ok(cwd) if cwd.starts_with(&self.sandbox_dir) => Side::Stray,
            _ => Side::Nobody,
        }
    }
}

/// Kills until nothing of the target is left. Blocks; call it off the async threads.
pub(super) fn kill_all(target: &Target) -> Result<(), BackendError> {
    let mut pause = Duration::from_millis(1);
    for _ in 0..KILL_ROUNDS {
        let found = target.find();
        if found.is_empty() {
            return Ok(());
        }
        for pid in found {
            match kill(Pid::from_raw(pid), Signal::SIGKILL) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(errno) => tracing::warn!(pid, %errno, "cannot kill a left-over process"),
            }
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(KILL_PAUSE);
    }
    match target.find() {
        left if left.is_empty() => Ok(()),
        left => Err(BackendError::Unusable(format!(
            "processes {left:?} of {} survive SIGKILL; look at them with ps",
            target.sandbox_dir.display()
        ))),
    }
}

/// When a living process started, in clock ticks since boot; `None` when there is none.
pub(super) fn start_ticks(pid: i32) -> Option<u64> {
    let stat = Stat::read(pid)?;
    (stat.state != b'Z' && stat.state != b'X').then_some(stat.start_ticks)
}

/// When a child of ours started, even one that ended and is not waited for yet.
pub(super) fn first_ticks(pid: i32) -> Option<u64> {
    Stat::read(pid).map(|stat| stat.start_ticks)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Mine,
    /// Of another command of the same sandbox.
    Others,
    /// Works in the sandbox without a marker.
    Stray,
    Nobody,
}

/// The processes of one side and all their descendants of no other side.
fn closure(seen: &[(Stat, Side)], side: Side) -> HashSet<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (stat, own_side) in seen {
        if matches!(own_side, Side::Nobody | Side::Stray) || *own_side == side {
            children.entry(stat.parent).or_default().push(stat.pid);
        }
    }
    let roots = seen.iter().filter(|(_, own_side)| *own_side == side);
    let mut open: Vec<i32> = roots.map(|(stat, _)| stat.pid).collect();
    let mut found: HashSet<i32> = open.iter().copied().collect();
    while let Some(pid) = open.pop() {
        for &child in children.get(&pid).into_iter().flatten() {
            if found.insert(child) {
                open.push(child);
            }
        }
    }
    found
}

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stat {
    pid: i32,
    state: u8,
    parent: i32,
    group: i32,
    start_ticks: u64,
}

impl Stat {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
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

fn stats() -> Vec<Stat> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Stat::read).collect()
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
    fn descendants_follow_their_side_and_stop_at_another() {
        let stat = |pid, parent| Stat { pid, state: b'S', parent, group: 1, start_ticks: 0 };
        let seen = [
            (stat(10, 1), Side::Mine),
            (stat(11, 10), Side::Nobody),
            (stat(12, 11), Side::Stray),
            (stat(13, 10), Side::Others),
            (stat(14, 13), Side::Stray),
            (stat(15, 1), Side::Nobody),
        ];
        assert_eq!(closure(&seen, Side::Mine), HashSet::from([10, 11, 12]));
        assert_eq!(closure(&seen, Side::Others), HashSet::from([13, 14]));
    }
}
