//! What a shard takes of the machine: its core, and its share of the files that may be open.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Pid;

use crate::bounds::{OPEN_JOURNALS_LEAST, OPEN_JOURNALS_MOST};

/// Binds this thread to a core of its own: the `shard`-th of those that the process may use, and
/// round again where there are more shards than cores. An error says why it may not.
pub(crate) fn pin(shard: usize) -> Result<usize, String> {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this).map_err(|error| error.to_string())?;
    let cores: Vec<usize> =
        (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false)).collect();
    let core = *cores.get(shard % cores.len().max(1)).ok_or("the process may use no core")?;
    let mut own = CpuSet::new();
    own.set(core).map_err(|error| error.to_string())?;
    sched_setaffinity(this, &own).map_err(|error| error.to_string())?;
    Ok(core)
}

/// Journal files that each of so many shards may keep open: a quarter of what the process may open,
/// since agents and engines need a socket each.
pub(crate) fn open_journals(shards: usize) -> usize {
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    let share = usize::try_from(files / 4).unwrap_or(usize::MAX) / shards.max(1);
    share.clamp(OPEN_JOURNALS_LEAST, OPEN_JOURNALS_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_core() {
        let pinned = std::thread::spawn(|| {
            let core = pin(0).unwrap();
            let own = sched_getaffinity(Pid::from_raw(0)).unwrap();
            (0..CpuSet::count()).filter(|at| own.is_set(*at).unwrap()).eq([core])
        });
        assert!(pinned.join().unwrap());
    }

    #[test]
    fn journals_get_a_share_of_the_files() {
        let (one, many) = (open_journals(1), open_journals(1_000_000));
        assert!((OPEN_JOURNALS_LEAST..=OPEN_JOURNALS_MOST).contains(&one));
        assert_eq!(many, OPEN_JOURNALS_LEAST);
    }
}
