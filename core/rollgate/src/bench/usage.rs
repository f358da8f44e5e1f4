//! What a process and all that it started used: CPU time and memory, from `/proc`.

use std::time::Duration;

/// Ticks of `/proc/PID/stat` in a second, the same on every Linux that this runs on.
const TICKS_PER_S: f64 = 100.0;

/// CPU time so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    /// In all, exact.
    pub all: Duration,
    /// Outside the kernel, in steps of 10 ms.
    pub user_s: f64,
    /// In the kernel, in steps of 10 ms.
    pub system_s: f64,
}

impl Cpu {
    /// Of these processes and all that they started, those that ended and were waited for included.
    pub fn of_tree(root: u32) -> Cpu {
        let mut sum = Cpu::default();
        for pid in tree(root) {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // The name may hold anything; what follows it does not.
            let fields: Vec<&str> = stat
                .rsplit_once(')')
                .map(|(_, rest)| rest.split_ascii_whitespace().collect())
                .unwrap_or_default();
            let ticks = |field: usize| {
                fields.get(field - 3).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default()
            };
            sum.user_s += (ticks(14) + ticks(16)) / TICKS_PER_S;
            sum.system_s += (ticks(15) + ticks(17)) / TICKS_PER_S;
            sum.all += exact(pid);
        }
        sum
    }

    /// What was used since `before`. Where threads ended in between, ticks know more.
    pub fn since(self, before: Cpu) -> Cpu {
        let (user_s, system_s) = (self.user_s - before.user_s, self.system_s - before.system_s);
        let all = self.all.saturating_sub(before.all);
        let ticked = Duration::from_secs_f64((user_s + system_s - 2.0 / TICKS_PER_S).max(0.0));
        Cpu { all: all.max(ticked), user_s, system_s }
    }
}

impl std::ops::AddAssign for Cpu {
    fn add_assign(&mut self, more: Cpu) {
        self.all += more.all;
        self.user_s += more.user_s;
        self.system_s += more.system_s;
    }
}

/// Time that the threads of a process ran, in nanoseconds' steps.
fn exact(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let ran = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(ran.sum())
}

/// The process and its descendants.
fn tree(root: u32) -> Vec<u32> {
    let mut all = vec![root];
    let mut at = 0;
    while let Some(pid) = all.get(at) {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let texts =
            tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let children: Vec<u32> = texts
            .flat_map(|text| {
                text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
            })
            .collect();
        all.extend(children);
        at += 1;
    }
    all
}

/// Resident memory in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Now.
    pub now: u64,
    /// The most there ever was.
    pub peak: u64,
}

impl Memory {
    /// Of a process and all that it started.
    pub fn of_tree(root: u32) -> Memory {
        let mut sum = Memory::default();
        for pid in tree(root) {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let bytes = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                let kib =
                    line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
                kib.unwrap_or_default() * 1024
            };
            sum.now += bytes("VmRSS:");
            sum.peak += bytes("VmHWM:");
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_this_process_is_seen() {
        let me = std::process::id();
        let before = Cpu::of_tree(me);
        let begun = std::time::Instant::now();
        let mut sum = 0u64;
        while begun.elapsed() < Duration::from_millis(60) {
            sum = std::hint::black_box(sum + 1);
        }
        let used = Cpu::of_tree(me).since(before);
        assert!(used.all > Duration::from_millis(10), "{used:?}");
        assert!(Memory::of_tree(me).peak >= Memory::of_tree(me).now / 2);
    }

    #[test]
    fn children_belong_to_the_tree() {
        let mut child = std::process::Command::new("sleep").arg("5").spawn().unwrap();
        assert!(tree(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
