//! Reading a session's journal.
//!
//! The file may be written to at this moment, so an unfinished last frame is normal: it is left out
//! and reported. Damage before a good frame is an error.

use std::path::{Path, PathBuf};

use rollgate_pipeline::record::{FrameError, Frames, Record, Tail};

use crate::limits::JOURNAL_BYTES;

/// What a journal held when it was read.
#[derive(Debug)]
pub struct Journal {
    /// Whole records, in order.
    pub records: Vec<Record>,
    /// Bytes of an unfinished last frame.
    pub torn_bytes: u64,
}

/// Why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be read.
    #[error("cannot read the journal {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is over [`JOURNAL_BYTES`].
    #[error("the journal {path} of {bytes} bytes is over the limit")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The file is damaged.
    #[error("{path}: {source}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and how.
        source: FrameError,
    },
    /// The reading thread ended early.
    #[error("reading the journal was broken off: {0}")]
    Broken(String),
}

/// Reads a journal without holding up the executor.
pub async fn read(path: PathBuf) -> Result<Journal, JournalError> {
    tokio::task::spawn_blocking(move || read_blocking(&path))
        .await
        .unwrap_or_else(|e| Err(JournalError::Broken(e.to_string())))
}

/// Reads a journal on this thread.
pub fn read_blocking(path: &Path) -> Result<Journal, JournalError> {
    let io = |source| JournalError::Io { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(io)?.len();
    if bytes > JOURNAL_BYTES {
        return Err(JournalError::TooLarge { path: path.to_owned(), bytes });
    }
    let file = std::fs::read(path).map_err(io)?;
    let (records, tail) = Frames::new(&file)
        .read_all()
        .map_err(|source| JournalError::Damaged { path: path.to_owned(), source })?;
    let torn_bytes = match tail {
        Tail::Whole => 0,
        Tail::Torn { lost_bytes, .. } => lost_bytes,
    };
    Ok(Journal { records, torn_bytes })
}

#[cfg(test)]
mod tests {
    use rollgate_pipeline::record::Reward;

    use super::*;

    fn frame(reward: f64) -> Vec<u8> {
        let reward = Reward { reward: Some(reward), parts: Default::default() };
        Record::Reward(reward).to_frame().unwrap().to_vec()
    }

    #[tokio::test]
    async fn a_torn_end_is_left_out_and_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let (first, second) = (frame(1.0), frame(2.0));
        for cut in 0..=second.len() {
            std::fs::write(&path, [&first[..], &second[..cut]].concat()).unwrap();
            let journal = read(path.clone()).await.unwrap();
            let whole = cut == second.len();
            assert_eq!(journal.records.len(), if whole { 2 } else { 1 });
            assert_eq!(journal.torn_bytes, if whole { 0 } else { cut as u64 });
        }
    }

    #[test]
    fn damage_and_absence_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        assert!(matches!(read_blocking(&path), Err(JournalError::Io { .. })));
        let mut bytes = [frame(1.0), frame(2.0)].concat();
        bytes[20] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(read_blocking(&path), Err(JournalError::Damaged { .. })));
    }
}
