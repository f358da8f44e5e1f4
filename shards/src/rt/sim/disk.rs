//! Files in memory, and what survives which end.
//!
//! A file is what the kernel has of it, and what of that was synced. A write under way when its
//! process is killed is there whole, in part, or not at all.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::world::{State, with};

/// Which file.
pub(super) type Inode = u64;

/// All files by path.
#[derive(Default)]
pub(crate) struct Disk {
    paths: BTreeMap<PathBuf, Inode>,
    inodes: BTreeMap<Inode, Content>,
    next: Inode,
}

#[derive(Default, Clone)]
struct Content {
    data: Vec<u8>,
    synced: Vec<u8>,
    /// Its name is on the disk, too.
    named: bool,
}

/// The content of a file as the kernel has it.
pub fn file(path: &Path) -> Option<Vec<u8>> {
    with(|world| world.disk.content(path).map(|content| content.data.clone()))
}

/// What of a file survives a loss of power for certain.
pub fn durable_file(path: &Path) -> Option<Vec<u8>> {
    with(|world| {
        let content = world.disk.content(path).filter(|content| content.named)?;
        Some(content.synced.clone())
    })
}

/// All files, with what the kernel has of them.
pub fn files() -> Vec<(PathBuf, Vec<u8>)> {
    with(|world| {
        let disk = &world.disk;
        let content = |inode| disk.inodes.get(inode).map_or_else(Vec::new, |it| it.data.clone());
        disk.paths.iter().map(|(path, inode)| (path.clone(), content(inode))).collect()
    })
}

/// Syncs everything, as the background sync does.
pub fn sync_all() {
    with(|world| {
        for content in world.disk.inodes.values_mut() {
            content.synced.clone_from(&content.data);
            content.named = true;
        }
    });
}

/// Unlinks a file.
pub(crate) fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    with(|world| match world.disk.paths.remove(path.as_ref()) {
        Some(_) => Ok(()),
        None => Err(io::ErrorKind::NotFound.into()),
    })
}

/// Shortens the file to so many bytes; one that is no longer than that stays as it is.
pub(crate) fn shorten(path: &Path, bytes: u64) -> io::Result<()> {
    with(|world| {
        world.note("shorten", [bytes, 0]);
        let inode = world.disk.paths.get(path).ok_or(io::ErrorKind::NotFound)?;
        if let Some(content) = world.disk.inodes.get_mut(inode) {
            content.data.truncate(bytes as usize);
        }
        Ok(())
    })
}

impl Disk {
    fn content(&self, path: &Path) -> Option<&Content> {
        self.inodes.get(self.paths.get(path)?)
    }

    pub(super) fn open(&self, path: &Path) -> io::Result<Inode> {
        self.paths.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn create_new(&mut self, path: &Path) -> io::Result<Inode> {
        if self.paths.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.next += 1;
        self.paths.insert(path.to_owned(), self.next);
        self.inodes.insert(self.next, Content::default());
        Ok(self.next)
    }

    pub(super) fn write(&mut self, inode: Inode, at: u64, bytes: &[u8]) {
        let Some(content) = self.inodes.get_mut(&inode) else { return };
        let (at, end) = (at as usize, at as usize + bytes.len());
        if content.data.len() < end {
            content.data.resize(end, 0);
        }
        content.data[at..end].copy_from_slice(bytes);
    }

    pub(super) fn read(&self, inode: Inode, at: u64, most: usize) -> Vec<u8> {
        let Some(content) = self.inodes.get(&inode) else { return Vec::new() };
        let begin = content.data.len().min(at as usize);
        let end = content.data.len().min(begin + most);
        content.data[begin..end].to_vec()
    }

    pub(super) fn sync(&mut self, inode: Inode) {
        if let Some(content) = self.inodes.get_mut(&inode) {
            content.synced.clone_from(&content.data);
        }
    }

    /// Syncs a folder: the names in it are on the disk.
    pub(super) fn sync_names(&mut self, folder: &Path) {
        for (path, inode) in &self.paths {
            if path.parent() == Some(folder)
                && let Some(content) = self.inodes.get_mut(inode)
            {
                content.named = true;
            }
        }
    }
}

impl State {
    /// The machine loses power: a random part of what was not synced is gone.
    pub(super) fn lose_power(&mut self) {
        let mut gone = Vec::new();
        for (path, inode) in &self.disk.paths {
            let Some(content) = self.disk.inodes.get_mut(inode) else { continue };
            if !content.named && self.rng.chance(500) {
                gone.push(path.clone());
                continue;
            }
            let appended = content.data.len().saturating_sub(content.synced.len());
            let kept = match self.rng.within(0..3) {
                0 => 0,
                1 => appended,
                _ => self.rng.within(0..appended as u64 + 1) as usize,
            };
            let kept = content.synced.len().min(content.data.len()) + kept;
            content.data.truncate(kept);
            content.synced.clone_from(&content.data);
            content.named = true;
        }
        for path in gone {
            self.disk.paths.remove(&path);
        }
    }
}
