//! What is kept of a session: the journal's records and frames. Version 1.
//!
//! A journal is one append-only file per session: an opening record, one record per turn, what
//! became of answers that did not reach their agent, rewards, and a seal. A frame is `"RGJ1"`, payload length (u32 LE), the first 8 bytes of blake3 of the
//! payload, then the payload: length of the JSON part (u32 LE), JSON, columns. JSON makes adding a
//! field a compatible change; ids and log-probabilities are little-endian columns behind it.

mod frame;
mod session;
mod turn;

pub use frame::{FrameError, Frames, Tail};
pub use session::{
    Budget, Delivery, HistoryMode, Opened, Retention, Reward, Sealed, SessionOptions,
};
pub use turn::{TurnRecord, TurnTimes};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One entry of a journal.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// The session came to be. Always first.
    Opened(Box<Opened>),
    /// An exchange that sampled tokens.
    Turn(Box<TurnRecord>),
    /// An answer did not reach the agent, or did so later.
    Delivery(Delivery),
    /// A reward was set; the last one counts.
    Reward(Reward),
    /// No more turns.
    Sealed(Sealed),
}

/// The JSON part of a frame, as it is read.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Meta {
    Opened(Box<Opened>),
    Turn(Box<TurnRecord>),
    Delivery(Delivery),
    Reward(Reward),
    Sealed(Sealed),
}

/// The JSON part of a frame, as it is written: nothing is copied for it.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Shown<'a> {
    Opened(&'a Opened),
    Turn(&'a TurnRecord),
    Delivery(&'a Delivery),
    Reward(&'a Reward),
    Sealed(&'a Sealed),
}

impl Record {
    /// The record as one journal frame.
    pub fn to_frame(mut self) -> Result<Bytes, FrameError> {
        self.frame()
    }

    /// The record as one journal frame. It changes nothing that can be seen of the record.
    pub(crate) fn frame(&mut self) -> Result<Bytes, FrameError> {
        let shown = match self {
            Record::Turn(turn) => return turn.frame(),
            Record::Opened(opened) => Shown::Opened(opened),
            Record::Delivery(delivery) => Shown::Delivery(delivery),
            Record::Reward(reward) => Shown::Reward(reward),
            Record::Sealed(sealed) => Shown::Sealed(sealed),
        };
        frame::write(0, |out| serde_json::to_writer(out, &shown), |_| {})
    }

    fn from_payload(payload: &[u8]) -> Result<Self, FrameError> {
        let (json, columns) = frame::split(payload)?;
        Ok(match serde_json::from_slice(json)? {
            Meta::Opened(opened) => Record::Opened(opened),
            Meta::Turn(mut turn) => {
                turn.put_columns(columns)?;
                Record::Turn(turn)
            }
            Meta::Delivery(delivery) => Record::Delivery(delivery),
            Meta::Reward(reward) => Record::Reward(reward),
            Meta::Sealed(sealed) => Record::Sealed(sealed),
        })
    }
}

impl TurnRecord {
    /// The record as one journal frame.
    pub(crate) fn frame(&mut self) -> Result<Bytes, FrameError> {
        self.columns = self.column_lengths();
        let turn = &*self;
        let json = |out: &mut Vec<u8>| serde_json::to_writer(out, &Shown::Turn(turn));
        let frame = frame::write(turn.column_bytes(), json, |out| turn.write_columns(out));
        self.columns = [0; 3];
        frame
    }
}

#[cfg(test)]
pub(crate) mod tests;
