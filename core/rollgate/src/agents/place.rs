//! Where a bundle is made: beside its place, under a lock, and put there in one step.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::exit::Stop;

/// The place of one bundle while it is locked. Dropping it removes what was not kept.
pub(super) struct Place {
    /// Where the bundle will be.
    pub(super) target: PathBuf,
    /// Where it is made.
    pub(super) making: PathBuf,
    _lock: Flock<File>,
}

impl Place {
    /// Locks the place of `label` in `dir`; `waits` is called when another process has it.
    pub(super) fn lock(dir: &Path, label: &str, waits: impl FnOnce()) -> Result<Self, Stop> {
        let dir = std::path::absolute(dir).map_err(Stop::environment)?;
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Stop::environment(format!("{}: {what}: {error}", dir.display()))
        };
        std::fs::create_dir_all(&dir).map_err(|e| failed("cannot be made", &e))?;
        let file = File::create(dir.join(format!(".{label}.lock")));
        let file = file.map_err(|e| failed("cannot be written", &e))?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Err((file, Errno::EWOULDBLOCK)) => {
                waits();
                Flock::lock(file, FlockArg::LockExclusive)
            }
            other => other,
        };
        let lock = lock.map_err(|(_, e)| failed("cannot be locked", &e))?;
        let place = Self {
            target: dir.join(label),
            making: dir.join(format!(".{label}.partial")),
            _lock: lock,
        };
        // Whoever has the lock owns what an interrupted install left behind.
        remove(&place.making)?;
        Ok(place)
    }

    /// Makes the empty directory to work in.
    pub(super) fn begin(&self) -> Result<(), Stop> {
        std::fs::create_dir(&self.making).map_err(|error| {
            Stop::environment(format!("{} cannot be made: {error}", self.making.display()))
        })
    }

    /// Puts what was made into its place.
    pub(super) fn keep(&self) -> Result<(), Stop> {
        // Something without a `bundle.json` is in the way: it was never whole.
        remove(&self.target)?;
        std::fs::rename(&self.making, &self.target).map_err(|error| {
            Stop::environment(format!("{} cannot be put in place: {error}", self.target.display()))
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The next install of this bundle removes what cannot be removed now.
        let _ = remove(&self.making);
    }
}

/// Removes a directory, which need not be there.
pub(super) fn remove(dir: &Path) -> Result<(), Stop> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Stop::environment(format!("{} cannot be removed: {error}", dir.display())))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_kept_is_there_and_leftovers_go() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::lock(dir.path(), "a@1", || panic!("nobody has it")).unwrap();
        place.begin().unwrap();
        std::fs::write(place.making.join("x"), "1").unwrap();
        let (target, making) = (place.target.clone(), place.making.clone());
        drop(place);
        assert!(!target.exists() && !making.exists());

        std::fs::create_dir(&making).unwrap();
        std::fs::write(making.join("left"), "by a killed install").unwrap();
        let place = Place::lock(dir.path(), "a@1", || panic!("nobody has it")).unwrap();
        place.begin().unwrap();
        std::fs::write(place.making.join("y"), "2").unwrap();
        place.keep().unwrap();
        drop(place);
        let names: Vec<_> = std::fs::read_dir(&target).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(std::fs::read_to_string(target.join("y")).unwrap(), "2");
    }

    #[test]
    fn a_second_one_waits_for_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = Place::lock(dir.path(), "a@1", || ()).unwrap();
        Place::lock(dir.path(), "b@1", || panic!("another bundle is another lock")).unwrap();
        let (told, waits) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                Place::lock(dir.path(), "a@1", move || told.send(()).unwrap()).map(|_| ())
            });
            waits.recv().unwrap();
            first.begin().unwrap();
            first.keep().unwrap();
            drop(first);
            second.join().unwrap().unwrap();
        });
        assert!(dir.path().join("a@1").is_dir());
    }
}
