//! How full the machine is: disk, inodes, open files. Each complaint says what to do.

use std::path::PathBuf;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;

use crate::limits;

/// What must be left for anything more to be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// Free disk space where sandboxes and results lie.
    pub disk_mib: u64,
    /// Free inodes there; file systems that do not count them always have enough.
    pub inodes: u64,
}

impl Default for Marks {
    fn default() -> Self {
        Self { disk_mib: 512, inodes: 10_000 }
    }
}

/// What is watched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Watch {
    /// Folders on whose file systems sandboxes and results lie. One that is not there yet counts as
    /// its nearest parent.
    pub dirs: Vec<PathBuf>,
    /// What must be left.
    pub marks: Marks,
}

impl Watch {
    /// What is too full, if anything. Blocks for a moment.
    pub fn look(&self) -> Option<String> {
        self.dirs.iter().find_map(|dir| self.look_at(dir)).or_else(open_files)
    }

    fn look_at(&self, dir: &std::path::Path) -> Option<String> {
        let there = dir.ancestors().find(|dir| dir.exists())?;
        // What cannot be asked cannot be watched; the first write says what is wrong with it.
        let found = statvfs(there).ok()?;
        let free_mib = (found.blocks_available() as u64)
            .saturating_mul(found.fragment_size() as u64)
            / (1 << 20);
        let (inodes, all) = (found.files_available() as u64, found.files() as u64);
        let Marks { disk_mib, inodes: least } = self.marks;
        let shown = dir.display();
        if free_mib < disk_mib {
            return Some(format!(
                "{free_mib} MiB are free at {shown}, and {disk_mib} must be: free some, choose \
                 another place, or lower pool.disk_mib"
            ));
        }
        (all > 0 && inodes < least).then(|| {
            format!(
                "{inodes} inodes are free at {shown}, and {least} must be: remove files, choose \
                 another place, or lower pool.inodes"
            )
        })
    }
}

/// Whether nearly all files that the process may open are open.
fn open_files() -> Option<String> {
    let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    (open.saturating_add(limits::FILES_SPARE) > limit).then(|| {
        format!(
            "{open} of the {limit} files that may be open are open: raise the limit (ulimit -n) or \
             lower --concurrency"
        )
    })
}

/// Whether the process may open as many files as so many attempts at once need.
pub fn enough_files(concurrency: usize) -> Result<(), String> {
    let Ok((limit, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    let needed = (concurrency as u64)
        .saturating_mul(limits::FILES_PER_ATTEMPT)
        .saturating_add(limits::FILES_BASE);
    if needed <= limit {
        return Ok(());
    }
    let fits = limit.saturating_sub(limits::FILES_BASE) / limits::FILES_PER_ATTEMPT;
    Err(format!(
        "{concurrency} attempts at once need about {needed} open files, and {limit} are allowed: \
         raise the limit (ulimit -n {needed}) or use --concurrency {}",
        fits.max(1)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_say_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = vec![dir.path().join("not/there/yet")];
        let look = |disk_mib, inodes| {
            Watch { dirs: dirs.clone(), marks: Marks { disk_mib, inodes } }.look()
        };
        assert_eq!(look(0, 0), None);
        let disk = look(u64::MAX, 0).unwrap();
        assert!(disk.contains("not/there/yet") && disk.contains("pool.disk_mib"), "{disk}");
        let found = statvfs(dir.path()).unwrap();
        match look(0, u64::MAX) {
            Some(inodes) => assert!(inodes.contains("lower pool.inodes"), "{inodes}"),
            None => assert_eq!(found.files(), 0, "only where inodes are not counted"),
        }
    }

    #[test]
    fn files_are_counted_before_the_start() {
        enough_files(1).unwrap();
        let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let told = enough_files(limit as usize).unwrap_err();
        assert!(told.contains("ulimit -n") && told.contains("--concurrency"), "{told}");
    }
}
