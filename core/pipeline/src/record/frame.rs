//! Frames: how records lie in a journal file, and how a torn end is told from damage.

use bytes::Bytes;

use super::Record;
use crate::limits::FRAME_BYTES;

const MAGIC: [u8; 4] = *b"RGJ1";
const HEAD_BYTES: usize = 4 + 4 + 8;
/// Room that is made for the JSON part before it is written.
const USUAL_JSON_BYTES: usize = 8 << 10;

/// Why a frame cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The record is larger than [`FRAME_BYTES`].
    #[error("a record of {0} bytes is over the frame limit")]
    TooLarge(usize),
    /// The JSON part is not what this version writes.
    #[error("a journal record cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// Lengths inside the payload contradict each other.
    #[error("a journal record's columns are damaged: {0}")]
    Columns(&'static str),
    /// Turns are counted without gaps, and a parent comes before its child.
    #[error("the journal's turn {0} is out of order: its trajectory cannot be known")]
    OutOfOrder(u32),
    /// A frame in the middle of the file does not match its checksum.
    #[error("the journal is damaged at byte {0}: bytes after the bad frame would be lost")]
    Damaged(u64),
}

/// A frame of what these two write, the JSON part and the columns, of which `column_bytes` is about
/// the length.
pub(super) fn write(
    column_bytes: usize,
    json: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
    columns: impl FnOnce(&mut Vec<u8>),
) -> Result<Bytes, FrameError> {
    let mut frame = Vec::with_capacity(USUAL_JSON_BYTES + column_bytes);
    frame.extend_from_slice(&[0; HEAD_BYTES + 4]);
    json(&mut frame)?;
    let json_bytes = frame.len() - HEAD_BYTES - 4;
    columns(&mut frame);
    let length = frame.len() - HEAD_BYTES;
    if length > FRAME_BYTES {
        return Err(FrameError::TooLarge(length));
    }
    frame[HEAD_BYTES..HEAD_BYTES + 4].copy_from_slice(&(json_bytes as u32).to_le_bytes());
    let sum = checksum(&frame[HEAD_BYTES..]);
    let (head, _) = frame.split_at_mut(HEAD_BYTES);
    head[..4].copy_from_slice(&MAGIC);
    head[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    head[8..].copy_from_slice(&sum);
    Ok(frame.into())
}

pub(super) fn split(payload: &[u8]) -> Result<(&[u8], &[u8]), FrameError> {
    let (length, rest) =
        payload.split_first_chunk::<4>().ok_or(FrameError::Columns("no JSON length"))?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
        .ok_or(FrameError::Columns("the JSON part is longer than the frame"))
}

fn checksum(payload: &[u8]) -> [u8; 8] {
    let mut sum = [0; 8];
    sum.copy_from_slice(&blake3::hash(payload).as_bytes()[..8]);
    sum
}

/// What follows the last good frame of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tail {
    /// Nothing: the file ends with a whole frame.
    Whole,
    /// An unfinished write. Cut the file at `valid_bytes` and report it.
    Torn {
        /// Length of the file up to its last good frame.
        valid_bytes: u64,
        /// How many bytes are to be cut.
        lost_bytes: u64,
    },
}

/// Reads the records of a journal file held in memory.
pub struct Frames<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Frames<'a> {
    /// Starts at the beginning of the file.
    pub fn new(file: &'a [u8]) -> Self {
        Self { file, at: 0 }
    }

    /// All records and the state of the file's end.
    pub fn read_all(mut self) -> Result<(Vec<Record>, Tail), FrameError> {
        let mut records = Vec::new();
        let mut turns = 0;
        while let Some(payload) = self.next_payload() {
            let record = Record::from_payload(payload)?;
            if let Record::Turn(turn) = &record {
                if turn.turn.0 != turns || turn.parent.is_some_and(|parent| parent.0 >= turns) {
                    return Err(FrameError::OutOfOrder(turn.turn.0));
                }
                turns += 1;
            }
            records.push(record);
        }
        let (valid, rest) = (self.at, &self.file[self.at..]);
        if rest.is_empty() {
            return Ok((records, Tail::Whole));
        }
        if has_frame_behind(rest) || is_damaged(rest) {
            return Err(FrameError::Damaged(valid as u64));
        }
        let tail = Tail::Torn { valid_bytes: valid as u64, lost_bytes: rest.len() as u64 };
        Ok((records, tail))
    }

    fn next_payload(&mut self) -> Option<&'a [u8]> {
        let (payload, length) = whole_frame(&self.file[self.at..])?;
        self.at += length;
        Some(payload)
    }
}

fn whole_frame(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let head = bytes.first_chunk::<HEAD_BYTES>()?;
    if head[..4] != MAGIC {
        return None;
    }
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let payload = bytes.get(HEAD_BYTES..HEAD_BYTES.checked_add(length)?)?;
    (checksum(payload) == head[8..16]).then_some((payload, HEAD_BYTES + length))
}

/// A frame whose every byte is there and that does not match its checksum was not torn: it was
/// changed. Only a power loss leaves the end of a file as zeros.
fn is_damaged(rest: &[u8]) -> bool {
    let Some(head) = rest.first_chunk::<HEAD_BYTES>() else { return false };
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let whole = head[..4] == MAGIC && rest.len() >= HEAD_BYTES.saturating_add(length);
    whole && !rest.ends_with(&[0; 16])
}

/// A torn write is the last thing in a file. A good frame behind a bad one means damage.
fn has_frame_behind(rest: &[u8]) -> bool {
    rest.windows(4)
        .enumerate()
        .skip(1)
        .any(|(at, magic)| *magic == MAGIC && whole_frame(&rest[at..]).is_some())
}
