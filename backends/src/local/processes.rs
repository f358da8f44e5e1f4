//! Finding and killing everything that a command or a sandbox started.
//!
//! A process belongs to a target by its environment's markers, by its process group, by its
//! parents, or because it works inside the sandbox and belongs to no other command. A process that
//! wipes its environment, leaves its session and its parent and works elsewhere is out of reach.

mod snapshot;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::BackendError;
use snapshot::{Process, Stat, snapshot};

/// Rounds of looking and killing before a target counts as unkillable.
const KILL_ROUNDS: u32 = 60;
/// Looks in a row that must find nothing.
const EMPTY_LOOKS: u32 = 2;
/// Longest pause between two rounds.
const KILL_PAUSE: Duration = Duration::from_millis(50);

/// Whose processes are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Target {
    sandbox: Vec<u8>,
    sandbox_dir: PathBuf,
    /// `None`: every command of the sandbox.
    command: Option<Vec<u8>>,
    /// Process group of the command, once it runs.
    pub group: Option<i32>,
    /// Processes older than this are no concern, in clock ticks since boot.
    pub since_ticks: u64,
}

impl Target {
    /// Everything of a sandbox.
    pub fn sandbox(id: &str, dir: &Path) -> Self {
        Self {
            sandbox: id.as_bytes().to_vec(),
            sandbox_dir: dir.to_owned(),
            command: None,
            group: None,
            since_ticks: 0,
        }
    }

    /// Everything of one command of a sandbox.
    pub fn command(id: &str, dir: &Path, command: u64) -> Self {
        let command = Some(command.to_string().into_bytes());
        Self { command, ..Self::sandbox(id, dir) }
    }

    fn find(&self) -> Vec<i32> {
        let own = nix::unistd::getpid().as_raw();
        let processes = snapshot();
        let concerned = processes.iter().filter(|process| {
            process.stat.pid != own && process.stat.start_ticks >= self.since_ticks
        });
        let seen: Vec<(Stat, Side)> =
            concerned.map(|process| (process.stat, self.side(process))).collect();
        if seen.iter().all(|(_, side)| matches!(side, Side::Nobody | Side::Others)) {
            return Vec::new();
        }
        let mine = closure(&seen, Side::Mine);
        let others = closure(&seen, Side::Others);
        let taken = seen.iter().filter(|(stat, side)| {
            let stray = *side == Side::Stray && !others.contains(&stat.pid);
            stat.living() && (mine.contains(&stat.pid) || stray)
        });
        taken.map(|(stat, _)| stat.pid).collect()
    }

    fn side(&self, process: &Process) -> Side {
        if self.group == Some(process.stat.group) {
            return Side::Mine;
        }
        if process.sandbox.as_ref() == Some(&self.sandbox) {
            let same = self.command.is_none() || process.command == self.command;
            return if same { Side::Mine } else { Side::Others };
        }
        match &process.cwd {
            Some(cwd) if cwd.starts_with(&self.sandbox_dir) => Side::Stray,
            _ => Side::Nobody,
        }
    }
}

/// Kills until nothing of the target is left. Blocks; call it off the async threads.
///
/// One empty look proves little: a process that forks and ends while `/proc` is read may hide its
/// child from that reading, but not from the next.
pub(super) fn kill_all(target: &Target) -> Result<(), BackendError> {
    let mut pause = Duration::from_millis(1);
    let mut empty_looks = 0;
    for _ in 0..KILL_ROUNDS {
        let found = target.find();
        if found.is_empty() {
            empty_looks += 1;
            if empty_looks == EMPTY_LOOKS {
                return Ok(());
            }
            continue;
        }
        empty_looks = 0;
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
pub(crate) fn start_ticks(pid: i32) -> Option<u64> {
    Stat::read(pid).filter(|stat| stat.living()).map(|stat| stat.start_ticks)
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

#[cfg(test)]
mod tests {
    use super::*;

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
