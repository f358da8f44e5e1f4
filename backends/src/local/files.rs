//! Files of a sandbox, for its owner: nothing outside its own directories is read or written.
//!
//! Links are resolved before the check, so a link to the outside is refused. A command that swaps
//! a directory for a link at the very moment can still win; it could reach that file itself.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::io;
use crate::BackendError;

/// Directories of a sandbox that its commands and its owner may fill.
pub(super) const OPEN_DIRS: [&str; 3] = ["work", "home", "tmp"];
/// Attempts to remove a directory that is still being written to.
const REMOVE_TRIES: u32 = 8;

/// Makes a directory that only this user may enter; one that is there is narrowed.
pub(super) fn make_private(dir: &Path) -> Result<(), BackendError> {
    let what = || format!("make {}", dir.display());
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io(what()))?;
    std::fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(io(what()))
}

/// Writes a file; a script (`#!`) becomes executable.
pub(super) fn put(sandbox: &Path, path: &Path, contents: &[u8]) -> Result<(), BackendError> {
    let what = || format!("write {}", path.display());
    let name = path.file_name().ok_or_else(|| outside(sandbox, path))?;
    let parent = path.parent().ok_or_else(|| outside(sandbox, path))?;
    let parent = make_inside(sandbox, path, parent)?;
    let target = parent.join(name);
    let mode = if contents.starts_with(b"#!") { 0o700 } else { 0o600 };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    // A link as the last part could lead outside: refuse it rather than follow it. And never wait
    // for the reader of a pipe.
    options.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    let mut file = options.open(&target).map_err(io(what()))?;
    let metadata = file.metadata().map_err(io(what()))?;
    if !metadata.is_file() {
        return Err(BackendError::Unusable(format!("{} is not a plain file", path.display())));
    }
    file.set_permissions(Permissions::from_mode(mode)).map_err(io(what()))?;
    file.write_all(contents).map_err(io(what()))
}

/// Reads a file whole; one over the cap is an error, since a part of it could mislead.
pub(super) fn get(
    sandbox: &Path,
    path: &Path,
    cap_bytes: usize,
) -> Result<Option<Vec<u8>>, BackendError> {
    let what = || format!("read {}", path.display());
    plain(sandbox, path)?;
    let resolved = match path.canonicalize() {
        Ok(resolved) => resolved,
        Err(error) if absent(&error) => return Ok(None),
        Err(error) => return Err(io(what())(error)),
    };
    inside(sandbox, path, &resolved)?;
    // A pipe without a writer would block for ever without the flag.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOFOLLOW)
        .open(&resolved);
    let file = match opened {
        Ok(file) => file,
        Err(error) if absent(&error) => return Ok(None),
        Err(error) => return Err(io(what())(error)),
    };
    if !file.metadata().map_err(io(what()))?.is_file() {
        return Err(BackendError::Unusable(format!("{} is not a plain file", path.display())));
    }
    let mut contents = Vec::new();
    let cap = (cap_bytes as u64).saturating_add(1);
    file.take(cap).read_to_end(&mut contents).map_err(io(what()))?;
    if contents.len() > cap_bytes {
        let path = path.display();
        return Err(BackendError::Unusable(format!("{path} is larger than {cap_bytes} bytes")));
    }
    Ok(Some(contents))
}

/// Removes a sandbox, whatever its commands made of the permissions in it. Idempotent.
pub(super) fn remove(sandbox: &Path) -> Result<(), BackendError> {
    let mut pause = Duration::from_millis(2);
    let mut last = None;
    for _ in 0..REMOVE_TRIES {
        match std::fs::remove_dir_all(sandbox) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound && !sandbox.exists() => return Ok(()),
            Err(error) => last = Some(error),
        }
        open_up(sandbox);
        std::thread::sleep(pause);
        pause *= 2;
    }
    let error = last.unwrap_or_else(|| ErrorKind::Other.into());
    Err(io(format!("remove {}", sandbox.display()))(error))
}

/// Gives us back the right to empty each directory. Links are not followed.
fn open_up(dir: &Path) {
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        // What still fails shows up when the removal is tried again.
        let _ = std::fs::set_permissions(&dir, Permissions::from_mode(0o700));
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
    }
}

/// Makes the parents of `path`, refusing to leave the sandbox; the resolved parent.
fn make_inside(sandbox: &Path, path: &Path, parent: &Path) -> Result<PathBuf, BackendError> {
    plain(sandbox, path)?;
    let what = || format!("write {}", path.display());
    let existing = parent.ancestors().find(|dir| dir.symlink_metadata().is_ok());
    let existing = existing.ok_or_else(|| outside(sandbox, path))?;
    let resolved = existing.canonicalize().map_err(io(what()))?;
    inside(sandbox, path, &resolved)?;
    let missing = parent.strip_prefix(existing).map_err(|_| outside(sandbox, path))?;
    let made = resolved.join(missing);
    DirBuilder::new().recursive(true).mode(0o700).create(&made).map_err(io(what()))?;
    Ok(made)
}

/// Refuses relative paths and `..`, whose meaning depends on links.
fn plain(sandbox: &Path, path: &Path) -> Result<(), BackendError> {
    let odd = |part: Component<'_>| matches!(part, Component::ParentDir | Component::CurDir);
    if !path.is_absolute() || path.components().any(odd) {
        return Err(outside(sandbox, path));
    }
    Ok(())
}

fn inside(sandbox: &Path, path: &Path, resolved: &Path) -> Result<(), BackendError> {
    if OPEN_DIRS.iter().any(|name| resolved.starts_with(sandbox.join(name))) {
        return Ok(());
    }
    Err(outside(sandbox, path))
}

fn outside(sandbox: &Path, path: &Path) -> BackendError {
    BackendError::Unusable(format!(
        "{} is refused: the path must be absolute, without `..`, and lie in work, home or tmp of {}, \
         links resolved",
        path.display(),
        sandbox.display()
    ))
}

fn absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
