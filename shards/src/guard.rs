//! What slows or ends the whole data plane: memory that runs out, and bugs that come back.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rollgate_pipeline::limits::{Limits, MEMORY_SHARE_PERCENT};

use crate::bounds::PANIC_WINDOW_MS;

/// Shared by all shards. Written rarely.
pub(crate) struct Guard {
    /// Memory of our own beyond which nothing new begins, in bytes.
    memory_bytes: u64,
    memory: AtomicU8,
    /// When an exchange panicked last, in monotonic milliseconds, plus one; 0: none did.
    panicked_ms: AtomicU64,
}

/// How memory stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Memory {
    /// There is room.
    Enough,
    /// Beyond the limit: idle sessions leave.
    Short,
    /// That did not help: nothing new begins.
    Full,
}

impl Guard {
    pub(crate) fn new(limits: &Limits) -> Self {
        let memory_bytes = match limits.memory_bytes {
            0 => machine_bytes() / 100 * MEMORY_SHARE_PERCENT,
            set => set,
        };
        let unbounded = limits.memory_bytes == 0 && machine_bytes() == u64::MAX;
        if unbounded || own_bytes() == 0 {
            let what = "memory cannot be measured here (is /proc there?)";
            tracing::warn!("{what}: limits.memory_bytes does not hold");
        }
        Self { memory_bytes, memory: AtomicU8::new(0), panicked_ms: AtomicU64::new(0) }
    }

    /// How memory stood when it was looked at last.
    pub(crate) fn memory(&self) -> Memory {
        match self.memory.load(Ordering::Relaxed) {
            0 => Memory::Enough,
            1 => Memory::Short,
            _ => Memory::Full,
        }
    }

    /// Looks at memory. For one shard alone.
    pub(crate) fn look(&self) {
        let used_bytes = own_bytes();
        let (before, over) = (self.memory(), used_bytes > self.memory_bytes);
        let now = match (over, before) {
            (false, _) => Memory::Enough,
            (true, Memory::Enough) => Memory::Short,
            (true, _) => Memory::Full,
        };
        if now == before {
            return;
        }
        self.memory.store(now as u8, Ordering::Relaxed);
        let limit_bytes = self.memory_bytes;
        match now {
            Memory::Enough => tracing::info!(used_bytes, limit_bytes, "there is memory again"),
            Memory::Short => {
                tracing::warn!(used_bytes, limit_bytes, "memory is short: idle sessions leave it");
            }
            Memory::Full => {
                tracing::error!(used_bytes, limit_bytes, "memory is short: exchanges are refused");
            }
        }
    }

    /// An exchange panicked. Whether that ends the process: one bug may be met by one odd request;
    /// when another follows soon, what memory holds is not to be trusted.
    pub(crate) fn panicked(&self, now_ms: u64) -> bool {
        let before = self.panicked_ms.swap(now_ms.saturating_add(1), Ordering::AcqRel);
        before > 0 && now_ms.saturating_add(1).saturating_sub(before) < PANIC_WINDOW_MS
    }
}

/// Memory that this process has for itself, in bytes; 0 where that cannot be told.
fn own_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    kilobytes(&status, "RssAnon:").unwrap_or_default()
}

/// Memory that this process may use, in bytes: the machine's, or less where a control group says so.
fn machine_bytes() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = kilobytes(&meminfo, "MemTotal:").unwrap_or(u64::MAX);
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let folders = std::path::Path::new(own).ancestors().filter_map(|path| path.to_str());
    let mut files: Vec<String> =
        folders.map(|folder| format!("/sys/fs/cgroup{folder}/memory.max")).collect();
    files.push("/sys/fs/cgroup/memory/memory.limit_in_bytes".to_owned());
    let limits = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
    limits.filter_map(|text| text.trim().parse().ok()).fold(machine, u64::min)
}

/// The value of a line of a file of `/proc`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(memory_bytes: u64) -> Guard {
        Guard::new(&Limits { memory_bytes, ..Limits::default() })
    }

    #[test]
    fn memory_is_known_here() {
        assert!(own_bytes() > 100 << 10, "{}", own_bytes());
        assert!((64 << 20..1 << 50).contains(&machine_bytes()), "{}", machine_bytes());
        assert_eq!(guard(0).memory_bytes, machine_bytes() / 100 * MEMORY_SHARE_PERCENT);
    }

    #[test]
    fn short_memory_drops_sessions_first_and_refuses_then() {
        let guard = guard(1);
        let mut seen = vec![guard.memory()];
        for _ in 0..3 {
            guard.look();
            seen.push(guard.memory());
        }
        assert_eq!(seen, [Memory::Enough, Memory::Short, Memory::Full, Memory::Full]);
        let roomy = Guard { memory_bytes: u64::MAX, ..guard };
        roomy.look();
        assert_eq!(roomy.memory(), Memory::Enough);
    }

    #[test]
    fn a_second_panic_within_the_window_ends_the_process_a_late_one_does_not() {
        let guard = guard(0);
        assert!(!guard.panicked(0));
        assert!(!guard.panicked(PANIC_WINDOW_MS));
        assert!(!guard.panicked(2 * PANIC_WINDOW_MS));
        assert!(guard.panicked(3 * PANIC_WINDOW_MS - 1));
        assert!(guard.panicked(3 * PANIC_WINDOW_MS - 1));
    }
}
