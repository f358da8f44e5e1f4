//! `attempts.jsonl`: one line an accepted attempt. A line there is the promise that all else of the
//! attempt is on disk.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::SinkError;
use crate::outcome::{Outcome, Reason};

/// What is kept of an attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttemptLine {
    /// `TASK_ID.ATTEMPT`.
    pub attempt_id: String,
    /// The task.
    pub task_id: String,
    /// The attempts of one task share it.
    pub group_id: String,
    /// Which attempt of the group, from 0.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, where it did not go well.
    pub reason: Option<Reason>,
    /// The reward; `null` where there is none.
    pub reward: Option<f64>,
    /// Named parts of the reward.
    #[serde(default)]
    pub reward_parts: BTreeMap<String, f64>,
    /// Agent and version, where known.
    pub agent: String,
    /// The session of the last try.
    pub session_id: Option<String>,
    /// Turns of the last try.
    pub turns: u32,
    /// Of them, by scene.
    #[serde(default)]
    pub scenes: BTreeMap<String, u32>,
    /// Ids sampled in the last try.
    pub sampled_tokens: u64,
    /// Why earlier tries failed, in order.
    #[serde(default)]
    pub earlier: Vec<Reason>,
    /// Start of the last try, in milliseconds since the epoch.
    pub started_at_ms: u64,
    /// Milliseconds of the last try by stage.
    pub took_ms: BTreeMap<String, u64>,
    /// Ids of its samples.
    #[serde(default)]
    pub samples: Vec<String>,
    /// Reason codes of samples that are not clean, with counts.
    #[serde(default)]
    pub unhealthy: BTreeMap<String, u64>,
    /// Where its samples end, where they lie in a shared file. Lines that were put into a Parquet file
    /// are there under the same number.
    #[serde(default)]
    pub samples_end: Option<FileEnd>,
}

/// A position in a file of the out directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileEnd {
    /// Name in the out directory.
    pub file: String,
    /// Bytes up to here are whole.
    pub bytes: u64,
}

/// The open file, locked.
#[derive(Debug)]
pub(super) struct Attempts {
    path: PathBuf,
    file: File,
    valid_bytes: u64,
}

impl Attempts {
    /// Opens the file and reads what it holds. An unfinished last line is cut off.
    pub(super) fn open(dir: &Path) -> Result<(Self, Vec<AttemptLine>), SinkError> {
        let path = dir.join("attempts.jsonl");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(SinkError::io(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SinkError::InUse(dir.to_owned())),
            Err(TryLockError::Error(source)) => return Err(SinkError::Io { path, source }),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(SinkError::io(&path))?;
        let valid = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let lines = parse(&path, &bytes[..valid])?;
        let mut attempts = Self { path, file, valid_bytes: valid as u64 };
        attempts.rewind()?;
        Ok((attempts, lines))
    }

    /// Writes one line and makes it durable.
    pub(super) fn append(&mut self, line: &AttemptLine) -> Result<(), SinkError> {
        let mut text = serde_json::to_vec(line).map_err(|e| SinkError::Damaged {
            path: self.path.clone(),
            what: format!("a line cannot be written: {e}"),
        })?;
        text.push(b'\n');
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_data());
        if let Err(source) = written {
            self.rewind()?;
            return Err(SinkError::Io { path: self.path.clone(), source });
        }
        self.valid_bytes += text.len() as u64;
        Ok(())
    }

    fn rewind(&mut self) -> Result<(), SinkError> {
        let cut = self.file.set_len(self.valid_bytes);
        cut.and_then(|()| self.file.seek(SeekFrom::Start(self.valid_bytes)).map(drop))
            .map_err(SinkError::io(&self.path))
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<AttemptLine>, SinkError> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| {
            serde_json::from_slice(line).map_err(|e| SinkError::Damaged {
                path: path.to_owned(),
                what: format!("line {} is not an attempt: {e}", index + 1),
            })
        })
        .collect()
}
