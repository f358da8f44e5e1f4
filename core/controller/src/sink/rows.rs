//! `samples-00001.jsonl` and on: one sample a line. The lines of an attempt lie in one file.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use rollgate_pipeline::sample::Sample;

use super::{AttemptLine, FileEnd, SinkError};

/// Samples as lines, each ended.
pub fn to_jsonl(samples: &[Sample]) -> Result<Vec<u8>, SinkError> {
    let mut bytes = Vec::new();
    for sample in samples {
        serde_json::to_writer(&mut bytes, sample).map_err(|e| SinkError::Sample {
            sample_id: sample.sample_id.clone(),
            what: e.to_string(),
        })?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}

/// The file that is being written.
#[derive(Debug)]
pub(super) struct Rows {
    dir: PathBuf,
    roll_bytes: u64,
    index: u32,
    open: Option<File>,
    valid_bytes: u64,
}

impl Rows {
    /// Goes on behind the last accepted attempt; what lies behind it is cut off. `sealed`: whether the
    /// samples of the file of this number were put elsewhere for good.
    pub(super) fn open(
        dir: &Path,
        roll: u64,
        lines: &[AttemptLine],
        sealed: &dyn Fn(u32) -> bool,
    ) -> Result<Self, SinkError> {
        let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
        for end in lines.iter().filter_map(|line| line.samples_end.as_ref()) {
            let bytes = ends.entry(&end.file).or_default();
            *bytes = end.bytes.max(*bytes);
        }
        let mut rows =
            Self { dir: dir.to_owned(), roll_bytes: roll, index: 1, open: None, valid_bytes: 0 };
        for index in 1.. {
            let (path, name) = (dir.join(name(index)), name(index));
            let valid = ends.get(name.as_str()).copied();
            if sealed(index) {
                if path.exists() {
                    std::fs::remove_file(&path).map_err(SinkError::io(&path))?;
                }
                (rows.index, rows.valid_bytes) = (index + 1, 0);
                continue;
            }
            match (path.metadata(), valid) {
                (Err(_), None) => break,
                (Ok(_), None) => std::fs::remove_file(&path).map_err(SinkError::io(&path))?,
                (Ok(found), Some(bytes)) if found.len() >= bytes => {
                    cut(&path, bytes)?;
                    (rows.index, rows.valid_bytes) = (index, bytes);
                }
                (_, Some(bytes)) => {
                    let what = format!("accepted samples are gone: {bytes} bytes were written");
                    return Err(SinkError::Damaged { path, what });
                }
            }
        }
        Ok(rows)
    }

    /// Writes the samples of one attempt and makes them durable. Where they end.
    pub(super) fn write(&mut self, samples: Vec<Sample>) -> Result<Option<FileEnd>, SinkError> {
        if samples.is_empty() {
            return Ok(None);
        }
        let bytes = to_jsonl(&samples)?;
        if self.is_full() {
            self.roll();
        }
        let path = self.dir.join(name(self.index));
        let written = self.append(&path, &bytes);
        if let Err(source) = written {
            self.open = None;
            cut(&path, self.valid_bytes)?;
            return Err(SinkError::Io { path, source });
        }
        self.valid_bytes += bytes.len() as u64;
        Ok(Some(FileEnd { file: name(self.index), bytes: self.valid_bytes }))
    }

    /// Whether the next attempt belongs into another file.
    pub(super) fn is_full(&self) -> bool {
        self.valid_bytes >= self.roll_bytes
    }

    /// Whether the file has no samples yet.
    pub(super) fn is_empty(&self) -> bool {
        self.valid_bytes == 0
    }

    /// Number of the file.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Begins the next file.
    pub(super) fn roll(&mut self) {
        (self.index, self.valid_bytes, self.open) = (self.index + 1, 0, None);
    }

    fn append(&mut self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        let file = match &mut self.open {
            Some(file) => file,
            closed => closed.insert(OpenOptions::new().create(true).append(true).open(path)?),
        };
        file.write_all(bytes)?;
        file.sync_data()
    }
}

/// Name of the file of this number.
pub(super) fn name(index: u32) -> String {
    format!("samples-{index:05}.jsonl")
}

fn cut(path: &Path, bytes: u64) -> Result<(), SinkError> {
    let file = OpenOptions::new().write(true).open(path).map_err(SinkError::io(path))?;
    file.set_len(bytes).map_err(SinkError::io(path))
}
