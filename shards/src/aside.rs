//! The helper of a shard: a thread that encodes what would hold the shard up.
//!
//! It is started when it is first needed. Nothing else is ever done there.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use futures_channel::oneshot;
use rollgate_pipeline::exchange::{EncodeJob, Encoded};
use rollgate_pipeline::fault::{Fault, FaultKind};
use rollgate_pipeline::id::ShardIndex;

use crate::bounds::ENCODES_WAITING;

/// What comes of a job.
type Outcome = Result<Encoded, Fault>;

struct Task {
    job: EncodeJob,
    answer: oneshot::Sender<Outcome>,
}

/// The helper of one shard. Never leaves the shard's thread; its jobs do.
pub(crate) struct Helper {
    shard: ShardIndex,
    state: RefCell<State>,
}

enum State {
    Unneeded,
    At(SyncSender<Task>, JoinHandle<()>),
    Stopped,
}

impl Helper {
    pub(crate) fn new(shard: ShardIndex) -> Self {
        Self { shard, state: RefCell::new(State::Unneeded) }
    }

    /// Gives it a job. It comes back where the queue is full or there is no such thread.
    pub(crate) fn give(&self, job: EncodeJob) -> Result<oneshot::Receiver<Outcome>, EncodeJob> {
        let mut state = self.state.borrow_mut();
        if let State::Unneeded = *state {
            // A simulation has one thread only.
            *state = if cfg!(feature = "sim") { State::Stopped } else { start(self.shard) };
        }
        let State::At(tasks, _) = &*state else { return Err(job) };
        let (answer, answered) = oneshot::channel();
        match tasks.try_send(Task { job, answer }) {
            Ok(()) => Ok(answered),
            Err(TrySendError::Full(task) | TrySendError::Disconnected(task)) => Err(task.job),
        }
    }

    /// Ends the thread and waits for it: it must wake no task of a shard that has ended.
    pub(crate) fn stop(&self) {
        if let State::At(tasks, thread) = self.state.replace(State::Stopped) {
            drop(tasks);
            if thread.join().is_err() {
                tracing::error!(shard = self.shard.0, "the helper of a shard had died");
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.stop();
    }
}

fn start(shard: ShardIndex) -> State {
    let (sender, tasks) = sync_channel(ENCODES_WAITING);
    let thread = std::thread::Builder::new().name(format!("encode-{}", shard.0));
    match thread.spawn(move || work(&tasks)) {
        Ok(thread) => State::At(sender, thread),
        Err(error) => {
            tracing::error!(%error, shard = shard.0, "a shard has no helper: it encodes all itself");
            State::Stopped
        }
    }
}

fn work(tasks: &Receiver<Task>) {
    while let Ok(Task { job, answer }) = tasks.recv() {
        // Nobody waits any more when it is not taken.
        if !answer.is_canceled() {
            let _ = answer.send(run(job));
        }
    }
}

/// Does the job; a panic is a fault.
pub(crate) fn run(job: EncodeJob) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| job.run())).unwrap_or_else(|_| Err(broken()))
}

/// What a job that nobody answers ends in.
pub(crate) fn broken() -> Fault {
    let message = "a bug of ours ended the encoding of this prompt; nothing was recorded";
    Fault::new(FaultKind::Internal, message)
}
