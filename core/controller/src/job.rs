//! A job: tasks times n attempts into an out directory, with progress, to a summary.
//!
//! The [`Plan`] decides, the [`Runtime`] works, the [`Sink`] keeps. An attempt counts once its line
//! is written.

mod background;
mod line;
mod running;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;

use rollgate_backends::Backend;
use rollgate_harness::{Harness, HarnessError};
use rollgate_shards::Gate;
use tokio::sync::{mpsc, watch};

use crate::hooks::Hook;
use crate::outcome::Reason;
use crate::plan::{Group, Policy};
use crate::pool::PoolConfig;
use crate::pool::watermark::Watch;
use crate::programs::Programs;
use crate::reach::BaseUrls;
use crate::runtime::{Sandboxes, Served};
use crate::sink::{AttemptLine, RunSettings, SinkError};
use crate::task::{Agent, Task};
use running::Running;

pub use summary::{Failure, Summary};

/// What a job is.
pub struct Job {
    /// The tasks; ids are unique.
    pub tasks: Vec<Task>,
    /// Attempts per task.
    pub n: u32,
    /// The agent of tasks that name none.
    pub agent: Agent,
    /// Finds harnesses: [`rollgate_harness::by_name`].
    pub harnesses: fn(&str) -> Result<Box<dyn Harness>, HarnessError>,
    /// Where sandboxes are made.
    pub backend: Arc<dyn Backend>,
    /// What agents are served.
    pub served: Served,
    /// Programs of agents that are not on PATH.
    pub programs: Programs,
    /// Where sandboxes of this backend find the gateway; `None`: at the gate's address.
    pub urls: Option<BaseUrls>,
    /// Hooks of all attempts, before the tasks' own.
    pub hooks: Vec<Hook>,
    /// Limits, retries and budgets.
    pub policy: Policy,
    /// What sandboxes are made of.
    pub sandboxes: Sandboxes,
    /// How many of them are kept warm.
    pub pool: PoolConfig,
    /// What must not run full.
    pub watch: Watch,
    /// Attempts and groups that are not wanted any more, while the job runs.
    pub cancels: Option<mpsc::Receiver<Unwanted>>,
    /// The out directory.
    pub out: PathBuf,
    /// What the run is started with.
    pub run: RunSettings,
}

/// What may be told to a running job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Control {
    /// Go on.
    #[default]
    Run,
    /// Start nothing more; let what runs end.
    Drain,
    /// Start nothing more; cancel what runs.
    Abort,
}

/// What is not wanted any more. An id that the job has not is ignored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unwanted {
    /// The attempt `TASK_ID.ATTEMPT`.
    Attempt(String),
    /// Every attempt of the task of this id.
    Group(String),
}

/// What a job tells while it runs.
#[derive(Debug)]
pub enum Progress<'a> {
    /// How much there is to do: attempts in all, and those settled by an earlier run.
    Planned {
        /// In all.
        attempts: usize,
        /// Settled earlier.
        settled: usize,
    },
    /// A try began.
    Started {
        /// `TASK_ID.ATTEMPT`.
        attempt_id: &'a str,
        /// How often it was tried before.
        retry: u32,
    },
    /// A try failed for reasons outside it; another follows.
    Retrying {
        /// `TASK_ID.ATTEMPT`.
        attempt_id: &'a str,
        /// Why it failed.
        reason: Option<&'a Reason>,
    },
    /// An attempt ended, and its line is written.
    Ended(&'a AttemptLine),
    /// An attempt was cancelled before it was ever started.
    Forgotten {
        /// `TASK_ID.ATTEMPT`.
        attempt_id: &'a str,
    },
    /// Nothing of a group is to come any more in this run.
    Group {
        /// Its task.
        task_id: &'a str,
        /// How much of it has a result that lasts.
        group: Group,
    },
    /// Nothing is started for this reason; `None`: it goes on.
    Held(Option<&'a str>),
    /// The job stops by itself.
    Stopping(&'a str),
}

/// Why a job cannot be run or go on.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The job makes no sense as it is given.
    #[error("{0}")]
    Wrong(String),
    /// The surroundings do not allow it: too little of something, or sandboxes that do not reach the
    /// gateway. Says what to do.
    #[error("{0}")]
    Surroundings(String),
    /// The out directory.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// Runs a job to its end. `control` may drain or abort it; `progress` is called in order. However it
/// ends, no sandbox of it is left and its sessions are sealed.
pub async fn run(
    job: Job,
    gate: Gate,
    mut control: watch::Receiver<Control>,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<Summary, JobError> {
    control.mark_changed();
    let mut running = Running::new(job, gate, progress).await?;
    match running.drive(&mut control).await {
        Ok(()) => running.finish().await,
        Err(error) => {
            running.unwind().await;
            Err(error)
        }
    }
}

/// The name of an attempt.
pub fn attempt_id(task: &Task, attempt: u32) -> String {
    format!("{}.{attempt}", task.task_id)
}
