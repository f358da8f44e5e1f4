//! `samples-00001.parquet` and on. A Parquet file is readable only once it is whole, so samples are
//! kept as lines ([`Rows`]) until a file's worth is there; then they are put into one Parquet file,
//! which takes the place of the lines. What a crash interrupts is there as lines.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use rollgate_pipeline::sample::Sample;

use super::parquet::ParquetFile;
use super::rows::{self, Rows};
use super::{AttemptLine, FileEnd, SinkError};
use crate::limits::PARQUET_GROUP_BYTES;

#[derive(Debug)]
pub(super) struct Tables {
    dir: PathBuf,
    rows: Rows,
}

impl Tables {
    /// Goes on behind the last accepted attempt.
    pub(super) fn open(dir: &Path, roll: u64, lines: &[AttemptLine]) -> Result<Self, SinkError> {
        let sealed = |index| dir.join(name(index)).exists();
        Ok(Self { dir: dir.to_owned(), rows: Rows::open(dir, roll, lines, &sealed)? })
    }

    /// Writes the samples of one attempt and makes them durable. Where they end, until they are put
    /// into a Parquet file.
    pub(super) fn write(&mut self, samples: Vec<Sample>) -> Result<Option<FileEnd>, SinkError> {
        if self.rows.is_full() {
            self.finish()?;
        }
        self.rows.write(samples)
    }

    /// Puts what lies there as lines into a Parquet file.
    pub(super) fn finish(&mut self) -> Result<(), SinkError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let index = self.rows.index();
        let (from, to) = (self.dir.join(rows::name(index)), self.dir.join(name(index)));
        let temporary = to.with_extension("parquet.tmp");
        convert(&from, &temporary)?;
        std::fs::rename(&temporary, &to).map_err(SinkError::io(&to))?;
        let dir = File::open(&self.dir).and_then(|dir| dir.sync_all());
        dir.map_err(SinkError::io(&self.dir))?;
        self.rows.roll();
        std::fs::remove_file(&from).map_err(SinkError::io(&from))
    }
}

fn name(index: u32) -> String {
    format!("samples-{index:05}.parquet")
}

fn convert(from: &Path, to: &Path) -> Result<(), SinkError> {
    let io = SinkError::io;
    let damaged = |path: &Path, error: &dyn std::fmt::Display| SinkError::Damaged {
        path: path.to_owned(),
        what: error.to_string(),
    };
    let written = File::create(to).map_err(io(to))?;
    let mut file = ParquetFile::new(written, PARQUET_GROUP_BYTES).map_err(|e| damaged(to, &e))?;
    let lines = BufReader::new(File::open(from).map_err(io(from))?);
    for sample in serde_json::Deserializer::from_reader(lines).into_iter::<Sample>() {
        let sample = sample.map_err(|e| damaged(from, &e))?;
        file.push(sample).map_err(|e| damaged(to, &e))?;
    }
    let file = file.finish().map_err(|e| damaged(to, &e))?;
    file.sync_all().map_err(io(to))
}
