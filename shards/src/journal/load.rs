//! Reading a session's journal back.

use std::io;
use std::path::Path;

use crate::rt::fs::File;
use rollgate_pipeline::planted::{self, Bug};
use rollgate_pipeline::record::{Frames, Record, Tail};

use crate::bounds::{JOURNAL_BYTES, LOAD_CHUNK_BYTES};

/// What a journal says.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// There is none, or its session was never answered for.
    Nothing,
    /// The records of a file that is now `bytes` long.
    Records {
        records: Vec<Record>,
        bytes: u64,
        /// What an unfinished write had left at the end. It is cut off.
        torn_bytes: u64,
    },
}

/// Reads the file and cuts a torn tail. Errors say what is wrong with it.
pub(crate) async fn load(path: &Path) -> Result<Loaded, String> {
    let bytes = match read_whole(path).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::Nothing),
        Err(error) => return Err(format!("the session's journal cannot be read: {error}")),
    };
    let (records, tail) = Frames::new(&bytes).read_all().map_err(|error| error.to_string())?;
    if records.is_empty() {
        return Ok(Loaded::Nothing);
    }
    let (bytes, torn_bytes) = match tail {
        Tail::Whole => (bytes.len() as u64, 0),
        Tail::Torn { .. } if planted::on(Bug::TornEndKept) => (bytes.len() as u64, 0),
        Tail::Torn { valid_bytes, lost_bytes } => {
            super::cut(path, valid_bytes)
                .map_err(|error| format!("the torn end of a journal cannot be cut: {error}"))?;
            (valid_bytes, lost_bytes)
        }
    };
    Ok(Loaded::Records { records, bytes, torn_bytes })
}

async fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path).await?;
    let mut whole = Vec::new();
    let mut chunk = Vec::with_capacity(64 << 10);
    loop {
        let (read, filled) = file.read_at(chunk, whole.len() as u64).await;
        chunk = filled;
        let read = read?;
        if read == 0 {
            return Ok(whole);
        }
        whole.extend_from_slice(&chunk[..read]);
        if whole.len() as u64 > JOURNAL_BYTES {
            return Err(io::Error::other(format!("it is larger than {JOURNAL_BYTES} bytes")));
        }
        chunk.clear();
        chunk.reserve(whole.len().min(LOAD_CHUNK_BYTES));
    }
}
