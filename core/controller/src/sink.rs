//! The out directory: samples, attempts, logs, and what the run was started with.
//!
//! An attempt is accepted in one order: its samples are written and made durable, then its line in
//! `attempts.jsonl`. What a crash left behind an unwritten line is cut off when the directory is
//! opened again, so each accepted attempt's samples are there exactly once. One process at a time
//! holds a directory.

mod attempts;
mod parquet;
mod read;
mod rows;
mod settings;
mod tables;
mod tensors;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rollgate_pipeline::sample::Sample;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::ROLL_BYTES;

pub use attempts::{AttemptLine, FileEnd};
pub use parquet::{from_parquet, to_parquet};
pub use read::{Location, ReadError, Samples, read_samples};
pub use rows::to_jsonl;
pub use tensors::{from_safetensors, to_safetensors};

/// How samples are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One object a line.
    #[default]
    Jsonl,
    /// One file a sample: columns as tensors, the rest as JSON in the header.
    Safetensors,
    /// One row a sample, list columns.
    Parquet,
}

impl Format {
    /// The format of this name; the error says which names there are.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "jsonl" => Ok(Format::Jsonl),
            "safetensors" => Ok(Format::Safetensors),
            "parquet" => Ok(Format::Parquet),
            other => Err(format!("no format `{other}`; there are jsonl, safetensors and parquet")),
        }
    }
}

/// Why the out directory cannot be used. Nothing more should be started.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The disk.
    #[error("{path}: {source}")]
    Io {
        /// Which file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another process writes here.
    #[error("{0} is in use by another run; choose another out directory or wait for it")]
    InUse(PathBuf),
    /// It belongs to a run that was started otherwise.
    #[error("{dir} belongs to a run with other settings ({differ}); choose another out directory")]
    OtherSettings {
        /// The out directory.
        dir: PathBuf,
        /// The keys that differ.
        differ: String,
    },
    /// It holds files of a run, but not what the run was started with.
    #[error("{0} holds files that no run.json explains; choose another out directory")]
    Foreign(PathBuf),
    /// One of its files was changed or damaged.
    #[error("{path}: {what}")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// How.
        what: String,
    },
    /// A sample cannot be put into the format.
    #[error("sample {sample_id} cannot be written: {what}")]
    Sample {
        /// Which sample.
        sample_id: String,
        /// Why.
        what: String,
    },
}

impl SinkError {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| SinkError::Io { path: path.to_owned(), source }
    }
}

/// What a run is started with.
#[derive(Clone, PartialEq, Debug)]
pub struct RunSettings {
    /// How samples are written.
    pub format: Format,
    /// What samples depend on; a later run in the same directory must have the same.
    pub settings: Value,
    /// What may change between runs (concurrency, addresses); kept for people.
    pub notes: Value,
}

/// An open out directory.
#[derive(Debug)]
pub struct Sink {
    dir: PathBuf,
    writer: Writer,
    attempts: attempts::Attempts,
    settled: BTreeSet<String>,
    /// Samples may lie there that no line accepted.
    doubtful: bool,
}

#[derive(Debug)]
enum Writer {
    Rows(rows::Rows),
    Tensors(tensors::Tensors),
    Tables(tables::Tables),
}

impl Sink {
    /// Opens the directory, made if it is not there.
    pub fn open(dir: &Path, run: &RunSettings) -> Result<Self, SinkError> {
        Self::open_rolling(dir, run, ROLL_BYTES)
    }

    fn open_rolling(dir: &Path, run: &RunSettings, roll_bytes: u64) -> Result<Self, SinkError> {
        std::fs::create_dir_all(dir).map_err(SinkError::io(dir))?;
        settings::check(dir, run)?;
        let (attempts, lines) = attempts::Attempts::open(dir)?;
        settings::write(dir, run)?;
        let writer = match run.format {
            Format::Jsonl => Writer::Rows(rows::Rows::open(dir, roll_bytes, &lines, &|_| false)?),
            Format::Safetensors => Writer::Tensors(tensors::Tensors::open(dir, &lines)?),
            Format::Parquet => Writer::Tables(tables::Tables::open(dir, roll_bytes, &lines)?),
        };
        let settled = lines.into_iter().filter(|line| line.outcome.settles());
        let settled = settled.map(|line| line.attempt_id).collect();
        Ok(Self { dir: dir.to_owned(), writer, attempts, settled, doubtful: false })
    }

    /// Whether an earlier or this run settled the attempt.
    pub fn is_settled(&self, attempt_id: &str) -> bool {
        self.settled.contains(attempt_id)
    }

    /// Writes an attempt's samples, then its line.
    pub fn accept(
        &mut self,
        line: &mut AttemptLine,
        samples: Vec<Sample>,
    ) -> Result<(), SinkError> {
        line.samples = samples.iter().map(|sample| sample.sample_id.clone()).collect();
        self.doubtful = true;
        line.samples_end = match &mut self.writer {
            Writer::Rows(rows) => rows.write(samples)?,
            Writer::Tensors(tensors) => {
                tensors.write(samples)?;
                None
            }
            Writer::Tables(tables) => tables.write(samples)?,
        };
        self.attempts.append(line)?;
        self.doubtful = false;
        if line.outcome.settles() {
            self.settled.insert(line.attempt_id.clone());
        }
        Ok(())
    }

    /// Brings the samples into their last form, once the run is over. Until then, and after a run that
    /// was broken off, samples to be Parquet are there as lines.
    pub fn finish(&mut self) -> Result<(), SinkError> {
        match &mut self.writer {
            Writer::Tables(tables) if !self.doubtful => tables.finish(),
            Writer::Tables(_) | Writer::Rows(_) | Writer::Tensors(_) => Ok(()),
        }
    }

    /// Where logs of a try are to lie.
    pub fn logs(&self, attempt_id: &str, retry: u32) -> PathBuf {
        let name = file_name(attempt_id);
        let name = if retry == 0 { name } else { format!("{name}.retry-{retry}") };
        self.dir.join("logs").join(name)
    }
}

/// An id as the name of a file: what is not plain is replaced, and a digest keeps it unique.
fn file_name(id: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.len() <= 120 && id.chars().all(plain) && !id.starts_with('.') {
        return id.to_owned();
    }
    let replaced = id.chars().take(80).map(|c| if plain(c) { c } else { '_' });
    let digest = blake3::hash(id.as_bytes()).to_hex();
    format!("_{}-{}", replaced.collect::<String>(), &digest[..12])
}

#[cfg(test)]
mod tests;
