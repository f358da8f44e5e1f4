//! A session's journal: one append-only file, written strictly in the order of [`Journal::append`].
//!
//! A failed write breaks the journal for good: the file is cut back to its last good frame, nothing
//! more is written through this value, and the session has to be loaded anew.

mod files;
mod load;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_channel::oneshot;
use rollgate_pipeline::fault::{Fault, FaultKind};
use rollgate_pipeline::id::{SessionHash, ShardIndex};
use rollgate_pipeline::planted::{self, Bug};

pub(crate) use files::Files;
pub(crate) use load::{Loaded, load};

use crate::Durability;
use crate::plane::Plane;
use crate::wake::Bell;

/// How slow a disk is on which a missing wait shows.
const SLOW_DISK: Duration = Duration::from_millis(20);

/// What the journals of one shard share.
pub(crate) struct Journals {
    pub(crate) plane: Arc<Plane>,
    pub(crate) shard: ShardIndex,
    pub(crate) files: Files,
}

/// The open end of one session's journal.
pub(crate) struct Journal {
    inner: Rc<Inner>,
}

struct Inner {
    journals: Rc<Journals>,
    hash: SessionHash,
    path: PathBuf,
    queue: RefCell<VecDeque<Waiting>>,
    /// Length of the file up to its last durable frame.
    durable_bytes: Cell<u64>,
    /// Bytes of frames that wait or are being written.
    waiting_bytes: Cell<u64>,
    writing: Cell<bool>,
    broken: Cell<bool>,
    idle: Bell,
}

/// A frame that waits, and who waits for it.
struct Waiting {
    frame: Bytes,
    done: oneshot::Sender<Result<(), Fault>>,
}

impl Journal {
    /// The journal of a session whose file is `durable_bytes` long.
    pub(crate) fn new(journals: &Rc<Journals>, hash: SessionHash, durable_bytes: u64) -> Self {
        let inner = Inner {
            path: journals.plane.journal_path(hash),
            journals: journals.clone(),
            hash,
            queue: RefCell::default(),
            durable_bytes: Cell::new(durable_bytes),
            waiting_bytes: Cell::new(0),
            writing: Cell::new(false),
            broken: Cell::new(false),
            idle: Bell::default(),
        };
        Self { inner: Rc::new(inner) }
    }

    /// Takes the frame's place in the file at once; the future tells when it is durable.
    pub(crate) fn append(&self, frame: Bytes) -> impl Future<Output = Result<(), Fault>> + use<> {
        let (done, durable) = oneshot::channel();
        if self.inner.broken.get() {
            // The receiver is ours: it cannot be gone.
            let _ = done.send(Err(failed("an earlier write to it failed")));
        } else {
            let waiting = self.inner.waiting_bytes.get();
            self.inner.waiting_bytes.set(waiting + frame.len() as u64);
            let mut queue = self.inner.queue.borrow_mut();
            match planted::on(Bug::FramesOutOfOrder) {
                true => queue.push_front(Waiting { frame, done }),
                false => queue.push_back(Waiting { frame, done }),
            }
            drop(queue);
            if !self.inner.writing.replace(true) {
                crate::rt::spawn(write_queue(self.inner.clone()));
            }
        }
        async move { durable.await.unwrap_or_else(|_| Err(failed("its writer stopped"))) }
    }

    /// Bytes of records that are not durable yet.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.inner.waiting_bytes.get()
    }

    /// Whether it was given up.
    pub(crate) fn is_broken(&self) -> bool {
        self.inner.broken.get()
    }

    /// Refuses every later append, and resolves once no write is under way.
    pub(crate) async fn give_up(&self) {
        self.inner.broken.set(true);
        self.inner.idle.until(|| !self.inner.writing.get()).await;
        self.inner.journals.files.forget(self.inner.hash);
    }
}

fn failed(reason: impl std::fmt::Display) -> Fault {
    let message = format!(
        "the session's journal could not be written ({reason}): nothing was delivered; \
         send the request again"
    );
    Fault::new(FaultKind::JournalFailed, message)
}

async fn write_queue(inner: Rc<Inner>) {
    loop {
        let batch = std::mem::take(&mut *inner.queue.borrow_mut());
        if batch.is_empty() {
            break;
        }
        let bytes = bytes_of(&batch);
        let written = write_batch(&inner, batch).await;
        inner.waiting_bytes.set(inner.waiting_bytes.get() - bytes);
        if let Err(error) = written {
            break_off(&inner, &error);
        }
    }
    inner.writing.set(false);
    inner.idle.ring();
}

fn bytes_of(batch: &VecDeque<Waiting>) -> u64 {
    batch.iter().map(|waiting| waiting.frame.len() as u64).sum()
}

/// Writes frames in order and answers each. On an error those left are answered with it.
async fn write_batch(inner: &Inner, mut batch: VecDeque<Waiting>) -> io::Result<()> {
    let written = match inner.journals.plane.durability {
        Durability::Write => write_each(inner, &mut batch).await,
        Durability::Fsync => write_and_sync(inner, &mut batch).await,
    };
    let outcome = written.as_ref().map_err(failed).copied();
    for waiting in batch {
        // One who left does not need to know.
        let _ = waiting.done.send(outcome.clone());
    }
    written
}

async fn write_each(inner: &Inner, batch: &mut VecDeque<Waiting>) -> io::Result<()> {
    while let Some(waiting) = batch.front() {
        let at = inner.durable_bytes.get();
        write_frame(inner, waiting.frame.clone(), at).await?;
        inner.journals.plane.leave_to_sync();
        inner.durable_bytes.set(at + waiting.frame.len() as u64);
        if let Some(waiting) = batch.pop_front() {
            // One who left does not need to know.
            let _ = waiting.done.send(Ok(()));
        }
    }
    Ok(())
}

/// One sync covers the whole batch.
async fn write_and_sync(inner: &Inner, batch: &mut VecDeque<Waiting>) -> io::Result<()> {
    let mut at = inner.durable_bytes.get();
    for waiting in batch.iter() {
        write_frame(inner, waiting.frame.clone(), at).await?;
        at += waiting.frame.len() as u64;
    }
    inner.journals.files.open(inner.hash, &inner.path).await?.sync_data().await?;
    inner.durable_bytes.set(at);
    Ok(())
}

async fn write_frame(inner: &Inner, frame: Bytes, at: u64) -> io::Result<()> {
    if inner.broken.get() {
        return Err(io::Error::other("it was given up"));
    }
    if planted::on(Bug::AnswerBeforeRecord) {
        // As on a slow disk: there is something to wait for.
        crate::rt::time::sleep(SLOW_DISK).await;
    }
    let bytes = frame.len() as u64;
    let file = inner.journals.files.open(inner.hash, &inner.path).await?;
    file.write_all_at(frame, at).await.0?;
    inner.journals.counters().journal_bytes.add(bytes);
    Ok(())
}

/// Cuts the file back to what was promised and answers all who wait.
fn break_off(inner: &Inner, error: &io::Error) {
    let deliberate = inner.broken.replace(true);
    inner.journals.files.forget(inner.hash);
    if !deliberate {
        inner.journals.counters().journal_failures.add(1);
        tracing::error!(session = %inner.hash, %error, "a journal could not be written");
    }
    if let Err(error) = cut(&inner.path, inner.durable_bytes.get()) {
        // Loading cuts a torn tail as well; a whole frame that nobody saw may survive.
        tracing::error!(session = %inner.hash, %error, "a journal could not be cut back");
    }
    let left = std::mem::take(&mut *inner.queue.borrow_mut());
    inner.waiting_bytes.set(inner.waiting_bytes.get() - bytes_of(&left));
    for waiting in left {
        // One who left does not need to know.
        let _ = waiting.done.send(Err(failed(error)));
    }
}

/// Shortens the file. Blocks: only for what has failed already.
fn cut(path: &Path, bytes: u64) -> io::Result<()> {
    // Never lengthens it: bytes that are missing are for loading to report.
    crate::rt::disk::shorten(path, bytes)
}

impl Journals {
    pub(crate) fn counters(&self) -> &crate::stats::Counters {
        &self.plane.door(self.shard).counters
    }

    /// Creates the file of a new session, durable in its directory where that was asked for.
    pub(crate) async fn create(&self, hash: SessionHash) -> io::Result<()> {
        let path = self.plane.journal_path(hash);
        self.files.create(hash, &path).await?;
        if self.plane.durability == Durability::Fsync
            && let Some(directory) = path.parent()
        {
            crate::rt::fs::File::open(directory).await?.sync_all().await?;
        }
        Ok(())
    }
}
