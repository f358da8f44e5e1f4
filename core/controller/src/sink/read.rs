//! Reading samples back, from a file or an out directory, in any format.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use rollgate_pipeline::sample::Sample;
use serde::Deserialize;

use super::parquet::Rows;
use super::tensors::from_safetensors;
use crate::limits::LINE_BYTES;

/// Where a sample lies.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Location {
    /// The file.
    pub path: PathBuf,
    /// The line or row, counted from 1, where a file has many samples.
    pub line: Option<u64>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.path.display()),
            None => write!(f, "{}", self.path.display()),
        }
    }
}

/// Why samples cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The disk.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Which file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// What is there is not a sample.
    #[error("{at}: {what}")]
    NotASample {
        /// Where.
        at: Location,
        /// Why not.
        what: String,
    },
    /// There is nothing to read.
    #[error("{0} holds no samples (samples-*.jsonl, samples-*.parquet or *.safetensors)")]
    Nothing(PathBuf),
    /// The file is of another kind.
    #[error("{0} is neither .jsonl nor .parquet nor .safetensors")]
    UnknownKind(PathBuf),
}

/// Samples, read one at a time. A bad one is an error in its place; the next call goes on behind it.
pub struct Samples {
    files: VecDeque<PathBuf>,
    open: Option<Open>,
}

/// A file of many samples.
enum Open {
    Lines(Lines),
    Rows { path: PathBuf, rows: Rows, row: u64 },
}

impl Open {
    fn next(&mut self) -> Option<Result<(Location, Sample), ReadError>> {
        match self {
            Open::Lines(lines) => lines.next(),
            Open::Rows { path, rows, row } => {
                let read = rows.next()?;
                *row += 1;
                let at = Location { path: path.clone(), line: Some(*row) };
                Some(match read {
                    Ok(sample) => known_format(at, sample),
                    Err(what) => Err(ReadError::NotASample { at, what }),
                })
            }
        }
    }
}

/// The samples of a file, of an out directory, or of a directory of sample files.
pub fn read_samples(path: &Path) -> Result<Samples, ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let files = if std::fs::metadata(path).map_err(io)?.is_dir() {
        let mut files = sample_files(path)?;
        let below = path.join("samples");
        if below.is_dir() {
            files.extend(sample_files(&below)?);
        }
        files
    } else if kind(path).is_some() {
        vec![path.to_owned()]
    } else {
        return Err(ReadError::UnknownKind(path.to_owned()));
    };
    if files.is_empty() {
        return Err(ReadError::Nothing(path.to_owned()));
    }
    Ok(Samples { files: files.into(), open: None })
}

fn sample_files(dir: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let io = |source| ReadError::Io { path: dir.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let wanted = match kind(&path) {
            // Lines that were put into a table, but are not removed yet, are there twice.
            Some(Kind::Lines) => {
                name.starts_with("samples") && !path.with_extension("parquet").exists()
            }
            Some(Kind::Table) => name.starts_with("samples"),
            Some(Kind::Tensors) => true,
            None => false,
        };
        if wanted && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[derive(Clone, Copy)]
enum Kind {
    Lines,
    Tensors,
    Table,
}

fn kind(path: &Path) -> Option<Kind> {
    match path.extension()?.to_str()? {
        "jsonl" | "ndjson" => Some(Kind::Lines),
        "safetensors" => Some(Kind::Tensors),
        "parquet" => Some(Kind::Table),
        _ => None,
    }
}

impl Iterator for Samples {
    type Item = Result<(Location, Sample), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(open) = &mut self.open {
                match open.next() {
                    Some(item) => return Some(item),
                    None => self.open = None,
                }
            }
            let path = self.files.pop_front()?;
            let opened = match kind(&path) {
                Some(Kind::Lines) => Lines::open(path).map(Open::Lines),
                Some(Kind::Table) => table(path),
                _ => return Some(tensors(path)),
            };
            match opened {
                Ok(open) => self.open = Some(open),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn table(path: PathBuf) -> Result<Open, ReadError> {
    match Rows::open(&path) {
        Ok(rows) => Ok(Open::Rows { path, rows, row: 0 }),
        Err(what) => Err(ReadError::NotASample { at: Location { path, line: None }, what }),
    }
}

fn tensors(path: PathBuf) -> Result<(Location, Sample), ReadError> {
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(source) => return Err(ReadError::Io { path, source }),
    };
    let at = Location { path, line: None };
    match from_safetensors(&bytes) {
        Ok(sample) => known_format(at, sample),
        Err(what) => Err(ReadError::NotASample { at, what }),
    }
}

fn known_format(at: Location, sample: Sample) -> Result<(Location, Sample), ReadError> {
    match sample.format {
        1 => Ok((at, sample)),
        other => Err(ReadError::NotASample { at, what: other_format(other) }),
    }
}

fn other_format(format: u32) -> String {
    format!("sample format {format} is not known to this version, which reads format 1")
}

struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    line: u64,
    broken: bool,
}

impl Lines {
    fn open(path: PathBuf) -> Result<Self, ReadError> {
        match File::open(&path) {
            Ok(file) => Ok(Self { path, reader: BufReader::new(file), line: 0, broken: false }),
            Err(source) => Err(ReadError::Io { path, source }),
        }
    }

    fn next(&mut self) -> Option<Result<(Location, Sample), ReadError>> {
        loop {
            if self.broken {
                return None;
            }
            let mut text = Vec::new();
            match self.reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut text) {
                Ok(0) => return None,
                Ok(_) => self.line += 1,
                Err(source) => {
                    self.broken = true;
                    return Some(Err(ReadError::Io { path: self.path.clone(), source }));
                }
            }
            if !text.trim_ascii().is_empty() {
                return Some(self.sample(&text));
            }
        }
    }

    fn sample(&mut self, text: &[u8]) -> Result<(Location, Sample), ReadError> {
        let at = Location { path: self.path.clone(), line: Some(self.line) };
        if !text.ends_with(b"\n") && text.len() as u64 >= LINE_BYTES {
            self.broken = true;
            let what = format!("the line is over the limit of {LINE_BYTES} bytes");
            return Err(ReadError::NotASample { at, what });
        }
        match serde_json::from_slice::<Sample>(text) {
            Ok(sample) => known_format(at, sample),
            Err(error) => {
                let what = match serde_json::from_slice(text) {
                    Ok(FormatOnly { format }) if format != 1 => other_format(format),
                    _ if !text.ends_with(b"\n") => format!("an unfinished line: {error}"),
                    _ => format!("not a sample: {error}"),
                };
                Err(ReadError::NotASample { at, what })
            }
        }
    }
}

#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}
