//! The journal files that a shard keeps open: the most recently used ones.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::rc::Rc;

use crate::rt::fs::{File, OpenOptions};
use rollgate_pipeline::id::SessionHash;

/// At most `most` files; one in use stays open until its user is done.
pub(crate) struct Files {
    most: usize,
    uses: Cell<u64>,
    open: RefCell<Open>,
}

#[derive(Default)]
struct Open {
    files: HashMap<SessionHash, (Rc<File>, u64)>,
    by_use: BTreeMap<u64, SessionHash>,
}

impl Files {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, uses: Cell::new(0), open: RefCell::default() }
    }

    /// The session's file, for writing. It must exist.
    pub(crate) async fn open(&self, hash: SessionHash, path: &Path) -> io::Result<Rc<File>> {
        let found = self.open.borrow().files.get(&hash).map(|(file, _)| file.clone());
        let file = match found {
            Some(file) => file,
            None => Rc::new(OpenOptions::new().write(true).open(path).await?),
        };
        self.keep(hash, file.clone());
        Ok(file)
    }

    /// A new file. It must not exist.
    pub(crate) async fn create(&self, hash: SessionHash, path: &Path) -> io::Result<()> {
        let file = OpenOptions::new().write(true).create_new(true).open(path).await?;
        self.keep(hash, Rc::new(file));
        Ok(())
    }

    /// Closes the session's file once nobody uses it.
    pub(crate) fn forget(&self, hash: SessionHash) {
        let mut open = self.open.borrow_mut();
        if let Some((_, used)) = open.files.remove(&hash) {
            open.by_use.remove(&used);
        }
    }

    fn keep(&self, hash: SessionHash, file: Rc<File>) {
        let now = self.uses.replace(self.uses.get() + 1);
        let mut open = self.open.borrow_mut();
        if let Some((_, before)) = open.files.insert(hash, (file, now)) {
            open.by_use.remove(&before);
        }
        open.by_use.insert(now, hash);
        while open.files.len() > self.most {
            let Some((_, oldest)) = open.by_use.pop_first() else { break };
            open.files.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Driver;

    #[test]
    fn the_least_recently_used_file_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        crate::driver::run(Driver::Epoll, || async {
            let files = Files::new(2);
            let path = |n: u128| directory.path().join(n.to_string());
            for n in 1..=2 {
                files.create(SessionHash(n), &path(n)).await.unwrap();
            }
            assert!(files.create(SessionHash(1), &path(1)).await.is_err(), "never overwritten");
            files.open(SessionHash(1), &path(1)).await.unwrap();
            files.create(SessionHash(3), &path(3)).await.unwrap();
            let mut kept: Vec<u128> = files.open.borrow().files.keys().map(|h| h.0).collect();
            kept.sort_unstable();
            assert_eq!(kept, [1, 3]);
            assert_eq!(files.open.borrow().by_use.len(), 2);
            files.forget(SessionHash(3));
            assert_eq!(files.open.borrow().files.len(), 1);
            assert!(files.open(SessionHash(9), &path(9)).await.is_err(), "never made by chance");
        })
        .unwrap();
    }
}
