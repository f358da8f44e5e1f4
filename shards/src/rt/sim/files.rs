//! Files, with monoio's faces.

use std::io;
use std::path::Path;
use std::time::Duration;

use monoio::BufResult;
use monoio::buf::{IoBuf, IoBufMut};

use super::clock::sleep;
use super::disk::Inode;
use super::unsafe_buf::{bytes_of, fill};
use super::world::{is_there, with};

/// An open file, or a folder that was opened to be synced.
pub(crate) struct File {
    inode: Inode,
    folder: Option<std::path::PathBuf>,
}

/// How to open a file.
#[derive(Default)]
pub(crate) struct OpenOptions {
    create_new: bool,
}

impl OpenOptions {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn write(&mut self, _write: bool) -> &mut Self {
        self
    }

    pub(crate) fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.create_new = create_new;
        self
    }

    pub(crate) async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        takes_time().await;
        let inode = with(|world| match self.create_new {
            true => world.disk.create_new(path),
            false => world.disk.open(path),
        })?;
        Ok(File { inode, folder: None })
    }
}

impl File {
    pub(crate) async fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        takes_time().await;
        // Folders are there always; only journals are named like this.
        if path.extension().is_none() {
            return Ok(File { inode: 0, folder: Some(path.to_owned()) });
        }
        Ok(File { inode: with(|world| world.disk.open(path))?, folder: None })
    }

    pub(crate) async fn read_at<T: IoBufMut>(&self, mut buf: T, at: u64) -> BufResult<usize, T> {
        takes_time().await;
        let bytes = with(|world| {
            let short = world.rng.chance(world.faults.short);
            let most = buf.bytes_total();
            let most = if short { 1 + world.rng.next() as usize % most.max(1) } else { most };
            world.disk.read(self.inode, at, most)
        });
        fill(&mut buf, &bytes);
        (Ok(bytes.len()), buf)
    }

    pub(crate) async fn write_all_at<T: IoBuf>(&self, buf: T, at: u64) -> BufResult<(), T> {
        let mut write =
            Write { inode: self.inode, at, bytes: bytes_of(&buf).to_vec(), over: false };
        takes_time().await;
        let full = with(|world| world.rng.chance(world.faults.full_disk));
        if full {
            // What was written of it is there.
            drop(write);
            return (Err(io::ErrorKind::StorageFull.into()), buf);
        }
        write.over = true;
        with(|world| {
            world.note("written", [self.inode, at + write.bytes.len() as u64]);
            world.disk.write(self.inode, at, &write.bytes);
        });
        (Ok(()), buf)
    }

    pub(crate) async fn sync_data(&self) -> io::Result<()> {
        takes_time().await;
        takes_time().await;
        with(|world| world.disk.sync(self.inode));
        Ok(())
    }

    pub(crate) async fn sync_all(&self) -> io::Result<()> {
        self.sync_data().await?;
        if let Some(folder) = &self.folder {
            with(|world| world.disk.sync_names(folder));
        }
        Ok(())
    }
}

/// A write under way. Dropped before its time, it has come as far as chance has it.
struct Write {
    inode: Inode,
    at: u64,
    bytes: Vec<u8>,
    over: bool,
}

impl Drop for Write {
    fn drop(&mut self) {
        if self.over || !is_there() {
            return;
        }
        with(|world| {
            let length = self.bytes.len() as u64;
            let done = match world.rng.within(0..3) {
                0 => 0,
                1 => length,
                _ => world.rng.within(0..length + 1),
            };
            world.note("torn write", [self.inode, done]);
            world.disk.write(self.inode, self.at, &self.bytes[..done as usize]);
        });
    }
}

async fn takes_time() {
    let micros = with(|world| match world.rng.chance(world.faults.slow_disk) {
        true => world.rng.within(1_000..60_000),
        false => world.rng.within(5..150),
    });
    sleep(Duration::from_micros(micros)).await;
}
